#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the pictures of a report and of a trace in docs/images from small runs: some two minutes.
# Usage: screenshots.sh HALOMESH NODE_MODULES IMAGES; MPIRUN names the launcher. NODE_MODULES holds
# playwright-core and speedscope.
set -eu
program=$1 modules=$2 images=$3
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

on() { # on RANKS COMMAND...
  ranks=$1
  shift
  echo "  halomesh $1 on $ranks ranks"
  "${MPIRUN:-mpirun}" --oversubscribe -n "$ranks" "$program" "$@" >>"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2; exit 1; }
}

on 2 synth --out "$work/data" --train 128 --validation 32 --extent 32 --parameter-spread 0.4
settings="--config models/tiny.cfg --input 32x32x32x4 --data $work/data --epochs 8 --batch 4"
# shellcheck disable=SC2086
{
  on 1 train $settings --out "$work/one-rank"
  on 2 train $settings --out "$work/two-parts" --parts 2x1x1 --stage-dir "$work/stage"
  on 4 train $settings --out "$work/two-by-two" --parts 2x1x1 --trace "$work/trace.json.gz"
  on 2 predict --checkpoint "$work/two-parts" --data "$work/data" --out "$work/predictions.csv"
  on 2 bench --config models/tiny.cfg --parts 1x1x1,2x1x1 --evaluate --json "$work/bench.json"
}
"$program" report "$work/one-rank" "$work/two-parts" "$work/two-by-two" "$work/bench.json" \
  "$work/trace.json.gz" "$work/predictions.csv" -o "$work/report.html"
NODE_PATH=$modules node "$here/screenshots.cjs" "$work/report.html" "$work/trace.json.gz" \
  "$modules/speedscope/dist/release" "$images"
