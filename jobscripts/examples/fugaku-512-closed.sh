#!/bin/bash
# Fugaku (RIKEN R-CCS), A64FX, Tofu interconnect D: trains on 512 nodes
# 2048 ranks, 4 per node, x 12 threads: 512 replicas x 4 parts (4x1x1)
# From your home directory: pjsub --no-check-directory.
# The ranks' output goes to output.JOB/, with one directory per 1000 ranks.
# No path here begins with /vol0...: name the volumes used, with --volumes or pjsub -x PJM_LLIO_GFSCACHE=...
# Made by: halomesh jobscript --site fugaku --nodes 512 --shape 4x4x32 --parts 4x1x1 --stage-gib 12 --config models/cosmoflow-v0.7-closed-512.cfg --time 12:00:00 --data data/cosmoUniverse --out runs/fugaku-512-closed --program build/release/halomesh
#
# Submit one job:             pjsub -g GROUP SCRIPT
# Submit a chain of 10 jobs: bash SCRIPT submit -g GROUP
# In a chain each job resumes where the previous one stopped, until the training is done; the remaining
# jobs are then deleted. To continue after the last job, submit again: nothing is lost.
#
#PJM -L "rscgrp=large"
#PJM -L "node=4x4x32:torus"
#PJM -L "elapse=12:00:00"
#PJM -L "freq=2200"
#PJM -L "eco_state=0"
#PJM --mpi "proc=2048"
#PJM --mpi "max-proc-per-node=4"
#PJM --llio "localtmp-size=12Gi"
#PJM -N "halomesh"
#PJM -j
#PJM -S
set -u

# A chain of step jobs: a step is deleted, with all that follow it, unless the previous one ended with
# exit code 75, "stopped cleanly, run again to resume".
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

# One thread per core, each bound to its own; the threads of a rank stay together.
export OMP_NUM_THREADS=12
export OMP_PLACES=cores OMP_PROC_BIND=close
# The ranks own their cores: between two loops a thread that waits does not go to sleep.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-active}"
# File locks are slow or missing on parallel file systems; only rank 0 writes, so none is needed.
export HDF5_USE_FILE_LOCKING=FALSE
# Settings of this site; their sources are in its profile, jobscripts/sites/fugaku.ini.
export PLE_MPI_STD_EMPTYFILE=off
export XOS_MMM_L_HPAGE_TYPE=hugetlbfs
export OMPI_MCA_plm_ple_memory_allocation_policy=bind_local

program=build/release/halomesh
train=(
  --parts 4x1x1
  --config models/cosmoflow-v0.7-closed-512.cfg
  --data data/cosmoUniverse
  --out runs/fugaku-512-closed
  --stage-dir "$PJM_LOCALTMP"
)

echo "$(date): job $PJM_JOBID, 2048 ranks x 12 threads on ${PJM_NODE:-512} nodes"
# All nodes would read these files at once: give each its own copy instead.
shared=("$program" models/cosmoflow-v0.7-closed-512.cfg)
llio_transfer "${shared[@]}"
trap 'llio_transfer --purge "${shared[@]}"' EXIT

# PJM sends no warning before the limit, and what the cache has not written by then is lost. So the
# program stops by its own clock, 180 s earlier.
wall_limit=$((43200 - SECONDS - 180))
mpiexec -n 2048 -stdout-proc output.%j/%/1000r/stdout -stderr-proc output.%j/%/1000r/stderr \
  "$program" train "${train[@]}" --wall-limit "$wall_limit"
status=$?

case $status in
  0) echo "$(date): the training is done" ;;
  75) echo "$(date): stopped cleanly; the next job of the chain resumes" ;;
  *) echo "$(date): ended with exit code $status" ;;
esac
# Killed by a signal: a rank or its node has died. The next job of the chain may resume then, too.
if ((status > 128)); then status=75; fi
exit "$status"
