#!/bin/bash
# Flow Type I (Nagoya University), FX1000, A64FX: trains on 128 nodes
# 512 ranks, 4 a node, x 12 threads: 512 replicas x 1 part (1x1x1)
# Made by: halomesh jobscript --site flow --nodes 128 --parts 1x1x1 --config models/cosmoflow-v0.7-closed-512.cfg --time 24:00:00 --data data/cosmoUniverse --out runs/flow-128-closed --program build/release/halomesh
#
# Submit one job:             pjsub SCRIPT
# Submit a chain of 10 jobs: bash SCRIPT submit
# In a chain each job goes on where the one before stopped, until the training is done; jobs that
# are then left over are deleted. To go on after the last, submit again: nothing is lost.
#
#PJM -L "rscgrp=fx-large"
#PJM -L "node=128"
#PJM -L "elapse=24:00:00"
#PJM -L "rscunit=fx"
#PJM --mpi "proc=512"
#PJM --mpi "max-proc-per-node=4"
#PJM -N "halomesh"
#PJM -j
#PJM -S
set -u

# A chain of step jobs: a step is deleted, with those after it, unless the one before ended with
# exit code 75, "stopped cleanly, run again to go on".
if [ "${1-}" = submit ]; then
  shift
  chain=halomesh-$$
  for ((step = 0; step < 10; ++step)); do
    depend=
    if ((step > 0)); then depend=",sd=ec!=75:after:$((step - 1))"; fi
    pjsub --step --sparam "jnam=$chain,sn=$step$depend" "$@" "$0" || exit
  done
  exit
fi
if [ -z "${PJM_JOBID-}" ]; then
  echo "This is a job: submit it with pjsub $0" >&2
  exit 2
fi

# What the program was built with. If you built it with other modules, load those.
module load tcs
# One thread a core, each bound to its own; a rank's threads stay together.
export OMP_NUM_THREADS=12
export OMP_PLACES=cores OMP_PROC_BIND=close
# Locks are slow or missing on parallel file systems; only rank 0 writes, so none is needed.
export HDF5_USE_FILE_LOCKING=FALSE
# This site's own settings; sources are in its profile, jobscripts/sites/flow.ini.
export PLE_MPI_STD_EMPTYFILE=off
export OMPI_MCA_plm_ple_memory_allocation_policy=bind_local

program=build/release/halomesh
train=(
  --parts 1x1x1
  --config models/cosmoflow-v0.7-closed-512.cfg
  --data data/cosmoUniverse
  --out runs/flow-128-closed
)

echo "$(date): job $PJM_JOBID, 512 ranks x 12 threads on ${PJM_NODE:-128} nodes"

# No warning comes before the limit, and what the cache has not yet written is lost when it comes.
# So the program stops by its own clock, 120 s before.
wall_limit=$((86400 - SECONDS - 120))
mpiexec -n 512  \
  "$program" train "${train[@]}" --wall-limit "$wall_limit"
status=$?

case $status in
  0) echo "$(date): the training is done" ;;
  75) echo "$(date): stopped cleanly; the next job of the chain goes on" ;;
  *) echo "$(date): ended with exit code $status" ;;
esac
# Killed by a signal: a rank or its node has died. The next job of the chain may go on, too.
if ((status > 128)); then status=75; fi
exit "$status"
