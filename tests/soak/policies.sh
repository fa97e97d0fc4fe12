#!/bin/sh
# The random events of test_policy_million, many more of them: SOAK_EVENTS (10^9) from SOAK_SEED (1) on.
# It prints a line for every ten million; a broken invariant names its policy, seed and instant. BUILD is the build
# folder (build).
set -eu
cd "$(dirname "$0")/../.."
program=${BUILD:-build}/test_policy_million
if [ ! -x "$program" ]; then
    echo "policies.sh: no $program; run 'make build' first, or say BUILD=<your build folder>" >&2
    exit 2
fi
exec "$program" "${SOAK_EVENTS:-1000000000}" "${SOAK_SEED:-1}"
