#!/bin/sh
# The lazy policy longer: SOAK_EVENTS (10^9) random events with its promises held at every one, then SOAK_CASES (300000)
# cases against its naive model, both from SOAK_SEED (1) on. A broken promise names its seed, instant and request; a
# difference its case. BUILD is the build folder (build).
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
for program in test_lazy_million test_lazy_naive; do
    if [ ! -x "$build/$program" ]; then
        echo "lazy.sh: no $build/$program; run 'make build' first, or say BUILD=<your build folder>" >&2
        exit 2
    fi
done
"$build/test_lazy_million" "${SOAK_EVENTS:-1000000000}" "${SOAK_SEED:-1}"
TUTTI_SEED="${SOAK_SEED:-1}" TUTTI_TEST_CASES="${SOAK_CASES:-300000}" "$build/test_lazy_naive"
