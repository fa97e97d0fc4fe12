#!/usr/bin/env bash
# Makes the repository that experiments on real models name, demo/experiment-models: models of scripts/make_models.py,
# cut into stages, each with the profile that `tutti profile` measures on this machine. Takes two minutes on an otherwise idle
# machine. Existing models are kept; remove the folder to make them again.
set -euo pipefail
cd "$(dirname "$0")/.."
export ORT_DISABLE_TELEMETRY=1
tutti=${TUTTI:-build/tutti}
models=${1:-demo/experiment-models}
[ -x "$tutti" ] || { echo "experiment_models: $tutti is missing; run make build" >&2; exit 1; }
scripts/setup.sh --python
.deps/venv/bin/python scripts/make_models.py --out "$models" --only cnn minilm seq2seq256 tree256 chain1024

# The settings of an experiment: no objective and no policy, which the experiment says.
if [ ! -f "$models/cnn/.settled" ]; then
  echo 'stages { count: 4 }' > "$models/cnn/tutti.pbtxt"
  touch "$models/cnn/.settled"
fi
if [ -d "$models/minilm" ] && [ ! -f "$models/minilm/.settled" ]; then
  {
    echo 'stages { count: 7 length: 32 }'
    echo 'length { classes: [ 8, 32 ] pad: true }'
  } > "$models/minilm/tutti.pbtxt"
  touch "$models/minilm/.settled"
fi
for model in cnn minilm seq2seq256 tree256 chain1024; do
  [ ! -d "$models/$model" ] || [ -f "$models/$model/profile.pbtxt" ] || "$tutti" profile "$models/$model"
done
echo "experiment_models: $models is there" >&2
