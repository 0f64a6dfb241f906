#!/bin/bash
# @{headline}
# @{numbers}
# @{notes}
# Made by: @{command}
#
# Submit: sbatch @{submit_options}SCRIPT
# The job stops cleanly before its limit, requeues itself and resumes, at most @{jobs} times, until the
# @{work} is done.
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
# Node-local copies of the data are in memory; they are removed when the job ends.
stage=@{stage_dir}
trap 'srun --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 rm -rf "$stage"' EXIT
@end
@if bcast
# Loading one file from a shared disk takes many ranks minutes: give each node its own copy. This step
# also shows that the program starts on every node.
copy=/tmp/@{name}-$SLURM_JOB_ID
srun --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --bcast="$copy" --compress=lz4 \
  "$program" --version >/dev/null || exit
program=$copy
@end

# The program stops @{end_margin} s before the end that Slurm has set, or on Slurm's signal before the
# limit, whichever comes first.
now=$(date +%s)
ends=${SLURM_JOB_END_TIME:-$((now - SECONDS + @{seconds}))}
wall_limit=$((ends - now - @{end_margin}))
@if srun
# --wait: when one rank has died, the others are ended within seconds instead of hanging until the limit.
srun --wait=@{srun_wait} @{launch_options} \
  "$program" @{verb} "${@{verb}[@]}" --wall-limit "$wall_limit"
status=$?
@else
# This script passes signals on to the ranks as USR2, after which nothing kills them. If mpirun itself is
# terminated, the ranks have this many seconds for a checkpoint (default of Open MPI: 1). The survivors of
# a dead rank hang for about four times as long, so more would cost time.
export OMPI_MCA_odls_base_sigkill_timeout=@{kill_timeout}
mpirun -n @{ranks} @{launch_options} \
  "$program" @{verb} "${@{verb}[@]}" --wall-limit "$wall_limit" &
launcher=$!
trap 'kill -USR2 "$launcher"' USR2 TERM
# USR1 has them print where the time goes.
trap 'kill -USR1 "$launcher"' USR1
status=
while [ -z "$status" ] || kill -0 "$launcher" 2>/dev/null; do
  wait "$launcher"
  status=$?
done
trap - USR1 USR2 TERM
@end

@include verdict.part
# Stopped, or killed with a rank or its node: resume from the last checkpoint. After an error, which
# would only recur, the job is not requeued.
if ((status == 75 || status > 128)) && ((restarts + 1 < @{jobs})); then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
