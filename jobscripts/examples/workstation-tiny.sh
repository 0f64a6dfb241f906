#!/bin/bash
# workstation: trains on 1 node
# 4 ranks, 4 per node, x 1 thread: 2 replicas x 2 parts (2x1x1)
# Made by: halomesh jobscript --site workstation --cores 4 --ranks-per-node 4 --parts 2x1x1 --config models/quickstart.cfg --time 00:30:00 --data quickstart/data --out quickstart/job --program build/release/halomesh
#
# Run: bash SCRIPT
# Exit code 75: stopped cleanly before the limit; run it again to resume.
set -u

# One thread per core, each bound to its own; the threads of a rank stay together.
export OMP_NUM_THREADS=1
export OMP_PLACES=cores OMP_PROC_BIND=close
# File locks are slow or missing on parallel file systems; only rank 0 writes, so none is needed.
export HDF5_USE_FILE_LOCKING=FALSE

program=build/release/halomesh
train=(
  --parts 2x1x1
  --config models/quickstart.cfg
  --data quickstart/data
  --out quickstart/job
)

# MPIRUN names another launcher with options of its own, for example MPIRUN="mpirun --oversubscribe".
read -r -a mpirun <<<"${MPIRUN:-mpirun --map-by slot:PE=1 --bind-to core}"
# This script passes signals on to the ranks as USR2, after which nothing kills them. If mpirun itself is
# terminated, the ranks have this many seconds for a checkpoint (default of Open MPI: 1). The survivors of
# a dead rank hang for about four times as long, so more would cost time.
export OMPI_MCA_odls_base_sigkill_timeout=2
echo "$(date): 4 ranks x 1 threads"
wall_limit=$((1800 - SECONDS))
"${mpirun[@]}" -n 4 "$program" train "${train[@]}" --wall-limit "$wall_limit" &
launcher=$!
# On a signal every rank stops, with a checkpoint.
trap 'kill -USR2 "$launcher"' USR2 TERM
# USR1 has them print where the time goes.
trap 'kill -USR1 "$launcher"' USR1
status=
while [ -z "$status" ] || kill -0 "$launcher" 2>/dev/null; do
  wait "$launcher"
  status=$?
done
trap - USR1 USR2 TERM

case $status in
  0) echo "$(date): the training is done" ;;
  75) echo "$(date): stopped cleanly; run this script again to resume" ;;
  *) echo "$(date): ended with exit code $status" ;;
esac
exit "$status"
