#!/usr/bin/env bash
# Makes the packages of a built tree, without a network, a daemon or root:
#
#   build/tutti_VERSION_ARCH.deb          for Debian (needs debhelper)
#   build/tutti-VERSION-linux-ARCH.tar.gz runs from any folder
#   build/oci                             an OCI image layout
#
#   scripts/make_packages.sh [--build DIR] [--out DIR] [deb] [tar] [oci]    (default: all three)
#
# Equal inputs make equal files: times are SOURCE_DATE_EPOCH, or that of the last commit.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$PWD/build
out=
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=$(realpath "$2") && shift 2 ;;
    --out) out=$(realpath "$2") && shift 2 ;;
    *) break ;;
  esac
done
out=${out:-$build}
kinds=${*:-deb tar oci}
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
architecture=$(dpkg --print-architecture)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CMakeLists.txt)}
export SOURCE_DATE_EPOCH
scratch=$out/packages
rm -rf "$scratch"
mkdir -p "$scratch"

if [ -f .deps/lib/libonnxruntime.so ] && [ ! -L .deps/lib/libonnxruntime.so ] && [ ! -e .deps/lib/onnxruntime/LICENSE ]; then
  echo "make_packages: .deps/lib/onnxruntime/LICENSE is missing, and copies must carry it; run scripts/setup.sh" >&2
  exit 1
fi

make_deb() {
  if ! command -v dh >/dev/null; then
    echo "make_packages: the Debian package needs debhelper: scripts/setup.sh --package" >&2
    exit 1
  fi
  local source=$scratch/deb
  mkdir -p "$source"
  cp -r packaging/debian "$source/debian"
  {
    printf 'tutti (%s) unstable; urgency=medium\n\n' "$version"
    printf '  * Changes are listed in /usr/share/doc/tutti/CHANGELOG.md.\n\n'
    printf ' -- %s  %s\n' "$(sed -n 's/^Maintainer: //p' packaging/debian/control)" \
      "$(date -R -u -d "@$SOURCE_DATE_EPOCH")"
  } >"$source/debian/changelog"
  (cd "$source" && TUTTI_BUILD=$build TUTTI_OUT=$out debian/rules binary) >"$scratch/deb.log" 2>&1 || {
    tail -n 20 "$scratch/deb.log" >&2
    echo "make_packages: debian/rules failed; $scratch/deb.log has everything" >&2
    exit 1
  }
  echo "$out/tutti_${version}_$architecture.deb"
}

# The libraries beside ONNX Runtime, so that only glibc and libstdc++ come from the system. The program's run path is
# ../lib/tutti.
bundle_libraries() {
  local program=$1 folder=$2 name path
  ldd "$program" | awk '$2 == "=>" {print $1, $3}' | while read -r name path; do
    case $name in
      libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libgcc_s.so.* | libstdc++.so.*) ;;
      *) install -m 644 "$(realpath "$path")" "$folder/$name" ;;
    esac
  done
}

make_tar() {
  local name=tutti-$version-linux-$architecture
  cmake --install "$build" --prefix "$scratch/$name" --strip >"$scratch/tar.log"
  # A unit belongs to an installation in the system.
  rm -r "$scratch/$name/lib/systemd"
  bundle_libraries "$scratch/$name/bin/tutti" "$scratch/$name/lib/tutti"
  tar -C "$scratch" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
    -cf - "$name" | gzip -n >"$out/$name.tar.gz"
  echo "$out/$name.tar.gz"
}

make_oci() {
  cmake --install "$build" --prefix "$scratch/image/usr" --strip >"$scratch/oci.log"
  rm -r "$scratch/image/usr/lib/systemd"
  rm -rf "$out/oci"
  python3 -B scripts/make_oci.py --tree "$scratch/image" --version "$version" --out "$out/oci"
  echo "$out/oci"
}

for kind in $kinds; do
  case $kind in
    deb | tar | oci) "make_$kind" ;;
    *) echo "make_packages: '$kind' is unknown; known are deb, tar, oci" >&2; exit 2 ;;
  esac
done
rm -rf "$scratch"
