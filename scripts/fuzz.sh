#!/usr/bin/env bash
# Builds every tests/fuzz/fuzz_*.c with clang's libFuzzer, AddressSanitizer and UBSan, and runs each for FUZZ_SECONDS.
# The corpus stays in build-fuzz/corpus/, so that the next run goes on from there; the seeds are in tests/fuzz/seeds/<name>/.
# A crash fails, and its input becomes a seed, which every build then tries. Prints for each fuzzer how many of the edges of
# what it links were covered, and the inputs of the corpus; scripts/fuzz_coverage.py says which lines of its parser they reach.
# FUZZERS="fuzz_http1 fuzz_grpc": only these.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-60}
shopt -s nullglob
sources=(tests/fuzz/fuzz_*.c)
if [ -n "${FUZZERS:-}" ]; then
  read -ra names <<<"$FUZZERS"
  sources=("${names[@]/%/.c}")
  sources=("${sources[@]/#/tests/fuzz/}")
fi
if [ ${#sources[@]} = 0 ]; then
  echo "fuzz: no fuzzers yet (tests/fuzz/fuzz_*.c)"
  exit 0
fi
export ORT_DISABLE_TELEMETRY=1
[ -f build-fuzz/build.ninja ] || cmake -B build-fuzz -G Ninja -S . -DCMAKE_C_COMPILER=clang \
  -DTUTTI_FUZZ=ON -DTUTTI_WERROR=OFF -DTUTTI_SANITIZE=fuzzer-no-link,address,undefined
cmake --build build-fuzz --target ${FUZZERS:-fuzzers} -j "$(nproc)"
# libFuzzer's last line has "cov: EDGES ft: FEATURES corp: INPUTS/BYTES"; its first lines say how many edges there are.
coverage() {
  local covered inputs edges
  covered=$(grep -oE 'cov: [0-9]+' "build-fuzz/$1.log" | tail -n 1 | cut -d' ' -f2) || true
  inputs=$(grep -oE 'corp: [0-9]+' "build-fuzz/$1.log" | tail -n 1 | cut -d' ' -f2) || true
  edges=$(grep -oE '\([0-9]+ inline' "build-fuzz/$1.log" | head -n 1 | tr -dc '0-9') || true
  echo "edges covered: ${covered:-?} of ${edges:-?}; inputs in the corpus: ${inputs:-?}"
}

failed=
for source in "${sources[@]}"; do
  name=$(basename "$source" .c)
  mkdir -p "build-fuzz/corpus/$name"
  folders=("build-fuzz/corpus/$name")
  [ -d "tests/fuzz/seeds/$name" ] && folders+=("tests/fuzz/seeds/$name")
  echo "== $name, $seconds s"
  if ! "build-fuzz/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
      -artifact_prefix="build-fuzz/$name-" "${folders[@]}" >"build-fuzz/$name.log" 2>&1; then
    tail -n 40 "build-fuzz/$name.log" >&2
    failed="$failed $name"
    mkdir -p "tests/fuzz/seeds/$name"
    for input in build-fuzz/"$name"-*; do # not the program's log
      cp -n "$input" "tests/fuzz/seeds/$name/${input#build-fuzz/"$name"-}"
    done
  else
    grep -E 'stat::(number_of_executed_units|average_exec_per_sec|new_units_added)' "build-fuzz/$name.log" || true
  fi
  coverage "$name"
done
if [ -n "$failed" ]; then
  echo "fuzz: failed:$failed (inputs and logs in build-fuzz/)" >&2
  exit 1
fi
