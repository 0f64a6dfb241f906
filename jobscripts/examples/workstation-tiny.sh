#!/bin/bash
# workstation: trains on 1 node
# 4 ranks, 4 a node, x 1 threads: 2 replicas x 2 parts (2x1x1)
# Made by: halomesh jobscript --site workstation --cores 4 --ranks-per-node 4 --parts 2x1x1 --config models/tiny.cfg --time 00:30:00 --data quickstart/data --out quickstart/job --program build/release/halomesh
#
# Run: bash SCRIPT
# Exit code 75 says that it stopped cleanly before its limit: run it again to go on.
set -u

# One thread a core, each bound to its own; a rank's threads stay together.
export OMP_NUM_THREADS=1
export OMP_PLACES=cores OMP_PROC_BIND=close
# Locks are slow or missing on parallel file systems; only rank 0 writes, so none is needed.
export HDF5_USE_FILE_LOCKING=FALSE

program=build/release/halomesh
train=(
  --parts 2x1x1
  --config models/tiny.cfg
  --data quickstart/data
  --out quickstart/job
)

# MPIRUN names another launcher with options of its own, for example MPIRUN="mpirun --oversubscribe".
read -r -a mpirun <<<"${MPIRUN:-mpirun --map-by slot:PE=1 --bind-to core}"
# Signals reach the ranks as USR1, through this script, and nobody kills them after that. Who ends
# mpirun itself leaves the ranks these seconds for a checkpoint (Open MPI's own: 1). More would let the
# survivors of a dead rank hang: some four times as long.
export OMPI_MCA_odls_base_sigkill_timeout=2
echo "$(date): 4 ranks x 1 threads"
wall_limit=$((1800 - SECONDS))
"${mpirun[@]}" -n 4 "$program" train "${train[@]}" --wall-limit "$wall_limit" &
launcher=$!
# Told to stop: every rank is, and a checkpoint follows.
trap 'kill -USR1 "$launcher"' USR1 TERM
status=
while [ -z "$status" ] || kill -0 "$launcher" 2>/dev/null; do
  wait "$launcher"
  status=$?
done
trap - USR1 TERM

case $status in
  0) echo "$(date): the training is done" ;;
  75) echo "$(date): stopped cleanly; run this script again to go on" ;;
  *) echo "$(date): ended with exit code $status" ;;
esac
exit "$status"
