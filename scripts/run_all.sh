#!/usr/bin/env bash
# Runs every FOLDER/*.sh from the root of the tree, all of them even when one fails; says which failed.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?usage: scripts/run_all.sh FOLDER}
shopt -s nullglob
scripts=("$folder"/*.sh)
if [ ${#scripts[@]} = 0 ]; then
  echo "$folder: nothing to run yet"
  exit 0
fi
failed=
for script in "${scripts[@]}"; do
  echo "== $script"
  bash "$script" || failed="$failed $script"
done
if [ -n "$failed" ]; then
  echo "$folder: failed:$failed" >&2
  exit 1
fi
