#!/usr/bin/env bash
# Proves the CUDA backend's bits on the card of this machine, then times it.
#
#   prove.sh BIN_DIR OUT_DIR [test|sanitize|bench ...]
#
# BIN_DIR holds the programs of the build (build/release/bin). Full logs go to OUT_DIR; a short table
# is printed. Exits non-zero if a test fails, if compute-sanitizer finds anything, or if no test ran.
set -uo pipefail
bin=$1
out=$2
shift 2
steps=${*:-test sanitize bench}
mkdir -p "$out"
failed=0

# cuBLASLt, the rival, may lie in a Python environment.
lt=$(ls -d /usr/local/cuda/lib64/libcublasLt.so.1? 2>/dev/null | tail -1)
if [ -z "$lt" ]; then
  lt=$(find / -name 'libcublasLt.so.1?' -not -path '/proc/*' 2>/dev/null | head -1)
fi
[ -n "$lt" ] && export LD_LIBRARY_PATH="$(dirname "$lt"):${LD_LIBRARY_PATH:-}"

nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw,temperature.gpu --format=csv,noheader

# name, log, command...
run() {
  local name=$1 log=$out/$2
  shift 2
  local begin=$SECONDS
  if "$@" >"$log" 2>&1; then
    printf '%-34s ok      %4ds  %s\n' "$name" $((SECONDS - begin)) "$(grep -E 'PASSED|SKIPPED|ERROR SUMMARY' "$log" | tr '\n' ' ')"
  else
    printf '%-34s FAILED  %4ds\n' "$name" $((SECONDS - begin))
    grep -E 'Failure|differ|FAILED|Error|ERROR|error' -A4 "$log" | head -40
    failed=1
  fi
}

for step in $steps; do
  case $step in
    test)
      for test in cuda_gemm_plan_test cuda_gemm_test cuda_gemm_cublaslt_test; do
        run $test $test.log timeout 300 "$bin/$test"
        if ! grep -q 'PASSED' "$out/$test.log" || grep -q 'SKIPPED' "$out/$test.log"; then
          echo "$test: nothing ran, or not all of it"
          failed=1
        fi
      done
      ;;
    sanitize)
      small='GemmGpuTest.SmallAndOddShapes:GemmGpuTest.ARowThatIsNotFinite*:GemmGpuTest.LoadedWeights*'
      run 'memcheck' memcheck.log timeout 200 compute-sanitizer --error-exitcode 9 \
        "$bin/cuda_gemm_test" --gtest_filter="$small"
      run 'racecheck' racecheck.log timeout 60 compute-sanitizer --tool racecheck \
        --error-exitcode 9 "$bin/cuda_gemm_test" --gtest_filter='GemmGpuTest.ARowThatIsNotFinite*'
      ;;
    bench)
      run 'layer' layer.log timeout 200 "$bin/gemm_bench" --layer
      run 'gemm' gemm.log timeout 300 "$bin/gemm_bench"
      cat "$out/layer.log" "$out/gemm.log"
      ;;
    kernels)
      run 'kernels' kernels.log timeout 400 "$bin/gemm_bench" --kernels --rounds 5
      grep 'M=' "$out/kernels.log"
      ;;
  esac
done
exit $failed
