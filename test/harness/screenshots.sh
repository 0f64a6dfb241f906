#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the pictures of a report and of a trace in docs/images from small runs, in some two minutes.
# Usage: screenshots.sh HALOMESH NODE_MODULES IMAGES; MPIRUN names the launcher. NODE_MODULES has
# playwright-core and speedscope.
set -eu
program=$(realpath "$1") modules=$(realpath "$2") images=$(realpath "$3")
here=$(realpath "$(dirname "$0")")
config=$(realpath models/tiny.cfg)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

on() { # on RANKS COMMAND...
  ranks=$1
  shift
  echo "  halomesh $1 on $ranks ranks"
  "${MPIRUN:-mpirun}" --oversubscribe -n "$ranks" "$program" "$@" >>log 2>&1 ||
    { tail -n 20 log >&2; exit 1; }
}

on 2 synth --out data --train 128 --validation 32 --extent 32 --parameter-spread 0.4
settings="--config $config --input 32x32x32x4 --data data --epochs 8 --batch 4"
# shellcheck disable=SC2086
{
  on 1 train $settings --out one-rank
  on 2 train $settings --out two-parts --parts 2x1x1 --stage-dir stage
  on 4 train $settings --out two-by-two --parts 2x1x1 --trace trace.json.gz
  on 2 predict --checkpoint two-parts --data data --out predictions.csv
  on 2 bench --config "$config" --parts 1x1x1,2x1x1 --evaluate --json bench.json
}
"$program" report one-rank two-parts two-by-two bench.json \
  trace.json.gz predictions.csv -o report.html
NODE_PATH=$modules node "$here/screenshots.cjs" report.html trace.json.gz \
  "$modules/speedscope/dist/release" "$images"
