#!/bin/bash
# @{headline}
# @{numbers}
# @{notes}
# Made by: @{command}
#
# Submit one job:             pjsub @{submit_options}SCRIPT
# Submit a chain of @{jobs} jobs: bash SCRIPT submit @{account_option}
# In a chain each job goes on where the one before stopped, until the training is done; jobs that
# are then left over are deleted. To go on after the last, submit again: nothing is lost.
#
#PJM -L "@{resources}"
#PJM --mpi "@{mpi}"
#PJM --llio "@{llio}"
#PJM -x "PJM_LLIO_GFSCACHE=@{volumes}"
#PJM -g "@{account}"
#PJM -N "@{name}"
#PJM -j
#PJM @{directives}
set -u

# A chain of step jobs: a step is deleted, with those after it, unless the one before ended with
# exit code 75, "stopped cleanly, run again to go on".
if [ "${1-}" = submit ]; then
  shift
  chain=@{name}-$$
  for ((step = 0; step < @{jobs}; ++step)); do
    depend=
    if ((step > 0)); then depend=",sd=ec!=75:after:$((step - 1))"; fi
    pjsub --step --sparam "jnam=$chain,sn=$step$depend" "$@" "$0" || exit
  done
  exit
fi
if [ -z "${PJM_JOBID-}" ]; then
  echo "This is a job: submit it with pjsub @{submit_options}$0" >&2
  exit 2
fi

@include settings.part

echo "$(date): job $PJM_JOBID, @{ranks} ranks x @{threads} threads on ${PJM_NODE:-@{nodes}} nodes"
@if llio_transfer
# All nodes read these at once: give each its own copy instead.
shared=("$program" @{shared_files})
llio_transfer "${shared[@]}"
trap 'llio_transfer --purge "${shared[@]}"' EXIT
@end

# No warning comes before the limit, and what the cache has not yet written is lost when it comes.
# So the program stops by its own clock, @{end_margin} s before.
wall_limit=$((@{seconds} - SECONDS - @{end_margin}))
mpiexec -n @{ranks} @{launch_options} \
  "$program" train "${train[@]}" --wall-limit "$wall_limit"
status=$?

@include verdict.part
# Killed by a signal: a rank or its node has died. The next job of the chain may go on, too.
if ((status > 128)); then status=75; fi
exit "$status"
