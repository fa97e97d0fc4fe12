#!/usr/bin/env bash
# A cluster of eight processes on this machine: 2 schedulers, 2 frontends, 4 backends with 2 emulated devices each. It prints a
# request to try and the command that kills the primary; Ctrl-C ends everything. HAProxy joins where it is installed, and etcd where
# it is installed or unpacked (scripts/setup.sh --etcd); ETCD= does without.
#   PROGRAM (build/tutti), FOLDER (build/cluster), MODELS (an echo model of its own), PORT (7100: the first of 20 ports)
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${PROGRAM:-build/tutti}")
folder=${FOLDER:-build/cluster}
port=${PORT:-7100}
mkdir -p "$folder"
folder=$(realpath "$folder")
models=${MODELS:-$folder/models}
if [ ! -d "$models" ]; then
  mkdir -p "$models/echo/1"
  cat >"$models/echo/config.pbtxt" <<'MODEL'
backend: "emulated" max_batch_size: 32
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 4 }
MODEL
  echo 'slo_ms: 200' >"$models/echo/tutti.pbtxt"
  echo 'linear { alpha_ms: 0.05 beta_ms: 1 }' >"$models/echo/profile.pbtxt"
fi

nodes=(scheduler:s1 scheduler:s2 frontend:f1 frontend:f2 backend:b1 backend:b2 backend:b3 backend:b4)
: >"$folder/nodes"
for i in "${!nodes[@]}"; do
  extra=
  [[ ${nodes[i]} == backend:* ]] && extra=" devices=2"
  echo "${nodes[i]%%:*} ${nodes[i]##*:} 127.0.0.1:$((port + i))$extra" >>"$folder/nodes"
done
if [ -n "${TIMES:-}" ]; then echo "$TIMES" >>"$folder/nodes"; fi
spec=static:$folder/nodes
unpacked=.deps/etcd/usr/bin/etcd
[ -x "$unpacked" ] || unpacked=$(command -v etcd || true)
etcd=${ETCD-$unpacked}

# All processes, also those that something started again.
pids() { "$program" cluster status "static:$folder/nodes" --json --timeout 0.5 | sed -n 's/.*"pid": \([0-9]*\).*/\1/p' || true; }
end() {
  trap '' INT TERM EXIT
  mapfile -t found < <(pids)
  kill -CONT "${started[@]}" "${found[@]}" 2>/dev/null || true
  kill "${started[@]}" "${found[@]}" 2>/dev/null || true
  wait || true
}
started=()
trap end EXIT
trap 'exit 0' INT TERM

if [ -n "$etcd" ]; then
  url=http://127.0.0.1:$((port + 15)) peers=http://127.0.0.1:$((port + 16))
  rm -rf "$folder/etcd"
  "$etcd" --data-dir "$folder/etcd" --listen-client-urls "$url" --advertise-client-urls "$url" --listen-peer-urls "$peers" \
    --initial-advertise-peer-urls "$peers" --initial-cluster "default=$peers" >"$folder/etcd.log" 2>&1 &
  started+=($!)
  put="{\"key\": \"$(printf tutti/cluster/nodes | base64 -w0)\", \"value\": \"$(base64 -w0 <"$folder/nodes")\"}"
  curl -sf --retry 100 --retry-delay 0 --retry-max-time 30 --retry-connrefused "$url/v3/kv/put" -d "$put" >"$folder/etcd.put" || {
    echo "etcd does not answer; its log is $folder/etcd.log" >&2
    exit 1
  }
  spec=etcd://127.0.0.1:$((port + 15))/cluster
fi

for i in "${!nodes[@]}"; do
  role=${nodes[i]%%:*} name=${nodes[i]##*:}
  http=0
  [ "$role" = frontend ] && http=$((port + 10 + i - 2))
  ORT_DISABLE_TELEMETRY=1 "$program" serve --model-repository "$models" --role "$role" --cluster "$spec" --node "$name" \
    --http-port "$http" --grpc-port 0 2>"$folder/$name.log" &
  started+=($!)
done
first=$((port + 10))
for _ in $(seq 300); do
  if curl -sf "http://127.0.0.1:$first/v2/health/ready" && curl -sf "http://127.0.0.1:$((first + 1))/v2/health/ready"; then
    ready=1
    break
  fi
  sleep 0.1
done
if [ -z "${ready:-}" ]; then
  echo "the cluster does not get ready; logs are in $folder" >&2
  exit 1
fi
url=http://127.0.0.1:$first
if command -v haproxy >/dev/null; then
  cat >"$folder/haproxy.cfg" <<PROXY
defaults
  mode http
  timeout connect 1s
  timeout client 60s
  timeout server 60s
  retries 3
  retry-on conn-failure empty-response
frontend clients
  bind 127.0.0.1:$((port + 19))
  default_backend frontends
backend frontends
  option httpchk GET /v2/health/ready
  server f1 127.0.0.1:$first check inter 200ms
  server f2 127.0.0.1:$((first + 1)) check inter 200ms
PROXY
  haproxy -f "$folder/haproxy.cfg" 2>"$folder/haproxy.log" &
  started+=($!)
  url=http://127.0.0.1:$((port + 19))
fi

"$program" cluster status "$spec"
cat <<TEXT

Send a request:     curl $url/v2/models/echo/infer -d '{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}'
Kill the primary:   kill -9 \$($program cluster status $spec --json | jq '.nodes[] | select(.primary).pid')
Kill and freeze:    $program chaos $spec --seconds 20
Ctrl-C ends everything. Logs: $folder/*.log
TEXT
sleep infinity &
started+=($!)
wait
