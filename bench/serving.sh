#!/usr/bin/env bash
# What the server costs per request, alone or in turns with another server that speaks KServe v2.
# Flags: scripts/test_python.sh bench/serving.py --help. Needs Python's numpy and onnx for its models.
set -euo pipefail
cd "$(dirname "$0")/.."
export ORT_DISABLE_TELEMETRY=1
exec scripts/test_python.sh bench/serving.py "$@"
