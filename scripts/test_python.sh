#!/usr/bin/env bash
# The Python that tests run under: .deps/venv where setup could fill it, else the machine's own.
deps=$(dirname "$0")/../.deps
if [ -e "$deps/venv/.packages" ]; then
  exec "$deps/venv/bin/python" -B "$@"
fi
exec python3 -B "$@"
