#!/usr/bin/env bash
# The multicore scheduler: cost per request over models and devices (a table, and a picture in build/scheduler.svg), and
# what it schedules a second on 1, 2, ... threads. Needs valgrind. Flags: python3 bench/scheduler.py --help.
set -euo pipefail
cd "$(dirname "$0")/.."
export ORT_DISABLE_TELEMETRY=1
exec python3 bench/scheduler.py "$@"
