#!/bin/bash
# Wisteria/BDEC-01 Odyssey (University of Tokyo), FX1000, A64FX: trains on 512 nodes
# 2048 ranks, 4 a node, x 12 threads: 512 replicas x 4 parts (4x1x1)
# Submit from /work/GROUP/USER; data, results and program must lie there, too.
# What ranks print goes to output.JOB/, a directory for every 1000 of them.
# Made by: halomesh jobscript --site wisteria-o --nodes 512 --parts 4x1x1 --config models/cosmoflow-v0.7-closed-512.cfg --time 12:00:00 --data data/cosmoUniverse --out runs/wisteria-o-512-closed --program build/release/halomesh
#
# Submit one job:             pjsub -g GROUP SCRIPT
# Submit a chain of 10 jobs: bash SCRIPT submit -g GROUP
# In a chain each job goes on where the one before stopped, until the training is done; jobs that
# are then left over are deleted. To go on after the last, submit again: nothing is lost.
#
#PJM -L "rscgrp=regular-o"
#PJM -L "node=512"
#PJM -L "elapse=12:00:00"
#PJM --mpi "proc=2048"
#PJM --mpi "max-proc-per-node=4"
#PJM -N "halomesh"
#PJM -j
#PJM --omp thread=12
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
  echo "This is a job: submit it with pjsub -g GROUP $0" >&2
  exit 2
fi

# What the program was built with. If you built it with other modules, load those.
module load fj
module load fjmpi
# One thread a core, each bound to its own; a rank's threads stay together.
export OMP_NUM_THREADS=12
export OMP_PLACES=cores OMP_PROC_BIND=close
# Locks are slow or missing on parallel file systems; only rank 0 writes, so none is needed.
export HDF5_USE_FILE_LOCKING=FALSE
# This site's own settings; sources are in its profile, jobscripts/sites/wisteria-o.ini.
export PLE_MPI_STD_EMPTYFILE=off
export OMPI_MCA_plm_ple_memory_allocation_policy=bind_local

program=build/release/halomesh
train=(
  --parts 4x1x1
  --config models/cosmoflow-v0.7-closed-512.cfg
  --data data/cosmoUniverse
  --out runs/wisteria-o-512-closed
)

echo "$(date): job $PJM_JOBID, 2048 ranks x 12 threads on ${PJM_NODE:-512} nodes"

# No warning comes before the limit, and what the cache has not yet written is lost when it comes.
# So the program stops by its own clock, 120 s before.
wall_limit=$((43200 - SECONDS - 120))
mpiexec -n 2048 -stdout-proc output.%j/%/1000r/stdout -stderr-proc output.%j/%/1000r/stderr \
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
