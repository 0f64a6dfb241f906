#!/bin/bash
# Fugaku (RIKEN R-CCS), A64FX, Tofu interconnect D: trains on 16384 nodes
# 65536 ranks, 4 a node, x 12 threads: 4096 replicas x 16 parts (4x4x1)
# From your home directory: pjsub --no-check-directory.
# What ranks print goes to output.JOB/, a directory for every 1000 of them.
# No path here begins with /vol0...: name the volumes used, with --volumes or pjsub -x PJM_LLIO_GFSCACHE=...
# Made by: halomesh jobscript --site fugaku --nodes 16384 --shape 32x16x32 --parts 4x4x1 --stage-gib 1 --config models/cosmoflow-v0.7-fugaku-open-4096.cfg --time 05:00:00 --data data/cosmoUniverse --out runs/fugaku-16384-open --program build/release/halomesh
#
# Submit one job:             pjsub -g GROUP SCRIPT
# Submit a chain of 10 jobs: bash SCRIPT submit -g GROUP
# In a chain each job goes on where the one before stopped, until the training is done; jobs that
# are then left over are deleted. To go on after the last, submit again: nothing is lost.
#
#PJM -L "rscgrp=large"
#PJM -L "node=32x16x32:torus"
#PJM -L "elapse=05:00:00"
#PJM -L "freq=2200"
#PJM -L "eco_state=0"
#PJM --mpi "proc=65536"
#PJM --mpi "max-proc-per-node=4"
#PJM --llio "localtmp-size=1Gi"
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
  echo "This is a job: submit it with pjsub -g GROUP $0" >&2
  exit 2
fi

# One thread a core, each bound to its own; a rank's threads stay together.
export OMP_NUM_THREADS=12
export OMP_PLACES=cores OMP_PROC_BIND=close
# Locks are slow or missing on parallel file systems; only rank 0 writes, so none is needed.
export HDF5_USE_FILE_LOCKING=FALSE
# This site's own settings; sources are in its profile, jobscripts/sites/fugaku.ini.
export PLE_MPI_STD_EMPTYFILE=off
export XOS_MMM_L_HPAGE_TYPE=hugetlbfs
export OMPI_MCA_plm_ple_memory_allocation_policy=bind_local

program=build/release/halomesh
train=(
  --parts 4x4x1
  --config models/cosmoflow-v0.7-fugaku-open-4096.cfg
  --data data/cosmoUniverse
  --out runs/fugaku-16384-open
  --stage-dir "$PJM_LOCALTMP"
)

echo "$(date): job $PJM_JOBID, 65536 ranks x 12 threads on ${PJM_NODE:-16384} nodes"
# All nodes read these at once: give each its own copy instead.
shared=("$program" models/cosmoflow-v0.7-fugaku-open-4096.cfg)
llio_transfer "${shared[@]}"
trap 'llio_transfer --purge "${shared[@]}"' EXIT

# No warning comes before the limit, and what the cache has not yet written is lost when it comes.
# So the program stops by its own clock, 180 s before.
wall_limit=$((18000 - SECONDS - 180))
mpiexec -n 65536 -stdout-proc output.%j/%/1000r/stdout -stderr-proc output.%j/%/1000r/stderr \
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
