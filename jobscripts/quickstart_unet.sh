#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Goes from nothing to a network that classifies voxels, in a few minutes on two cores: makes
# volumes with organ- and lesion-like bodies, trains a small 3-D U-Net on 4 ranks (2 replicas x 2
# parts), and measures it on unseen volumes, beside simple answers.
# Usage: quickstart_unet.sh PROGRAM DIRECTORY
# MPIRUN names the launcher. A data set left in DIRECTORY by an earlier run is reused.
set -eu
program=${1:?usage: quickstart_unet.sh PROGRAM DIRECTORY}
directory=${2:?usage: quickstart_unet.sh PROGRAM DIRECTORY}
mpirun=${MPIRUN:-mpirun}
config=${0%jobscripts/*}models/unet3d-quickstart.cfg  # relative if this script's path is
here=${0%quickstart_unet.sh}
. "${here:-./}show_commands.sh"

mkdir -p "$directory"
if ! grep -qs '"kind": "volumes"' "$directory/data/dataset.json"; then
  run "$mpirun" -n 2 "$program" synth --kind volumes --out "$directory/data" --input 32x32x32x1 \
    --train 256 --validation 64 --seed 1 --overwrite
fi
rm -rf "$directory/run"
run "$mpirun" -n 4 "$program" train --config "$config" --data "$directory/data" \
  --out "$directory/run" --parts 2x1x1 --evaluate-first
run "$mpirun" -n 4 "$program" eval --checkpoint "$directory/run" --data "$directory/data" \
  --parts 2x1x1 --baseline threshold

cat <<END

The table shows how well the network finds the voxels of each class in volumes that it has not seen, beside
calling all of them background and the best threshold for each class. Results are in $directory/run.
What to try next:
  Train the same network on 6 parts of each volume, two more epochs from the last checkpoint:
    $mpirun --oversubscribe -n 6 $program train --config $config --data $directory/data \\
      --out $directory/run --parts 1x2x3 --epochs 18
  Print what each part of MLPerf's 3-D U-Net stores and exchanges:
    $program plan --config models/unet3d-kits19.cfg --parts 2x2x2
END
