#!/bin/bash
# @{headline}
# @{numbers}
# @{notes}
# Made by: @{command}
#
# Run: bash SCRIPT
# Exit code 75 says that it stopped cleanly before its limit: run it again to go on.
set -u

@include settings.part

# MPIRUN names another launcher with options of its own, for example MPIRUN="mpirun --oversubscribe".
read -r -a mpirun <<<"${MPIRUN:-mpirun @{launch_options}}"
# Signals reach the ranks as USR1, through this script, and nobody kills them after that. Who ends
# mpirun itself leaves the ranks these seconds for a checkpoint (Open MPI's own: 1). More would let the
# survivors of a dead rank hang: some four times as long.
export OMPI_MCA_odls_base_sigkill_timeout=@{kill_timeout}
@if shm
stage=@{stage_dir}
trap 'rm -rf "$stage"' EXIT
@end
echo "$(date): @{ranks} ranks x @{threads} threads"
wall_limit=$((@{seconds} - SECONDS))
"${mpirun[@]}" -n @{ranks} "$program" train "${train[@]}" --wall-limit "$wall_limit" &
launcher=$!
# Told to stop: every rank is, and a checkpoint follows.
trap 'kill -USR1 "$launcher"' USR1 TERM
status=
while [ -z "$status" ] || kill -0 "$launcher" 2>/dev/null; do
  wait "$launcher"
  status=$?
done
trap - USR1 TERM

@include verdict.part
exit "$status"
