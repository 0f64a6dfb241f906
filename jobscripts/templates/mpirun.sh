#!/bin/bash
# @{headline}
# @{numbers}
# @{notes}
# Made by: @{command}
#
# Run: bash SCRIPT
# Exit code 75: stopped cleanly before the limit; run it again to resume.
set -u

@include settings.part

# MPIRUN names another launcher with options of its own, for example MPIRUN="mpirun --oversubscribe".
read -r -a mpirun <<<"${MPIRUN:-mpirun @{launch_options}}"
# This script passes signals on to the ranks as USR2, after which nothing kills them. If mpirun itself is
# terminated, the ranks have this many seconds for a checkpoint (default of Open MPI: 1). The survivors of
# a dead rank hang for about four times as long, so more would cost time.
export OMPI_MCA_odls_base_sigkill_timeout=@{kill_timeout}
@if shm
stage=@{stage_dir}
trap 'rm -rf "$stage"' EXIT
@end
echo "$(date): @{ranks} ranks x @{threads} threads"
wall_limit=$((@{seconds} - SECONDS))
"${mpirun[@]}" -n @{ranks} "$program" @{verb} "${@{verb}[@]}" --wall-limit "$wall_limit" &
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

@include verdict.part
exit "$status"
