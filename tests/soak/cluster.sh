#!/usr/bin/env bash
# The virtual cluster under EVENTS (1e9) events with faults: test_cluster_faults with one seed after another. BUILD is the
# build folder (build), SEED the first seed (1000000). Ends at the first violation, which is printed with its faults.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$(realpath "${BUILD:-build}")/test_cluster_faults
wanted=${EVENTS:-1000000000}
seed=${SEED:-1000000}
done_events=0
while [ "$done_events" -lt "$wanted" ]; do
  if ! output=$(TUTTI_SEED=$seed "$program" 2>&1); then
    echo "$output"
    exit 1
  fi
  done_events=$((done_events + $(sed -n 's/^\([0-9]*\) events.*/\1/p' <<<"$output")))
  seed=$((seed + 400)) # worlds of one run
  printf '\r%d million events' $((done_events / 1000000)) >&2
done
printf '\n' >&2
echo "$done_events events, 0 violations"
