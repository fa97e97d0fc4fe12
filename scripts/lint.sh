#!/usr/bin/env bash
# Form, common mistakes, language, layers, requirement citations. Says everything that it finds, then fails; a tool that this
# machine lacks is named and passed over (scripts/setup.sh --lint installs them all).
#
# clang-tidy has a script of its own: scripts/tidy.sh.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
failed=
have() { command -v "$1" >/dev/null || { echo "lint: $1 is not installed; passed over" >&2; return 1; }; }
fails() { failed="$failed $1"; }

mapfile -t c_files < <(find src tests -name '*.[ch]' | sort)
mapfile -t js_files < <(find src -name '*.js' | sort)
mapfile -t shell_files < <(find scripts tests bench packaging -name '*.sh' -o -name '*.bash' -o -name '*.sbatch' | sort; echo .ci/run)

# Formatters of other releases disagree in small things; this one is Debian 12's, and its word counts.
format_release=14
if have clang-format; then
  if clang-format --version | grep -qE "version $format_release\."; then
    if ! said=$(clang-format --dry-run -Werror "${c_files[@]}" "${js_files[@]}" examples/*/*.c 2>&1); then
      # One line per file, its first place; the formatter itself would print every comma.
      grep -E '^[^ ]+:[0-9]+:[0-9]+: ' <<<"$said" | sort -t: -k1,1 -k2,2n | sort -t: -u -s -k1,1 |
        sed -E 's/^([^:]+:[0-9]+):.*/\1: not in the form of .clang-format: make format puts it right/' >&2
      fails clang-format
    fi
  else
    echo "lint: clang-format is not release $format_release; form passed over" >&2
  fi
fi

if have cppcheck; then
  mkdir -p build/cppcheck
  cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
    --cppcheck-build-dir=build/cppcheck -j "$(nproc)" -I src --suppressions-list=scripts/cppcheck.supp \
    --template='{file}:{line}: {severity}: {message} [{id}]' \
    -D_GNU_SOURCE '-DTT_PRINTF(a,b)=' '-DTT_MUST_CHECK=' -U__SANITIZE_ADDRESS__ src || fails cppcheck
fi

if have shellcheck; then
  shellcheck --severity=warning --exclude=SC1091 "${shell_files[@]}" || fails shellcheck
fi

python3 -B scripts/check_language.py || fails check_language
python3 -B scripts/check_layers.py || fails check_layers
python3 -B scripts/check_requirements.py --check || fails check_requirements
python3 -B scripts/npu_profiles.py --check || fails npu_profiles
python3 -B scripts/rnn_profiles.py --check || fails rnn_profiles
python3 -B scripts/decoder_profiles.py --check || fails decoder_profiles

if [ -n "$failed" ]; then
  echo "lint: failed:$failed" >&2
  exit 1
fi
echo "lint: clean"
