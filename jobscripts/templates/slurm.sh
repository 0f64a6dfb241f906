#!/bin/bash
# @{headline}
# @{numbers}
# @{notes}
# Made by: @{command}
#
# Submit: sbatch @{submit_options}SCRIPT
# The job stops cleanly before its limit, puts itself back into the queue and goes on from there,
# at most @{jobs} times, until the training is done.
#
#SBATCH --job-name=@{name}
#SBATCH --nodes=@{nodes}
#SBATCH --ntasks-per-node=@{ranks_per_node}
#SBATCH --cpus-per-task=@{cpus_per_rank}
#SBATCH --core-spec=@{reserved_cores}
#SBATCH --time=@{time}
#SBATCH --@{queue_option}=@{queue}
#SBATCH --account=@{account}
#SBATCH @{directives}
#SBATCH --signal=@{signal}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
#DW @{burst_buffer}
set -u

if [ -z "${SLURM_JOB_ID-}" ]; then
  echo "This is a job: submit it with sbatch @{submit_options}$0" >&2
  exit 2
fi

@include settings.part

restarts=${SLURM_RESTART_COUNT:-0}
echo "$(date): job $SLURM_JOB_ID, start $((restarts + 1)) of at most @{jobs}," \
  "@{ranks} ranks x @{threads} threads on ${SLURM_JOB_NUM_NODES:-@{nodes}} nodes"
@if shm
# Node-local copies of the data live in memory; they go when the job goes.
stage=@{stage_dir}
trap 'srun --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 rm -rf "$stage"' EXIT
@end
@if bcast
# Many ranks that load one file from a shared disk take minutes: give each node its own copy. This
# step also shows that the program starts on every node.
copy=/tmp/@{name}-$SLURM_JOB_ID
srun --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --bcast="$copy" --compress=lz4 \
  "$program" --version >/dev/null || exit
program=$copy
@end

# The program stops by its own clock, @{end_margin} s before the end that Slurm has set, or when
# Slurm's signal before the limit reaches it, whichever comes first.
now=$(date +%s)
ends=${SLURM_JOB_END_TIME:-$((now - SECONDS + @{seconds}))}
wall_limit=$((ends - now - @{end_margin}))
@if srun
# --wait: when one rank is gone, the others follow within seconds and do not hang until the limit.
srun --wait=@{srun_wait} @{launch_options} \
  "$program" train "${train[@]}" --wall-limit "$wall_limit"
status=$?
@else
# Signals reach the ranks as USR1, through this script, and nobody kills them after that. Who ends
# mpirun itself leaves the ranks these seconds for a checkpoint (Open MPI's own: 1). More would let the
# survivors of a dead rank hang: some four times as long.
export OMPI_MCA_odls_base_sigkill_timeout=@{kill_timeout}
mpirun -n @{ranks} @{launch_options} \
  "$program" train "${train[@]}" --wall-limit "$wall_limit" &
launcher=$!
trap 'kill -USR1 "$launcher"' USR1 TERM
status=
while [ -z "$status" ] || kill -0 "$launcher" 2>/dev/null; do
  wait "$launcher"
  status=$?
done
trap - USR1 TERM
@end

@include verdict.part
# Stopped, or killed with a rank or its node: go on from the last checkpoint. An error that would
# only come again is not repeated.
if ((status == 75 || status > 128)) && ((restarts + 1 < @{jobs})); then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
