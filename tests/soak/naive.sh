#!/bin/sh
# The policies against their naive models, longer: SOAK_CASES (300000) random cases of each from SOAK_SEED (1) on, and
# every small case of up to SOAK_REQUESTS (4) requests. A difference prints the case and what was done in it. BUILD is
# the build folder (build).
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
for program in test_policy_naive test_policy_exhausted; do
    if [ ! -x "$build/$program" ]; then
        echo "naive.sh: no $build/$program; run 'make build' first, or say BUILD=<your build folder>" >&2
        exit 2
    fi
done
TUTTI_SEED="${SOAK_SEED:-1}" TUTTI_TEST_CASES="${SOAK_CASES:-300000}" "$build/test_policy_naive"
TUTTI_TEST_EXHAUST="${SOAK_REQUESTS:-4}" "$build/test_policy_exhausted"
