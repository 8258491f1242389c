#!/usr/bin/env bash
# `pip install .` into a fresh environment, and from there, outside the source tree: the command's
# digest, PYTHON.md on a real model, and a type checker.
# usage: install_test.sh PYTHON TINY_MODEL MODEL ISOBIT BUILD_FOLDER
# The build folder stays, so that the next run compiles only what changed.
set -euo pipefail
python=$1 tiny_model=$2 model=$3 isobit=$4 build_folder=$5
source_folder=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH

"$python" -m venv "$work/venv"
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
rm -f "$build_folder/CMakeCache.txt"  # names the environment of the run before
"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
  --config-settings=build-dir="$build_folder" \
  --config-settings=cmake.define.ISOBIT_CUDA=OFF "$source_folder"
package=$(echo "$work"/venv/lib/python3*/site-packages/isobit)

cd "$work"
expected=$(echo '{"id":"0","prompt":"hello","max_tokens":20,"seed":7,"ignore_eos":true}' |
  "$isobit" batch -m "$tiny_model" - -o - | grep -o '"digest":"[0-9a-f]*"' | head -1)
got=$(venv/bin/python - "$tiny_model" <<'PYTHON'
import sys
from isobit import LLM, SamplingParams
params = SamplingParams(max_tokens=20, seed=7, ignore_eos=True)
output = LLM(sys.argv[1]).generate("hello", params)[0]
print(f'"digest":"{output.digest}"')
PYTHON
)
test -n "$expected"
test "$got" = "$expected"
echo "the command's digest: $got"

ln -s "$model" model.gguf
# The same model with one byte of its last tensor changed.
cp "$model" newer.gguf
printf '\x11' | dd of=newer.gguf bs=1 seek=$(($(stat -Lc %s newer.gguf) - 4096)) conv=notrunc status=none
venv/bin/python "$source_folder/tests/runtime/python/page.py" "$source_folder/runtime/python/PYTHON.md" | tail -3

# All that is installed: the module, its stub, the marker, Python files. It needs no other folder.
for name in _isobit.pyi py.typed __init__.py ray.py; do test -f "$package/$name"; done
module=$(echo "$package"/_isobit.*.so)
test "$(find "$package" -type f ! -name '*.py' ! -name '*.pyc' | wc -l)" = 3
if readelf -d "$module" | grep -E 'R(UN)?PATH' | grep -vF '[$ORIGIN/lib]'; then exit 1; fi
if ldd "$module" | grep -E "not found|$source_folder|$build_folder"; then exit 1; fi

cat >program.py <<'PYTHON'
from isobit import LLM, SamplingParams
text: str = LLM("model.gguf").generate("a", SamplingParams(seed=1))[0].outputs[0].text
PYTHON
"$python" -m mypy --strict --cache-dir mypy --python-executable venv/bin/python program.py
