#!/usr/bin/env bash
# From a bare machine to a checked answer: installs, builds, asks a real model a question, and then
# answers the same requests alone and in company, comparing every bit.
#
# usage: tools/demo.sh [PROMPT]
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
cmake --preset release >/dev/null
cmake --build --preset release --target isobit
model=build/models/SmolLM2-135M-Instruct.Q4_1.gguf
echo
build/release/isobit run -m "$model" --chat --temperature 0 -p "${1:-Why is the sky blue?}"
echo
build/release/isobit check -m "$model"
