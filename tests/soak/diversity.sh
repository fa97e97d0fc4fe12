#!/bin/sh
# The diversity policy longer: SOAK_WORLDS (20000) random worlds of 600 requests each, with one to five stages, one to six
# executors, any options, early exits, cancellations and deadlines; all books are balanced after every instant, and every
# request must leave. From SOAK_SEED (1) on; a failure names its seed. BUILD is the build folder (build).
set -eu
cd "$(dirname "$0")/../.."
program=${BUILD:-build}/test_diversity
if [ ! -x "$program" ]; then
    echo "diversity.sh: no $program; run 'make build' first, or say BUILD=<your build folder>" >&2
    exit 2
fi
TUTTI_SEED="${SOAK_SEED:-1}" TUTTI_TEST_WORLDS="${SOAK_WORLDS:-20000}" exec "$program"
