#!/usr/bin/env bash
# Builds hjcdik on a machine with an NVIDIA GPU, without a network, and runs there all that needs one: the
# tests marked gpu, the benchmarks, compute-sanitizer and ncu. README.md beside this says how to prepare .gpu/.
#
#   benchmarks/gpu/run.sh OUT [--quick] [--steps bench,collision,tests,native,sanitizer,profile,cpu]
#
# OUT receives, in all steps together, run.txt (everything printed), gpu.json, collision_gpu.json,
# collision_cpu.json, latency.json, throughput.json, checks.txt (tests and sanitizer) and ncu.txt; gpu.png is drawn
# from gpu.json elsewhere. Nothing is skipped: a step that cannot run has failed. The last lines are a table of the
# steps; the exit status is 1 where one of them failed.
# shellcheck disable=SC2317  # functions are called through bash -c
set -uo pipefail
usage() { echo "usage: $0 OUT [--quick] [--steps NAME,...]" >&2; exit 2; }
[ $# -ge 1 ] || usage
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
shift
quick=()
steps=bench,collision,tests,native,sanitizer,profile,cpu
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=(--quick) ;;
    --steps) [ $# -gt 1 ] || usage; steps=$2; shift ;;
    *) usage ;;
  esac
  shift
done
known=" bench collision tests native sanitizer profile cpu "
for name in ${steps//,/ }; do [[ $known == *" $name "* ]] || { echo "no step $name:$known" >&2; exit 2; }; done
cd "$root" || exit
exec > >(tee "$out/run.txt") 2>&1

python=${PYTHON:-python3}
data=$root/.gpu/data
pugixml=$root/.gpu/pugixml
json=$root/.gpu/json
googletest=$root/.gpu/googletest
build=$root/build/gpu
site=$build/site
jobs=$(nproc)
bench=$build/cpp/benchmarks/hjcdik_gpu_bench
export CMAKE_BUILD_PARALLEL_LEVEL=$jobs HJCDIK_TEST_DATA=$data HJCDIK_REQUIRE_GPU=1 PYTHONUNBUFFERED=1
export PYTHONPATH=$site PIP_DISABLE_PIP_VERSION_CHECK=1
HJCDIK_COMMIT=${HJCDIK_COMMIT:-$(cat .gpu/commit 2>/dev/null || git rev-parse HEAD)}
export HJCDIK_COMMIT
# A store of this run's own, so that nothing comes from an earlier one.
HJCDIK_CACHE_DIR=$(mktemp -d)
export HJCDIK_CACHE_DIR
trap 'rm -rf "$HJCDIK_CACHE_DIR"' EXIT

table=()
failed=0
# step NAME SECONDS COMMAND...: runs a command, for so long at most, and keeps what became of it.
step() {
  local name=$1 limit=$2 start=$SECONDS status=0
  shift 2
  echo "=== $name"
  timeout -s INT -k 10 "$limit" "$@" || status=$?
  [ $status -eq 0 ] || failed=1
  [ $status -ne 124 ] || echo "$name took more than $limit s"
  table+=("$(printf '%-28s %-12s %4d s' "$name" "$([ $status -eq 0 ] && echo ok || echo "FAILED ($status)")" \
    $((SECONDS - start)))")
  return "$status"
}
finish() {
  echo "=== summary, commit ${HJCDIK_COMMIT:-unknown}, $SECONDS s"
  "$python" benchmarks/gpu/plot.py --table "$out/gpu.json" 2>/dev/null
  printf '%s\n' "${table[@]}"
  exit $failed
}

require() {
  local missing=0 file
  for file in "$data/robots/panda.urdf" "$data/open_targets_seed0.json.gz" "$data/mbm_panda_even.json.gz" \
      "$data/spheres/panda_foam.json" "$data/spheres/panda_curobo.json" "$pugixml/src/pugixml.cpp" \
      "$json/include/nlohmann/json.hpp" "$googletest/CMakeLists.txt"; do
    [ -e "$file" ] || { echo "missing: $file (see benchmarks/gpu/README.md)"; missing=1; }
  done
  for tool in cmake ninja compute-sanitizer ncu nvidia-smi; do
    command -v "$tool" >/dev/null || { echo "missing: $tool"; missing=1; }
  done
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || missing=1
  "$python" -c 'import hypothesis, nanobind, numpy, pytest, scikit_build_core' || missing=1
  return "$missing"
}
build_cpp() {
  cmake -G Ninja -S "$googletest" -B "$build/googletest" -DCMAKE_BUILD_TYPE=Release -DBUILD_GMOCK=OFF \
    -DCMAKE_INSTALL_PREFIX="$build/prefix" --log-level=WARNING \
    && cmake --build "$build/googletest" --target install >/dev/null \
    && cmake -G Ninja -S "$root" -B "$build/cpp" -DCMAKE_BUILD_TYPE=Release --log-level=WARNING \
    -DCMAKE_PREFIX_PATH="$build/prefix" -DHJCDIK_BUILD_BENCHMARKS=ON -DHJCDIK_FETCH_DEPENDENCIES=ON \
    -DFETCHCONTENT_FULLY_DISCONNECTED=ON -DFETCHCONTENT_SOURCE_DIR_PUGIXML="$pugixml" \
    -DFETCHCONTENT_SOURCE_DIR_NLOHMANN_JSON="$json" \
    && cmake --build "$build/cpp" --target hjcdik_gpu_bench hjcdik_latency hjcdik_native_test \
    hjcdik_early_test hjcdik_contract_program hjcdik_linked_test hjcdik_headers
}
build_python() {
  "$python" -m pip install --quiet --no-index --no-build-isolation --no-deps --upgrade --target "$site" \
    --config-settings=build-dir="$build/python" \
    --config-settings=cmake.define.HJCDIK_FETCH_DEPENDENCIES=ON \
    --config-settings=cmake.define.FETCHCONTENT_FULLY_DISCONNECTED=ON \
    --config-settings=cmake.define.FETCHCONTENT_SOURCE_DIR_PUGIXML="$pugixml" \
    --config-settings=cmake.define.FETCHCONTENT_SOURCE_DIR_NLOHMANN_JSON="$json" \
    "$root" || return
  # Packages that this machine lacks; the folder may be absent or empty.
  if compgen -G "$root/.gpu/wheels/*.whl" >/dev/null; then
    "$python" -m pip install --quiet --no-index --no-deps --upgrade --target "$site" "$root"/.gpu/wheels/*.whl
  fi
}
both_builds() {
  local status=0
  build_cpp &
  build_python || status=$?
  wait $! || status=$?
  return "$status"
}
first_solve() { "$bench" --start && "$python" -c 'import hjcdik; print(hjcdik.Solver("panda", device="cuda").info)'; }
cpu_latency() {
  "$build/cpp/benchmarks/hjcdik_latency" panda panda_hand --commit "$HJCDIK_COMMIT" >"$out/latency.json"
}
# Most of their time goes into compiling programs, one robot after the other.
gpu_tests() {
  local status=0
  echo "--- pytest -m gpu" >>"$out/checks.txt"
  (set -o pipefail
   "$python" -m pytest -m 'gpu and not alone' -q -p no:cacheprovider -n 8 --dist loadfile 2>&1 | tee -a "$out/checks.txt") || status=$?
  (set -o pipefail
   "$python" -m pytest -m 'gpu and alone' -q -p no:cacheprovider 2>&1 | tee -a "$out/checks.txt") || status=$?
  return "$status"
}
# The native interface, and generated headers by nvcc and in kernels of their own.
native_tests() {
  echo "--- ctest -L native, codegen" >>"$out/checks.txt"
  (set -o pipefail
   # The second program runs on the GPU where it was compiled for one.
   ctest --test-dir "$build/cpp" -L 'native|codegen' -j "$jobs" --output-on-failure --no-tests=error 2>&1 \
     | sed "s|$root/||" | tee -a "$out/checks.txt" \
     && "$build"/cpp/tests/codegen/header_check_nvcc | tee -a "$out/checks.txt" | grep 'a GPU took part')
}
sanitizer() {
  echo "--- compute-sanitizer --tool $1" >>"$out/checks.txt"
  # racecheck cannot see __syncwarp where the compiler knows a way to it on which the warp is together: it warns of
  # what it has handed over. Only errors fail.
  local level=()
  [ "$1" != racecheck ] || level=(--racecheck-detect-level error)
  (set -o pipefail
   compute-sanitizer --tool "$1" "${level[@]}" --error-exitcode 9 --print-limit 20 "$bench" --sanitize 2>&1 \
     | tee -a "$out/checks.txt" | tail -25)
}
# profile OPTION SKIP: of a million targets, a launch of the search behind the first solve's. A solve launches it
# for all, for the rest and for retries, if there are any. Clocks stay as they are.
profile() {
  echo "--- hjcdik_gpu_bench $1" >>"$out/ncu.txt"
  (set -o pipefail
   ncu --clock-control none --kernel-name hjcdik_search --launch-skip "$2" --launch-count 1 \
     --section SpeedOfLight --section ComputeWorkloadAnalysis --section InstructionStats \
     --section WarpStateStats --section SchedulerStats --section LaunchStats --section Occupancy \
     --metrics smsp__inst_executed_pipe_fma.sum,smsp__inst_executed_pipe_xu.sum,smsp__inst_executed.sum \
     "$bench" "$1" 2>&1 | tee "$out/.profile" | grep -v '^==PROF==' | tail -120) \
    && grep -q hjcdik_search "$out/.profile"
  local status=$?
  cat "$out/.profile" >>"$out/ncu.txt"
  rm -f "$out/.profile"
  return "$status"
}
# `timeout` runs programs only: functions get a shell of their own.
export -f require build_cpp build_python both_builds first_solve cpu_latency gpu_tests native_tests sanitizer profile
export root data pugixml json googletest build site jobs bench out python
in_shell() { local name=$1 limit=$2; shift 2; step "$name" "$limit" bash -c '"$@"' _ "$@"; }

wants() { [[ ,$steps, == *,$1,* ]]; }

rm -f "$out"/{gpu.json,collision_gpu.json,collision_cpu.json,latency.json,throughput.json,checks.txt,ncu.txt}
in_shell "requirements" 30 require || finish
in_shell "build" 240 both_builds || finish
in_shell "first solve on the GPU" 60 first_solve || finish
if wants bench; then
  step "GPU benchmark" 120 "$python" benchmarks/gpu/measure.py --bench "$bench" --output "$out" "${quick[@]}"
fi
if wants collision; then
  for device in cuda cpu; do
    step "collision on ${device/cuda/GPU}" 150 "$python" benchmarks/collision.py --device $device \
      --output "$out/collision_${device/cuda/gpu}.json" "${quick[@]}"
  done
fi
if wants tests; then in_shell "GPU tests" 300 gpu_tests; fi
if wants native; then in_shell "native and headers" 240 native_tests; fi
if wants sanitizer; then
  for tool in memcheck racecheck initcheck; do in_shell "$tool" 120 sanitizer $tool; done
fi
if wants profile; then
  in_shell "profile of the search" 60 profile --profile 3
  in_shell "profile of the hard search" 60 profile --profile-hard 2
fi
if wants cpu; then
  in_shell "CPU latency" 60 cpu_latency
  step "CPU throughput" 90 "$python" benchmarks/throughput.py --output "$out" --robots panda.urdf \
    --quick
fi
finish
