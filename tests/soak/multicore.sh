#!/bin/sh
# The multicore scheduler's threads with random yields wherever they meet, many rounds of test_multicore_threads:
# SOAK_REQUESTS (10^8) from SOAK_SEED (1) on, each answered exactly once. A failure names its seed. BUILD is the build
# folder (build); BUILD=build-tsan runs it under ThreadSanitizer.
set -eu
cd "$(dirname "$0")/../.."
program=${BUILD:-build}/test_multicore_threads
if [ ! -x "$program" ]; then
    echo "multicore.sh: no $program; run 'make build' first, or say BUILD=<your build folder>" >&2
    exit 2
fi
TUTTI_STRESS_REQUESTS="${SOAK_REQUESTS:-100000000}" TUTTI_SEED="${SOAK_SEED:-1}" exec "$program"
