#!/bin/bash
# @{headline}
# @{numbers}
# @{notes}
# Made by: @{command}
#
# Submit one job:             pjsub @{submit_options}SCRIPT
# Submit a chain of @{jobs} jobs: bash SCRIPT submit @{account_option}
# In a chain each job resumes where the previous one stopped, until the @{work} is done; the remaining
# jobs are then deleted. To continue after the last job, submit again: nothing is lost.
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

# A chain of step jobs: a step is deleted, with all that follow it, unless the previous one ended with
# exit code 75, "stopped cleanly, run again to resume".
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
# All nodes would read these files at once: give each its own copy instead.
shared=("$program" @{shared_files})
llio_transfer "${shared[@]}"
trap 'llio_transfer --purge "${shared[@]}"' EXIT
@end

# PJM sends no warning before the limit, and what the cache has not written by then is lost. So the
# program stops by its own clock, @{end_margin} s earlier.
wall_limit=$((@{seconds} - SECONDS - @{end_margin}))
mpiexec -n @{ranks} @{launch_options} \
  "$program" @{verb} "${@{verb}[@]}" --wall-limit "$wall_limit"
status=$?

@include verdict.part
# Killed by a signal: a rank or its node has died. The next job of the chain may resume then, too.
if ((status > 128)); then status=75; fi
exit "$status"
