#!/usr/bin/env bash
# Good clients beside hostile ones for SOAK_SECONDS (1800): see hostile.py, which prints the report.
set -euo pipefail
cd "$(dirname "$0")/../.."
export ORT_DISABLE_TELEMETRY=1
exec scripts/test_python.sh tests/soak/hostile.py
