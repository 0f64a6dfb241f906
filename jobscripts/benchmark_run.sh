#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the whole benchmark in small: makes synthetic universes, trains until the eval_error of
# MLPerf HPC is reached, and checks the log with the official checker if CHECKER names a copy.
# Usage: benchmark_run.sh PROGRAM DIRECTORY
# MPIRUN names the launcher, RANKS the number of ranks (2). A data set left in DIRECTORY by an
# earlier run is reused. CHECKER is a directory with a copy of github.com/mlcommons/logging.
set -eu
program=${1:?usage: benchmark_run.sh PROGRAM DIRECTORY}
directory=${2:?usage: benchmark_run.sh PROGRAM DIRECTORY}
mpirun=${MPIRUN:-mpirun}
ranks=${RANKS:-2}
here=${0%benchmark_run.sh}
. "${here:-./}show_commands.sh"

mkdir -p "$directory"
if ! grep -qs '"parameter-spread": "0.5"' "$directory/data/dataset.json"; then
  run "$mpirun" -n "$ranks" "$program" synth --out "$directory/data" --train 1024 --validation 128 \
    --extent 64 --parameter-spread 0.5 --seed 1 --overwrite
fi
rm -rf "$directory/run"
run "$mpirun" -n "$ranks" "$program" train --config "${here}../models/benchmark.cfg" \
  --data "$directory/data" --out "$directory/run"
run "$mpirun" -n "$ranks" "$program" eval --checkpoint "$directory/run" --data "$directory/data" \
  --baseline spectrum
run "$program" mlperf-summary "$directory/run"

log=$(cd "$directory/run" && pwd)/mllog.txt
if [ -z "${CHECKER:-}" ]; then
  echo
  echo "The log is $log. To check it: CHECKER=DIR make benchmark-run, with DIR a copy of"
  echo "github.com/mlcommons/logging."
  exit 0
fi
cd "$CHECKER"
for rules in 1.0.0 2.0.0 3.0.0; do
  run python3 -m mlperf_logging.compliance_checker --usage hpc --ruleset "$rules" "$log"
done
