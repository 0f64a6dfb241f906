#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Goes from nothing to a trained network in a few minutes on two cores: makes a small data set,
# trains a small CosmoFlow on 4 ranks (2 replicas x 2 parts), and shows that it has learned.
# Usage: quickstart.sh PROGRAM DIRECTORY
# MPIRUN names the launcher. A data set left in DIRECTORY by an earlier run is reused.
set -eu
program=${1:?usage: quickstart.sh PROGRAM DIRECTORY}
directory=${2:?usage: quickstart.sh PROGRAM DIRECTORY}
mpirun=${MPIRUN:-mpirun}
config=${0%jobscripts/*}models/quickstart.cfg  # relative if this script's path is
here=${0%quickstart.sh}
. "${here:-./}show_commands.sh"

mkdir -p "$directory"
if ! grep -qs '"extent": "32"' "$directory/data/dataset.json"; then
  run "$mpirun" -n 2 "$program" synth --out "$directory/data" --train 1024 --validation 128 \
    --extent 32 --parameter-spread 0.4 --seed 1 --overwrite
fi
rm -rf "$directory/run"
run "$mpirun" -n 4 "$program" train --config "$config" --data "$directory/data" \
  --out "$directory/run" --parts 2x1x1 --evaluate-first
run "$mpirun" -n 4 "$program" eval --checkpoint "$directory/run" --data "$directory/data" \
  --parts 2x1x1 --baseline spectrum

cat <<END

The table shows how well the network predicts the parameters of universes that it has not seen. The best
constant guess has R^2 0; a regression on power spectra shows what two-point statistics know. Results are
in $directory/run: run.json, metrics.jsonl, checkpoints/.
What to try next:
  Resume from the last checkpoint, on another mesh and for two more epochs:
    $mpirun --oversubscribe -n 6 $program train --config $config --data $directory/data \\
      --out $directory/run --parts 1x3x1 --epochs 42
  Print what each part of a mesh stores and exchanges:
    $program plan --config models/cosmoflow-v0.7-closed-512.cfg --parts 4x4x1
  List all options:
    $program train --help
END
