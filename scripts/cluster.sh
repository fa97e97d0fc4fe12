#!/usr/bin/env bash
# A cluster of eight processes on this machine: 2 schedulers, 2 frontends, 4 backends with 2 emulated devices each. It prints a
# request to try and the command that kills the primary; Ctrl-C ends everything. HAProxy (packaging/haproxy.cfg) and etcd join where
# they are installed or unpacked (scripts/setup.sh --haproxy --etcd); HAPROXY= and ETCD= do without.
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
# The one that scripts/setup.sh unpacked, or else the one that is installed.
find_program() { if [ -x "$1" ]; then echo "$1"; else command -v "$2" || true; fi; }
etcd=${ETCD-$(find_program .deps/etcd/usr/bin/etcd etcd)}
haproxy=${HAPROXY-$(find_program .deps/haproxy/haproxy haproxy)}

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
  http=0 grpc=0
  [ "$role" = frontend ] && http=$((port + 10 + i - 2)) grpc=$((port + 12 + i - 2))
  ORT_DISABLE_TELEMETRY=1 "$program" serve --model-repository "$models" --role "$role" --cluster "$spec" --node "$name" \
    --http-port "$http" --grpc-port "$grpc" 2>"$folder/$name.log" &
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
if [ -n "$haproxy" ]; then
  proxy=127.0.0.1:$((port + 19))
  TUTTI_PROXY=$proxy TUTTI_FRONTEND_1=127.0.0.1:$first TUTTI_FRONTEND_2=127.0.0.1:$((first + 1)) \
    TUTTI_PROXY_GRPC=127.0.0.1:$((port + 18)) TUTTI_GRPC_1=127.0.0.1:$((first + 2)) TUTTI_GRPC_2=127.0.0.1:$((first + 3)) \
    "$haproxy" -f packaging/haproxy.cfg >"$folder/haproxy.log" 2>&1 &
  started+=($!)
  curl -sf --retry 100 --retry-delay 0 --retry-max-time 30 --retry-all-errors "http://$proxy/v2/health/ready" || {
    echo "HAProxy does not answer; its log is $folder/haproxy.log" >&2
    exit 1
  }
  url=http://$proxy
else
  echo "HAProxy is not there (scripts/setup.sh --haproxy): clients reach one frontend, and end with it" >&2
fi

"$program" cluster status "$spec"
cat <<TEXT

Send a request:     curl $url/v2/models/echo/infer -d '{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}'
Kill a frontend:    kill -9 \$($program cluster status $spec --json | jq '.nodes[] | select(.name == "f1").pid')
Kill the primary:   kill -9 \$($program cluster status $spec --json | jq '.nodes[] | select(.primary).pid')
Kill and freeze:    $program chaos $spec --seconds 20
Ctrl-C ends everything. Logs: $folder/*.log
TEXT
sleep infinity &
started+=($!)
wait
