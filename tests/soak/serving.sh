#!/bin/sh
# A server under a mixed load for SOAK_SECONDS (1800), on loopback, to find memory that is never freed. Prints its memory
# over time; fails if that grows, an answer is wrong, or the counters do not balance. PROGRAM is the server (build/tutti).
set -eu
cd "$(dirname "$0")/../.."
export ORT_DISABLE_TELEMETRY=1
exec nice -n "${SOAK_NICE:-10}" scripts/test_python.sh tests/soak/serving.py "$@"
