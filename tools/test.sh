#!/usr/bin/env bash
# From a bare machine to a passed test suite: installs, builds everything, runs all tests.
#
# usage: tools/test.sh [CTEST OPTIONS], e.g. tools/test.sh -LE slow
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
cmake --preset release >/dev/null
cmake --build --preset release
ctest --preset release --no-tests=error "$@"
