#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs an installed program on two ranks: makes a small data set, trains a few steps on the installed
# configuration, evaluates the result, reports it, and writes a job script from the installed site profiles.
# Usage: install_check.sh PREFIX. Environment: MPIRUN (launcher), MPI (openmpi or mpich).
set -eu
prefix=$(cd "${1:?usage: install_check.sh PREFIX}" && pwd)
program=$prefix/bin/halomesh
launcher="${MPIRUN:-mpirun} -n 2"
if [ "${MPI:-openmpi}" = openmpi ]; then
  export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
  export OMPI_MCA_btl_vader_single_copy_mechanism=none
  if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
fi
export OMP_NUM_THREADS=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"  # the source tree must not be reachable

# step WORDS COMMAND... expects the command to succeed and to print WORDS.
step() {
  words=$1
  shift
  if ! "$@" >log 2>&1 || ! grep -q -- "$words" log; then
    echo "installcheck: expected success and \"$words\" of: $*"
    cat log
    exit 1
  fi
}

config=$prefix/share/halomesh/models/tiny.cfg
small="--input 16x16x16x4 --conv-layers 2"
step halomesh "$program" --version
# shellcheck disable=SC2086
{
  step validation $launcher "$program" synth --out data --extent 16 --train 8 --validation 4
  step "loss" $launcher "$program" train --config "$config" $small --data data --out run \
    --parts 2x1x1 --epochs 0 --steps 4
  step MAE $launcher "$program" eval --checkpoint run --data data --parts 1x2x1
  step "#!/bin/bash" "$program" jobscript --site workstation --config "$config" $small --data data --out run \
    --time 01:00:00
}
test -s run/checkpoints/step-000000004.h5
step "step 4 of 4" "$program" watch run --once
step "report in page.html" "$program" report run -o page.html
test -s page.html
echo "installcheck: $program makes data, trains and evaluates on 2 ranks, and writes job scripts"
