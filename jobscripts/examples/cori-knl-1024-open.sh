#!/bin/bash
# Cori KNL (NERSC), Xeon Phi 7250, Aries: trains on 1024 nodes
# 1024 ranks, 1 a node, x 64 threads: 1024 replicas x 1 part (1x1x1)
# This machine is out of service.
# Made by: halomesh jobscript --site cori-knl --nodes 1024 --config models/cosmoflow-v0.7-cori-open-1024.cfg --time 12:00:00 --data data/cosmoUniverse --out runs/cori-knl-1024-open --program build/release/halomesh
#
# Submit: sbatch SCRIPT
# The job stops cleanly before its limit, puts itself back into the queue and goes on from there,
# at most 10 times, until the training is done.
#
#SBATCH --job-name=halomesh
#SBATCH --nodes=1024
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=256
#SBATCH --core-spec=4
#SBATCH --time=12:00:00
#SBATCH --qos=regular
#SBATCH --constraint=knl,quad,cache
#SBATCH --licenses=SCRATCH
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
set -u

if [ -z "${SLURM_JOB_ID-}" ]; then
  echo "This is a job: submit it with sbatch $0" >&2
  exit 2
fi

# One thread a core, each bound to its own; a rank's threads stay together.
export OMP_NUM_THREADS=64
export OMP_PLACES=cores OMP_PROC_BIND=close
# Locks are slow or missing on parallel file systems; only rank 0 writes, so none is needed.
export HDF5_USE_FILE_LOCKING=FALSE
# This site's own settings; sources are in its profile, jobscripts/sites/cori-knl.ini.
export KMP_BLOCKTIME=1

program=build/release/halomesh
train=(
  --config models/cosmoflow-v0.7-cori-open-1024.cfg
  --data data/cosmoUniverse
  --out runs/cori-knl-1024-open
)

restarts=${SLURM_RESTART_COUNT:-0}
echo "$(date): job $SLURM_JOB_ID, start $((restarts + 1)) of at most 10," \
  "1024 ranks x 64 threads on ${SLURM_JOB_NUM_NODES:-1024} nodes"

# The program stops by its own clock, 60 s before the end that Slurm has set, or when
# Slurm's signal before the limit reaches it, whichever comes first.
now=$(date +%s)
ends=${SLURM_JOB_END_TIME:-$((now - SECONDS + 43200))}
wall_limit=$((ends - now - 60))
# --wait: when one rank is gone, the others follow within seconds and do not hang until the limit.
srun --wait=5 --cpus-per-task=256 --cpu-bind=cores \
  "$program" train "${train[@]}" --wall-limit "$wall_limit"
status=$?

case $status in
  0) echo "$(date): the training is done" ;;
  75) echo "$(date): stopped cleanly; the job goes back into the queue unless this was its last start" ;;
  *) echo "$(date): ended with exit code $status" ;;
esac
# Stopped, or killed with a rank or its node: go on from the last checkpoint. An error that would
# only come again is not repeated.
if ((status == 75 || status > 128)) && ((restarts + 1 < 10)); then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
