#!/usr/bin/env bash
# What a simulated event costs at 10 .. 10,000 models and devices: a table, and a picture in build/scaling.svg.
# Needs valgrind. Flags: python3 bench/scaling.py --help.
set -euo pipefail
cd "$(dirname "$0")/.."
export ORT_DISABLE_TELEMETRY=1
exec python3 bench/scaling.py "$@"
