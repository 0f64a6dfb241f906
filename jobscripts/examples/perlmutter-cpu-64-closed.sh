#!/bin/bash
# Perlmutter CPU nodes (NERSC), 2 x AMD EPYC 7763, Slingshot: trains on 64 nodes
# 512 ranks, 8 per node, x 16 threads: 256 replicas x 2 parts (2x1x1)
# Made by: halomesh jobscript --site perlmutter-cpu --nodes 64 --parts 2x1x1 --config models/cosmoflow-v0.7-closed-64.cfg --time 12:00:00 --batch 256 --lr 0.004 --data data/cosmoUniverse --out runs/perlmutter-cpu-64-closed --program build/release/halomesh
#
# Submit: sbatch --account=ACCOUNT SCRIPT
# The job stops cleanly before its limit, requeues itself and resumes, at most 10 times, until the
# training is done.
#
#SBATCH --job-name=halomesh
#SBATCH --nodes=64
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --time=12:00:00
#SBATCH --qos=regular
#SBATCH --constraint=cpu
#SBATCH --signal=USR2@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
set -u

if [ -z "${SLURM_JOB_ID-}" ]; then
  echo "This is a job: submit it with sbatch --account=ACCOUNT $0" >&2
  exit 2
fi

# One thread per core, each bound to its own; the threads of a rank stay together.
export OMP_NUM_THREADS=16
export OMP_PLACES=cores OMP_PROC_BIND=close
# The ranks own their cores: between two loops a thread that waits does not go to sleep.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-active}"
# File locks are slow or missing on parallel file systems; only rank 0 writes, so none is needed.
export HDF5_USE_FILE_LOCKING=FALSE

program=build/release/halomesh
train=(
  --parts 2x1x1
  --config models/cosmoflow-v0.7-closed-64.cfg
  --batch 256
  --lr 0.004
  --data data/cosmoUniverse
  --out runs/perlmutter-cpu-64-closed
)

restarts=${SLURM_RESTART_COUNT:-0}
echo "$(date): job $SLURM_JOB_ID, start $((restarts + 1)) of at most 10," \
  "512 ranks x 16 threads on ${SLURM_JOB_NUM_NODES:-64} nodes"

# The program stops 60 s before the end that Slurm has set, or on Slurm's signal before the
# limit, whichever comes first.
now=$(date +%s)
ends=${SLURM_JOB_END_TIME:-$((now - SECONDS + 43200))}
wall_limit=$((ends - now - 60))
# --wait: when one rank has died, the others are ended within seconds instead of hanging until the limit.
srun --wait=5 --cpus-per-task=32 --cpu-bind=cores \
  "$program" train "${train[@]}" --wall-limit "$wall_limit"
status=$?

case $status in
  0) echo "$(date): the training is done" ;;
  75) echo "$(date): stopped cleanly; the job goes back into the queue unless this was its last start" ;;
  *) echo "$(date): ended with exit code $status" ;;
esac
# Stopped, or killed with a rank or its node: resume from the last checkpoint. After an error, which
# would only recur, the job is not requeued.
if ((status == 75 || status > 128)) && ((restarts + 1 < 10)); then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
