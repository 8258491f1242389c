#!/usr/bin/env bash
# Nsight Compute's report of one launch of a kernel: all its sections, with source and counters.
#
#   profile_kernel.sh BIN_DIR KERNEL OUT [COMMAND ...]
#
# KERNEL is a regular expression of the function's name (GemmKernel, AttentionSplitKernel,
# AttentionPrefillKernel, RopeKvWriteKernel); OUT.ncu-rep is written for the viewer and OUT.txt for
# people. Without a COMMAND, the kernel is taken from whole steps of two layers of Llama-3.1-8B's
# shape, run operation by operation (isobit bench, BIN_DIR as for prove.sh). $LAUNCH picks a later
# launch than the first: decode with one sequence comes after its prefill, then 8 sequences, then 64.
# A profiled kernel runs alone: it does not start early, and the clocks are as they are.
set -euo pipefail
bin=$1
kernel=$2
out=$3
shift 3
only=()
if [ $# = 0 ]; then
  isobit=$bin/isobit
  [ -x "$isobit" ] || isobit=$bin/../isobit
  set -- "$isobit" bench --device cuda --shape llama-3.1-8b --layers 2 --parts steps --decode-tokens 4 \
    --repeat 1 --enforce-eager --no-async-scheduling
  # The launches before the first step measure the card.
  only=(--nvtx --nvtx-include step/)
fi
if ! ncu --version >/dev/null 2>&1; then
  echo "ncu (Nsight Compute) is not on the PATH" >&2
  exit 1
fi
ncu --set full --import-source yes --clock-control none --kernel-name "regex:$kernel" \
  "${only[@]}" --launch-skip "${LAUNCH:-0}" --launch-count 1 --force-overwrite --export "$out" "$@"
if [ ! -s "$out.ncu-rep" ]; then
  echo "no kernel named '$kernel' was launched" >&2
  exit 1
fi
ncu --import "$out.ncu-rep" --page details >"$out.txt"
grep -E '^ {2}[A-Za-z].*\(|Duration|SM Frequency|Memory Throughput|Compute \(SM\) Throughput|Registers Per Thread|Achieved Occupancy' "$out.txt"
