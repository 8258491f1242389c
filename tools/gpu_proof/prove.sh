#!/usr/bin/env bash
# Proves the CUDA backend's bits on the card of this machine, then times it.
#
#   prove.sh BIN_DIR OUT_DIR [STEP ...]
#
# BIN_DIR holds the programs of the build and the isobit command (build/release/bin, where the
# command may lie one level up, or a folder made by tools/bundle.sh). Full logs go to OUT_DIR; a short
# table is printed. Exits non-zero if anything differs or fails, if compute-sanitizer finds anything,
# or if a test did not run. $ISOBIT_TEST_MODEL is SmolLM2-135M-Instruct.Q4_1.gguf, as tools/setup.sh
# fetches it.
#
# Steps (by default the first five):
#   kernels        every kernel against the reference, bit for bit
#   sanitize       compute-sanitizer memcheck and racecheck on each kernel
#   models         whole models: goldens, small models, SmolLM2, full logits against the CPU's
#   command        isobit check; a thousand requests at once; receipts of each device on the other
#   bench          times beside cuBLASLt and PyTorch, whole steps
#   bench-kernels  all GEMM kernels, not only the planned ones
#   accuracy       the contract and PyTorch's operations on this card against fp64 (needs torch)
#   full           isobit check --full; run again, it goes on where it was cut off
set -uo pipefail
bin=$1
out=$2
shift 2
steps=${*:-kernels sanitize models command bench}
here=$(dirname "$0")
model=${ISOBIT_TEST_MODEL:-$here/../../build/models/SmolLM2-135M-Instruct.Q4_1.gguf}
export ISOBIT_TEST_MODEL=$model
isobit=$bin/isobit
[ -x "$isobit" ] || isobit=$bin/../isobit
mkdir -p "$out"
rm -f "$out/failures"

# cuBLASLt, the rival, may lie in a Python environment.
lt=$(ls -d /usr/local/cuda/lib64/libcublasLt.so.1? 2>/dev/null | tail -1)
if [ -z "$lt" ]; then
  lt=$(find / -name 'libcublasLt.so.1?' -not -path '/proc/*' 2>/dev/null | head -1)
fi

with_cublaslt() {
  LD_LIBRARY_PATH="$(dirname "${lt:-/}"):${LD_LIBRARY_PATH:-}" "$@"
}

# Steps may run side by side in processes of their own, so that a variable would not do.
fail() {
  echo "$*"
  echo "$*" >>"$out/failures"
}

# row NAME LOG SECONDS STATUS: a line of the table, and of a failure what the log says.
row() {
  local what
  what=$(grep -hE 'PASSED|SKIPPED|ERROR SUMMARY|RACECHECK SUMMARY|rows, .* failed|passed, .* failed|digest' "$2" |
    tail -3 | sed 's/=========//' | tr -s ' \n' ' ')
  if [ "$4" = 0 ]; then
    printf '%-40s ok     %4ds  %s\n' "$1" "$3" "$what"
  else
    fail "$(printf '%-40s FAILED %4ds  exit code %s' "$1" "$3" "$4")"
    grep -E 'Failure|differ|DIFFERS|FAIL|[Ee]rror|ERROR|race|Invalid' -A3 "$2" | cut -c1-200 | head -30
  fi
}

# run NAME LOG COMMAND...
run() {
  local name=$1 log=$out/$2 begin=$SECONDS
  shift 2
  "$@" >"$log" 2>&1
  row "$name" "$log" $((SECONDS - begin)) $?
}

# run_test NAME [SHARDS]: a gtest program, in parts side by side.
run_test() {
  local name=$1 shards=${2:-1} begin=$SECONDS status=0 pids=()
  if [ ! -x "$bin/$name" ]; then
    fail "$name is not built"
    return
  fi
  for ((i = 0; i < shards; ++i)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i timeout 150 "$bin/$name" >"$out/$name.$i.part" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
  cat "$out/$name".*.part >"$out/$name.log"
  rm "$out/$name".*.part
  row "$name" "$out/$name.log" $((SECONDS - begin)) $status
  if [ "$(grep -c 'PASSED' "$out/$name.log")" -lt "$shards" ] || grep -q 'SKIPPED' "$out/$name.log"; then
    fail "$name: nothing ran, or not all of it"
  fi
}

# sanitize TOOL PROGRAM FILTER [PART]: beside others of its kind.
sanitize() {
  run "$1 $2${4:+, $4}" "$1.$2${4:+.$4}.log" timeout 150 compute-sanitizer --tool "$1" --error-exitcode 9 \
    "$bin/$2" --gtest_filter="$3" &
}

# A thousand equal requests at once give one digest, the one that the CPU gives for one of them.
thousand_requests() {
  local lines=$out/thousand.jsonl
  for ((i = 0; i < 1000; ++i)); do
    echo "{\"id\": \"r$i\", \"prompt\": \"Tell me about Richard Feynman.\", \"max_tokens\": 256, \"temperature\": 0, \"ignore_eos\": true, \"logprobs\": 0}"
  done >"$lines"
  timeout 150 "$isobit" batch -m "$model" --device cuda --max-num-seqs 1000 --no-prefix-cache "$lines" \
    -o "$out/thousand.out.jsonl" || return 1
  head -1 "$lines" | "$isobit" batch -m "$model" --device cpu - -o "$out/thousand.cpu.jsonl" || return 1
  python3 - "$out/thousand.out.jsonl" "$out/thousand.cpu.jsonl" <<'PYTHON'
import json, sys
gpu, cpu = ([json.loads(line) for line in open(path)] for path in sys.argv[1:])
digests = {c.get("digest") for c in gpu}
print(f"{len(gpu)} requests, {len(digests)} digest(s): {sorted(map(str, digests))[:3]}, CPU {cpu[0].get('digest')}")
sys.exit(not (len(gpu) == 1000 and digests == {cpu[0]["digest"]}))
PYTHON
}

# Receipts written on one device and replayed on the other.
receipts() {
  local requests=$here/../../golden/digests/requests_smollm2.jsonl
  local options=(-m "$model" --kv-cache-tokens 8192)
  for pair in "cuda cpu" "cpu cuda"; do
    read -r maker reader <<<"$pair"
    rm -rf "$out/receipts_$maker"
    timeout 60 "$isobit" batch "${options[@]}" --device "$maker" "$requests" -o "$out/receipts_$maker.jsonl" \
      --receipts "$out/receipts_$maker" || return 1
    timeout 60 "$isobit" replay "${options[@]}" --device "$reader" "$out/receipts_$maker"/*.json || return 1
  done
}

# A rival's and our own program take turns, so that a card that slows down slows both.
bench() {
  if [ -x "$bin/gemm_bench" ]; then
    with_cublaslt run 'GEMMs of a layer' layer.log timeout 200 "$bin/gemm_bench" --layer
    with_cublaslt run 'the same, short turns' layer_short.log timeout 100 "$bin/gemm_bench" --layer --turn 0 --rounds 11
  fi
  run 'GEMMs of Triton' gemm_rival.log timeout 100 python3 "$here/gemm_rival.py"
  run 'attention' attention.log timeout 60 "$bin/attention_bench"
  run 'attention of PyTorch' attention_rival.log timeout 100 python3 "$here/attention_rival.py"
  run 'attention again' attention_again.log timeout 60 "$bin/attention_bench"
  with_cublaslt run 'isobit bench' bench.log timeout 400 "$isobit" bench --shape llama-3.1-8b --device cuda
  local log
  for log in layer layer_short gemm_rival attention attention_rival attention_again bench; do
    [ ! -e "$out/$log.log" ] || cat "$out/$log.log"
  done
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw,temperature.gpu --format=csv,noheader
for step in $steps; do
  case $step in
    kernels)
      run_test cuda_gemm_plan_test
      run_test cuda_gemm_plan_file_test
      run_test cuda_gemm_tuner_test
      run_test cuda_timing_test
      run_test cuda_gemm_test
      if [ -x "$bin/cuda_gemm_cublaslt_test" ]; then
        with_cublaslt run_test cuda_gemm_cublaslt_test
      else
        echo 'cublasLt.h was not there at build time: no comparison with cuBLASLt'
      fi
      run_test cuda_attention_plan_test
      run_test cuda_attention_test 8
      for test in backend embed gemm_epilogue norm qkv_projection rope sample score; do run_test cuda_${test}_test; done
      with_cublaslt run_test device_order_test
      ;;
    sanitize)
      small='GemmGpuTest.SmallAndOddShapes:GemmGpuTest.ARowThatIsNotFinite*:GemmGpuTest.LoadedWeights*:GemmGpuTest.LargeTilesOnOneUnit'
      sanitize memcheck cuda_gemm_test "$small"
      sanitize racecheck cuda_gemm_test 'GemmGpuTest.ARowThatIsNotFinite*'
      # CTAs with several works each. What is handed on goes through global memory, which racecheck
      # does not look at.
      sanitize memcheck cuda_attention_test '*CutWorksAsIn*'
      sanitize racecheck cuda_attention_racecheck '*CutWorksAsIn*' cut
      for tool in memcheck racecheck; do
        sanitize $tool cuda_attention_racecheck '*DecodeAtPositions*:*MixedBatches:*SeveralShortUnits*:*CountsExactWork:*SoftCapsOfShortTexts'
        sanitize $tool cuda_norm_test '*PickedRows:*TooWide*'
        sanitize $tool cuda_gemm_epilogue_test '*AnyNumbers'
        sanitize $tool cuda_rope_test '*PartialAndNoRotation'
        sanitize $tool cuda_qkv_projection_test '*PartialAndNoRotation:*AnyNumbers'
        sanitize $tool cuda_embed_test '*'
        sanitize $tool cuda_sample_test '*EverythingForbidden'
        sanitize $tool cuda_score_test '*SmallVocabulary'
        sanitize $tool cuda_backend_racecheck '*ALayerOfAModel'
      done
      wait
      ;;
    models)
      run_test golden_test
      run_test golden_orders_test
      run_test golden_receipts_test
      run_test golden_model_test
      run_test operations_test
      run_test memory_test
      run_test cuda_family_test 3
      run_test cuda_model_test 10
      ;;
    command)
      run 'isobit check' check.log timeout 300 "$isobit" check -m "$model" --device cuda
      run '1000 requests' thousand.log thousand_requests
      run 'receipts' receipts.log receipts
      ;;
    bench) bench ;;
    bench-kernels)
      with_cublaslt run 'all GEMM kernels' kernels.log timeout 400 "$bin/gemm_bench" --kernels --turn 0 --rounds 5
      grep 'M=' "$out/kernels.log"
      ;;
    accuracy)
      run 'results of the contract' accuracy_results.log timeout 120 "$bin/accuracy_results" "$out/accuracy"
      run 'accuracy' accuracy.log timeout 200 python3 "$here/../accuracy/compare.py" "$out/accuracy" --device cuda
      cat "$out/accuracy.log"
      ;;
    full)
      run 'isobit check --full' check_full.log timeout 570 "$isobit" check -m "$model" --device cuda --full \
        --progress "$out/check_full.json"
      cat "$out/check_full.log"
      ;;
    *) fail "no such step: $step" ;;
  esac
done
[ ! -e "$out/failures" ]
