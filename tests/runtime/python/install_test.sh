#!/usr/bin/env bash
# `pip install .` into a fresh environment, and the command's digest from there.
# usage: install_test.sh PYTHON MODEL ISOBIT BUILD_FOLDER
# The build folder stays, so that the next run compiles only what changed.
set -euo pipefail
python=$1 model=$2 isobit=$3 build_folder=$4
source_folder=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$work/venv"
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
rm -f "$build_folder/CMakeCache.txt"  # names the environment of the run before
"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
  --config-settings=build-dir="$build_folder" \
  --config-settings=cmake.define.ISOBIT_CUDA=OFF "$source_folder"

expected=$(echo '{"id":"0","prompt":"hello","max_tokens":20,"seed":7}' |
  "$isobit" batch -m "$model" - -o - | grep -o '"digest":"[0-9a-f]*"' | head -1)
cd "$work"
got=$(venv/bin/python - "$model" <<'PYTHON'
import sys
from isobit import LLM, SamplingParams
output = LLM(sys.argv[1]).generate("hello", SamplingParams(max_tokens=20, seed=7))[0]
print(f'"digest":"{output.digest}"')
PYTHON
)
test -n "$expected"
test "$got" = "$expected"
test -f venv/lib/python3*/site-packages/isobit/_isobit.pyi
echo "$got"
