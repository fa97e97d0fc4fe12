#!/usr/bin/env bash
# Installs the Debian package in a fresh root of each release in SUITES ("bookworm trixie") as an administrator does,
# and walks through a first day there: check, objective, profile, serve, load, watch, reload, stop. Needs root, mmdebstrap, a mirror of Debian (MIRROR, http://deb.debian.org/debian), and
# .deps/venv (scripts/setup.sh --python). BUILD is the build folder (build).
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "${BUILD:-build}")
mirror=${MIRROR:-http://deb.debian.org/debian}
if [ "$(id -u)" != 0 ] || ! command -v mmdebstrap >/dev/null; then
  echo "debian.sh: needs root and mmdebstrap (apt-get install mmdebstrap); nothing was tried" >&2
  exit 2
fi
folder=$(mktemp -d)
server=
finish() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  for root in "$folder"/*/proc; do umount "$root" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap finish EXIT
package=$(scripts/make_packages.sh --build "$build" --out "$folder" deb)
.deps/venv/bin/python scripts/make_models.py --out "$folder/models" --only mlp >/dev/null
echo 'slo_ms: 500' >"$folder/models/mlp/tutti.pbtxt"

for suite in ${SUITES:-bookworm trixie}; do
  root=$folder/$suite
  echo "$suite: making a root"
  mmdebstrap --quiet --variant=apt --include=curl,ca-certificates "$suite" "$root" "deb $mirror $suite main"
  cp "$package" "$root/tmp/"
  echo "$suite: apt install"
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # no service manager runs here
  chmod +x "$root/usr/sbin/policy-rc.d"
  mount -t proc proc "$root/proc"
  chroot "$root" apt-get update -qq
  chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "/tmp/$(basename "$package")" >"$folder/apt.log" 2>&1 ||
    { tail -n 20 "$folder/apt.log" >&2; exit 1; }
  chroot "$root" dpkg --audit
  cp -r "$folder/models" "$root/srv/models"
  chown -R nobody:nogroup "$root/srv/models"
  chroot --userspec=nobody:nogroup "$root" tutti models check --load /srv/models
  chroot --userspec=nobody:nogroup "$root" tutti profile /srv/models/mlp --runs 5
  # It chooses a free port and names it in its log.
  chroot --userspec=nobody:nogroup "$root" tutti serve --model-repository /srv/models --http-port 0 \
    --model-control-mode explicit --load-model '*' --dashboard 0 --access-log /tmp/access.log 2>"$folder/log" &
  server=$!
  for _ in $(seq 300); do
    address=$(sed -n 's|.*serving 1 of 1 models at http://||p' "$folder/log")
    [ -z "$address" ] || break
    sleep 0.1
  done
  values=$(printf '0.5,%.0s' $(seq 15))0.5
  answer=$(chroot "$root" curl -sf "http://$address/v2/models/mlp/infer" \
    -d "{\"inputs\":[{\"name\":\"input\",\"shape\":[1,16],\"datatype\":\"FP32\",\"data\":[$values]}]}")
  chroot "$root" tutti load "http://$address" --model mlp --rate 100 --duration 3 --slo-ms 500 --fail-bad-rate 0.05
  chroot "$root" tutti top "http://$address" --once
  chroot "$root" curl -sf "http://$address/metrics" | grep '^tutti_slo_seconds{model="mlp",version="1"} 0.5$'
  chroot "$root" curl -sf "$(sed -n 's|.*the live page is ||p' "$folder/log")" | grep -q '<!doctype html>'
  cp -r "$root/srv/models/mlp/1" "$root/srv/models/mlp/2"
  chroot "$root" curl -sf -X POST "http://$address/v2/repository/models/mlp/load"
  chroot "$root" curl -sf "http://$address/v2/models/mlp" | grep '"versions":\["2"\]'
  kill -TERM "$server"
  wait "$server"
  server=
  grep -q '"model":"mlp","batch":' "$root/tmp/access.log"
  case $answer in
    *'"shape":[1,4]'*) echo "$suite: served a request" ;;
    *) echo "$suite: no answer: $answer" >&2; cat "$folder/log" >&2; exit 1 ;;
  esac
  umount "$root/proc"
  chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get purge -qq -y tutti >/dev/null 2>&1
  [ ! -e "$root/usr/bin/tutti" ] || { echo "$suite: the package was not removed" >&2; exit 1; }
done
