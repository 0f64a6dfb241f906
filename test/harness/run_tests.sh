#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the named tests and adds up their cases. Its last line is "N passed, M failed, K skipped".
# Usage: run_tests.sh DIR NAME...
#   NAME: layers, own_memory, a program in DIR, PROGRAM:SUITE, system_tests/K/N (the cases of every Nth
#   source from the Kth), or a *_test.py or *_test.sh below the root
# Environment: HALOMESH (program), HALOMESH_SOURCE (root), MPI, MPIRUN (launcher), PYTHON,
# TEST_SECONDS (limit of one run, 900), TEST_JOBS (1: how many names run side by side; the output of
# each is then printed when it ends). A run that crashes, hangs or prints no tally counts as 1 failed.
set -u

mode=all
if [ "$1" = --one ]; then mode=one && shift; fi
dir=$1
shift
source_root=${HALOMESH_SOURCE:-.}
limit=${TEST_SECONDS:-900}
logs=$dir/logs
table=$logs/table
if [ "$mode" = all ]; then
  rm -rf "$logs"  # an earlier run's logs must not be reported
  mkdir -p "$logs"
  : >"$table"
fi

# The launcher's flags allow more ranks than cores, and bind no rank to one core.
case ${MPI:-openmpi} in
  openmpi)
    launcher="${MPIRUN:-mpirun} --oversubscribe --bind-to none"
    if [ "$(id -u)" = 0 ]; then
      export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
    export OMPI_MCA_btl_vader_single_copy_mechanism=none ;;
  mpich) launcher="${MPIRUN:-mpirun} -bind-to none" ;;
  *) echo "run_tests.sh: MPI=$MPI is neither openmpi nor mpich" >&2; exit 2 ;;
esac
[ "$mode" = all ] || launcher=$MPIRUN  # already complete
export MPIRUN="$launcher"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"

# record NAME PASSED FAILED SKIPPED SECONDS REMARK
record() {
  printf '%-28s %6d passed %4d failed %4d skipped %5d s  %s\n' "$@" >>"$table"
}

counts='[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped'

# own_summary NAME LOG prints the run's own counts. Programs print one tally; the last line of a
# script is its own.
own_summary() {
  case $1 in
    *_test) tail -n 1 "$2" | grep -E "^$counts\$" ;;
    *) grep -E "^\[tally\] $counts\$" "$2" ;;
  esac | grep -oE "$counts" | tr -dc '0-9 \n'
}

# sum_up NAME LOG STATUS SECONDS adds the run's summary to the totals and judges its exit status.
sum_up() {
  summary=$(own_summary "$1" "$2")
  if [ "$3" = 124 ] || [ "$3" = 137 ]; then
    remark="timed out after $limit s"
  elif [ "$3" = 86 ]; then
    remark="ended by the watchdog (see its output)"
  elif [ -z "$summary" ]; then
    remark="exit status $3 without a summary"
  elif [ "$(echo "$summary" | wc -l)" != 1 ]; then
    remark="more than one summary"
  else
    # shellcheck disable=SC2086
    set -- "$1" "$3" "$4" $summary
    if [ "$2" != 0 ] && [ "$5" = 0 ]; then
      record "$1" "$4" 1 "$6" "$3" "exit status $2 although no case failed"
    else
      record "$1" "$4" "$5" "$6" "$3" ""
    fi
    return
  fi
  echo "$1: $remark"
  record "$1" 0 1 0 "$4" "$remark"
}

# run NAME COMMAND... makes one run, printed as it goes and kept in a log.
run() {
  name=$1
  shift
  log=$logs/$(echo "$name" | tr ' /' '__').log
  echo "===== $name"
  start=$(date +%s)
  {
    timeout -k 10 "$limit" "$@" 2>&1
    echo $? >"$log.status"
  } | tee "$log"
  sum_up "$name" "$log" "$(cat "$log.status")" $(($(date +%s) - start))
}

# With many ranks on few cores, each gets one thread. MPI libraries leave memory behind at exit by
# design, so there is no leak check under a launcher.
one_thread="env OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}"
no_leak_check="env ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0}"

# shellcheck disable=SC2086
run_named() {
  test=$1
  case $test in
    layers)
      echo "===== layers"
      if "$source_root/test/harness/layers.sh" "$source_root"; then
        record layers 1 0 0 0 ""
      else
        record layers 0 1 0 0 ""
      fi ;;
    isa_*_tests)
      case $test in
        *_bf16_*) flag=avx512_bf16 ;;
        *_avx512_*) flag=avx512vl ;;
        *) flag=avx2 ;;
      esac
      if grep -qw "$flag" /proc/cpuinfo; then
        run "$test" "$dir/$test"
      else
        record "$test" 0 0 1 0 "skipped: this CPU has no $flag"
      fi ;;
    # nn_tests has the suite on the best instruction set; here oneDNN is limited to lower ones.
    own_memory)
      for isa in AVX2:avx2 AVX512_CORE:avx512vl AVX512_CORE_BF16:avx512_bf16; do
        if grep -qw "${isa#*:}" /proc/cpuinfo; then
          run "$test (${isa%:*})" env "ONEDNN_MAX_CPU_ISA=${isa%:*}" "$dir/nn_tests" \
            "--test-suite=own memory"
        else
          record "$test (${isa%:*})" 0 0 1 0 "skipped: this CPU has no ${isa#*:}"
        fi
      done ;;
    partition_tests) run "$test" "$dir/$test" ;;
    nn_tests)
      # SHORT=1 leaves out two of the eight longest with sanitizers, which are like the six others.
      run "$test" "$dir/$test" \
        ${SHORT:+"--test-case-exclude=*cut by channels equals the serial chain: seeded cases"} ;;
    # One suite of a program with several.
    *:*) run "$test" $one_thread "$dir/${test%:*}" "--test-suite=${test#*:}" ;;
    system_tests) run "$test" $one_thread "$dir/$test" ;;
    system_tests/*)
      share=${test#*/}
      sources=$(cd "$source_root" && printf '*%s\n' test/system/*_test.cpp |
        awk -v k="${share%/*}" -v n="${share#*/}" '(NR - k) % n == 0' | paste -sd , -)
      run "$test" $one_thread "$dir/system_tests" "--source-file=$sources" ;;
    runtime_tests | app_tests) run "$test" $no_leak_check $launcher -n 1 "$dir/$test" ;;
    mpi_tests)
      # SHORT=1 leaves out what is slow with sanitizers: all but the runs on 2 ranks.
      [ "${SHORT:-}" = 1 ] || run "$test (6 ranks)" $no_leak_check $one_thread $launcher -n 6 "$dir/$test" \
        "--test-case-exclude=*[* ranks]*"
      # "[N ranks]" in the name of a case requests a separate run.
      $no_leak_check $launcher -n 1 "$dir/$test" --list-test-cases >"$logs/cases" ||
        record "$test" 0 1 0 0 "cases cannot be listed"
      for ranks in $(grep -oE '\[[0-9]+ ranks\]' "$logs/cases" | tr -dc '0-9\n' | sort -nu); do
        if [ "${SHORT:-}" = 1 ] && [ "$ranks" != 2 ]; then continue; fi
        run "$test ($ranks ranks)" $no_leak_check $one_thread $launcher -n "$ranks" "$dir/$test" \
          "--test-case=*[$ranks ranks]*"
      done ;;
    # GCC's OpenMP is not instrumented: with one thread, the sanitizer sees only the program's own
    # threads. Cases that fork in a process with threads must not end there.
    thread_tests)
      export TSAN_OPTIONS="${TSAN_OPTIONS:-die_after_fork=0 suppressions='$source_root/test/harness/tsan.supp'}"
      # Older sanitizers cannot place their memory if addresses are more random than this.
      fixed=
      if [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)" -gt 28 ]; then fixed="setarch -R"; fi
      run "$test (1 rank)" $one_thread $launcher -n 1 $fixed "$dir/$test" \
        "--test-case-exclude=*[* ranks]*"
      run "$test (2 ranks)" $one_thread $launcher -n 2 $fixed "$dir/$test" \
        "--test-case-exclude=*[* ranks]*" "--source-file=*test/mpi/*" ;;
    *_test.py)
      name=$(basename "$test" .py)
      if command -v "${PYTHON:-python3}" >/dev/null 2>&1; then
        run "$name" $one_thread "${PYTHON:-python3}" "$source_root/$test"
      else
        record "$name" 0 0 1 0 "skipped: no ${PYTHON:-python3}; make deps installs it"
      fi ;;
    *_test.sh) run "$(basename "$test" .sh)" "$source_root/$test" ;;
    *) record "$test" 0 1 0 0 "no such test" ;;
  esac
}

if [ "$mode" = one ]; then
  echo "===== $1 is running"
  run_named "$1" >"$logs/output.$$" 2>&1
  exec flock "$table" cat "$logs/output.$$"
fi
if [ "${TEST_JOBS:-1}" = 1 ] || [ $# = 1 ]; then
  for name in "$@"; do run_named "$name"; done
else
  export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"  # waiting threads leave the cores to others
  printf '%s\0' "$@" | xargs -0 -P "$TEST_JOBS" -n 1 "$0" --one "$dir" ||
    record "$*" 0 1 0 0 "a run ended without a result"
fi

# sum_of WORD prints the sum of the numbers before this word in the table.
sum_of() { grep -oE "[0-9]+ $1" "$table" | awk '{ sum += $1 } END { print sum + 0 }'; }
passed=$(sum_of passed) failed=$(sum_of failed) skipped=$(sum_of skipped)
echo
cat "$table"
echo
# One line for each kind of tests that were skipped: why, and the command that brings what they need.
cat "$logs"/*.log "$table" | sed -n 's/.*\(skipped: .*\)/\1/p' | sort -u
if [ "$failed" != 0 ]; then
  echo "what failed:"
  # The name of a test case also stands above its messages: it counts only above an error.
  awk '/^TEST CASE:/ { name = $0 }
       /: (FATAL )?ERROR:|^not ok/ { if (name != "") print name; name = ""; failing = 1; print }
       /^  values:/ && failing { print; failing = 0 }
       /^SUMMARY: .*Sanitizer/ && !told[$0]++' "$logs"/*.log | head -n 20
  echo
fi
echo "$passed passed, $failed failed, $skipped skipped" | tee "$logs/total"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
