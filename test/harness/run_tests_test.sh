#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Gives run_tests.sh programs that end in every possible way, and expects the right totals, one
# after the other and side by side. Its last line is "N passed, M failed, K skipped".
set -eu
run_tests=$(cd "$(dirname "$0")" && pwd)/run_tests.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HALOMESH_SOURCE="$scratch" MPIRUN=true TEST_SECONDS=2
passed=0 failed=0

# program NAME LINES writes a test program.
program() {
  printf '#!/bin/sh\n%s\n' "$2" >"$scratch/$1"
  chmod +x "$scratch/$1"
}

# expect TOTAL REMARK NAME... expects this last line, and this remark in the table.
expect() {
  total=$1 remark=$2
  shift 2
  for jobs in 1 2; do
    output=$(TEST_JOBS=$jobs sh "$run_tests" "$scratch" "$@" 2>&1) || true
    case "$(echo "$output" | tail -n 1)|$output" in
      "$total|"*"$remark"*) passed=$((passed + 1)) ;;
      *)
        failed=$((failed + 1))
        printf 'not ok: %s (%s side by side): expected "%s" and "%s"; printed:\n%s\n' \
          "$*" "$jobs" "$total" "$remark" "$output" ;;
    esac
  done
}

program partition_tests 'echo "x_test.cpp:3: MESSAGE: skipped: no disk"; echo "[tally] 5 passed, 0 failed, 2 skipped"'
program nn_tests 'echo "[tally] 7 passed, 1 failed, 0 skipped"; exit 1'
program good_test.sh 'echo talk; echo "3 passed, 0 failed, 1 skipped"'
expect "5 passed, 0 failed, 2 skipped" "
skipped: no disk" partition_tests
# Two suites without PyTorch and a program without Slurm: a line for each kind, with its command.
program one_test.sh 'echo "skipped: no torch; make test TORCH=1 installs it"; echo "0 passed, 0 failed, 4 skipped"'
program two_test.sh 'echo "skipped: no torch; make test TORCH=1 installs it"; echo "1 passed, 0 failed, 5 skipped"'
program system_tests 'echo "skipped: no sbatch; make test SLURM=1 installs it" >&2; echo "[tally] 1 passed, 0 failed, 1 skipped"'
expect "2 passed, 0 failed, 10 skipped" "
skipped: no sbatch; make test SLURM=1 installs it
skipped: no torch; make test TORCH=1 installs it
2 passed, " one_test.sh two_test.sh system_tests
# Each source of the system tests is in one share.
mkdir -p "$scratch/test/system"
touch "$scratch/test/system/a_test.cpp" "$scratch/test/system/b_test.cpp" "$scratch/test/system/c_test.cpp"
program system_tests 'echo "[tally] $(echo "$1" | grep -o _test.cpp | wc -l) passed, 0 failed, 0 skipped"; echo "$1"'
expect "2 passed, 0 failed, 0 skipped" "--source-file=*test/system/a_test.cpp,*test/system/c_test.cpp" system_tests/1/2
expect "1 passed, 0 failed, 0 skipped" "--source-file=*test/system/b_test.cpp" system_tests/2/2
expect "3 passed, 0 failed, 0 skipped" "system_tests/2/2" system_tests/1/2 system_tests/2/2
expect "15 passed, 1 failed, 3 skipped" "good_test " partition_tests nn_tests good_test.sh
expect "0 passed, 1 failed, 0 skipped" "no such test" nothing

program nn_tests 'exit 0'
expect "5 passed, 1 failed, 2 skipped" "exit status 0 without a summary" nn_tests partition_tests
program nn_tests 'kill -SEGV $$'
expect "0 passed, 1 failed, 0 skipped" "exit status 139 without a summary" nn_tests
program nn_tests 'echo "[tally] 7 passed, 0 failed, 0 skipped"; exit 3'
expect "7 passed, 1 failed, 0 skipped" "exit status 3 although no case failed" nn_tests
program nn_tests 'for i in 1 2; do echo "[tally] 7 passed, 0 failed, 0 skipped"; done'
expect "0 passed, 1 failed, 0 skipped" "more than one summary" nn_tests
program nn_tests 'exit 86'
expect "0 passed, 1 failed, 0 skipped" "ended by the watchdog" nn_tests
program nn_tests 'sleep 30'
expect "0 passed, 1 failed, 0 skipped" "timed out after 2 s" nn_tests
program bad_test.sh 'echo "3 passed, 0 failed, 0 skipped"; echo "and more"'
expect "0 passed, 1 failed, 0 skipped" "without a summary" bad_test.sh

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
