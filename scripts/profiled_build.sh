#!/usr/bin/env bash
# Builds what is installed twice, in build-release: the first program runs scheduling, simulations and HTTP requests for a minute, the second
# is compiled by what that one counted. docs/results/PERF.md has the gain. Needs GCC; takes about twice as long as a build.
set -euo pipefail
cd "$(dirname "$0")/.."
export ORT_DISABLE_TELEMETRY=1
folder=build-release
work=$(mktemp -d)
server=
stop() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" || true
    server=
  fi
}
trap 'stop; rm -rf "$work"' EXIT

build() { # generate|use
  echo "profiled_build: $1" >&2
  cmake --preset default -B "$folder" -DTUTTI_PROFILE="$1" > "$work/cmake.log" || { cat "$work/cmake.log" >&2; exit 1; }
  if ! grep -q 'CMAKE_C_COMPILER_ID "GNU"' "$folder"/CMakeFiles/*/CMakeCCompiler.cmake; then
    echo "profiled_build: the compiler is not GCC; use make program, or set CC=gcc and remove $folder" >&2
    exit 1
  fi
  cmake --build "$folder" --target program
}

run() { # a part of what the program is measured at
  "$@" > "$work/out" 2>&1 || { cat "$work/out" >&2; echo "profiled_build: failed: $*" >&2; exit 1; }
}

find "$folder" -name '*.gcda' -delete 2>/dev/null || true
build generate
tutti=$folder/tutti
for file in symphony/table2-resnet50 batchmaker/lstm batchmaker/tree lazybatching/resnet50 dvabatch/linknet e2bird/res152; do
  run "$tutti" experiment "experiments/$file.pbtxt"
done
# Light load is beyond what one thread carries under instrumentation: its exit code says so, and does not matter.
"$tutti" bench scheduler --clock virtual --preset light --seconds 1 > "$work/out" 2>&1 || true
run "$tutti" bench scheduler --clock virtual --preset symphony --seconds 1

mkdir -p "$work/models/echo/1"
echo 'linear { beta_ms: 0.001 }' > "$work/models/echo/profile.pbtxt"
cat > "$work/models/echo/config.pbtxt" <<'EOF'
backend: "emulated"
max_batch_size: 64
input { name: "INPUT0" data_type: TYPE_FP32 dims: 16 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 16 }
EOF
"$tutti" serve --model-repository "$work/models" --http-port 0 --grpc-port 0 2> "$work/serve.log" &
server=$!
address=
for _ in $(seq 600); do
  address=$(sed -n 's/.*models at \(http:[^ ]*\).*/\1/p' "$work/serve.log")
  if [ -n "$address" ] || ! kill -0 "$server" 2>/dev/null; then
    break
  fi
  sleep 0.1
done
[ -n "$address" ] || { cat "$work/serve.log" >&2; echo "profiled_build: the server did not start" >&2; exit 1; }
for body in --binary --json-body; do
  run "$tutti" load "$address" --model echo "$body" --concurrency 64 --requests 40000 --duration 300
  # Refusals: no answer has outputs, which the exit code says.
  "$tutti" load "$address" --model echo "$body" --concurrency 64 --requests 5000 --duration 300 --timeout-us 1 > "$work/out" 2>&1 || true
done
stop
build use
echo "profiled_build: $tutti is compiled by what it does" >&2
