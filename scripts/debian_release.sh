#!/usr/bin/env bash
# Says how scripts/setup.sh can serve a system, from its os-release file (default: /etc/os-release).
#
#   scripts/debian_release.sh [FILE]    prints "older" (Debian 12: some things come from the next release) or "newer"
#                                       (Debian 13, testing, unstable); otherwise says why not, and exits with 1
set -euo pipefail
file=${1:-/etc/os-release}

refuse() {
  echo "setup: $1" >&2
  echo "setup: it knows Debian 12 and newer. Elsewhere install the packages above by hand, then llhttp with its header," >&2
  echo "setup: and ONNX Runtime 1.21 or newer, and build with:" >&2
  echo "setup:   cmake --preset default -DONNXRUNTIME_ROOT=DIR && cmake --build build" >&2
  exit 1
}

[ -r "$file" ] || refuse "$file cannot be read, so this system is unknown"
# The file is shell syntax by definition (os-release(5)).
# shellcheck disable=SC1090
{ read -r id; read -r like; read -r version; read -r name; } < <(
  unset ID ID_LIKE VERSION_ID PRETTY_NAME
  . "$file"
  printf '%s\n%s\n%s\n%s\n' "${ID:-}" "${ID_LIKE:-}" "${VERSION_ID:-}" "${PRETTY_NAME:-${ID:-unknown}}"
)
major=${version%%.*}

# Derivatives number their releases otherwise: Ubuntu 24.04 is no Debian 24.
[ "$id" = debian ] || refuse "this is $name${like:+ (like $like)}, not Debian; its packages differ"
case $major in
  "") echo newer ;; # testing and unstable have no number
  *[!0-9]*) refuse "VERSION_ID is '$version' in $file, not a number" ;;
  *)
    [ "$major" -ge 12 ] || refuse "this is $name; its CMake and libraries are too old"
    if [ "$major" = 12 ]; then echo older; else echo newer; fi
    ;;
esac
