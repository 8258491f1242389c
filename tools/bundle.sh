#!/usr/bin/env bash
# Copies programs of a build with the shared libraries they need, so that they run on machines that
# lack those: anything with the same C library or a newer one.
#
# usage: tools/bundle.sh OUT_DIR PROGRAM...     e.g. tools/bundle.sh out build/release/isobit
#
# Programs look for libraries in lib/ beside them first (CMAKE_BUILD_RPATH in CMakeLists.txt).
set -euo pipefail
out=$1
shift
mkdir -p "$out/lib"
# Of the C library and the loader, the machine's own are used.
own='/(ld-linux[^/]*|libc|libm|libdl|librt|libpthread|libresolv)\.so[^/]*$'
for program in "$@"; do
  install -m 755 "$program" "$out/"
  strip "$out/$(basename "$program")"
  ldd "$program" | awk '$3 ~ /^\// {print $3}' | grep -Ev "$own" | xargs -r cp -Lu -t "$out/lib"
done
