#!/usr/bin/env bash
# Makes the demo model repository, demo/models, if it is missing or its recipe (make_models.py) changed. Without the sentence
# encoder's weights it makes the other models, and tries again after an hour.
set -euo pipefail
cd "$(dirname "$0")/.."
export ORT_DISABLE_TELEMETRY=1
recipe=scripts/make_models.py
[ -f "$recipe" ] || { echo "demo: $recipe is missing from this tree" >&2; exit 1; }
wanted=$(cat "$recipe" scripts/models/*.py scripts/setup.sh | sha256sum)
if [ -d demo/models ] && [ "$(cat demo/.made 2>/dev/null)" = "$wanted" ]; then
  if [ -d demo/models/minilm ] || [ -z "$(find demo/.made -mmin +60)" ]; then
    exit 0
  fi
fi
if ! scripts/setup.sh --python; then
  if [ -d demo/models ]; then
    echo "demo: serving demo/models as it was made before" >&2
    exit 0
  fi
  echo "demo: cannot make demo/models without these packages; serve a repository of your own with" >&2
  echo "demo:   build/tutti serve --model-repository DIR" >&2
  exit 1
fi
echo "demo: making demo/models" >&2
mkdir -p demo
.deps/venv/bin/python "$recipe" --out demo/models || { echo "demo: $recipe failed" >&2; exit 1; }
echo "$wanted" > demo/.made
