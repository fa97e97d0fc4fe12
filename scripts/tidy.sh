#!/usr/bin/env bash
# clang-tidy over the sources of src, or over the files named; the checks stand in .clang-tidy. Needs build/.
# TIDY_NODES (10000): the states that the analyzer visits in each function. Its own default, 225000, takes eight times as
# long.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-tidy >/dev/null || { echo "tidy: clang-tidy is not installed; scripts/setup.sh --tidy installs it" >&2; exit 2; }
[ -f build/compile_commands.json ] || { echo "tidy: build first (make build)" >&2; exit 2; }
if [ $# -gt 0 ]; then files=("$@"); else mapfile -t files < <(find src -name '*.c' | sort); fi
analyzer=(-Xclang -analyzer-config -Xclang "max-nodes=${TIDY_NODES:-10000}")
printf '%s\0' "${files[@]}" |
  xargs -0 -P "$(nproc)" -n 8 clang-tidy --quiet -p build "${analyzer[@]/#/--extra-arg=}" 2>/dev/null || {
  echo "tidy: the above must be mended" >&2
  exit 1
}
echo "tidy: ${#files[@]} files are clean"
