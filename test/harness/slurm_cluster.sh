#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A small real Slurm cluster on this machine, for tests: a controller, private authentication, and
# four nodes that pose as 48 cores each, every one with its own host name, /tmp and /dev/shm.
#
#   slurm_cluster.sh check              prints what is missing, if anything, with exit code 1
#   slurm_cluster.sh start DIR [SHARED...]
#                                       DIR: state, emptied first; SHARED: other directories under /tmp
#                                       that all nodes see, as they see everything outside /tmp
#   slurm_cluster.sh machines DIR       a controller alone, of whole machines that do not exist
#   slurm_cluster.sh stop DIR           cancels jobs, then ends what start has started, by process id
#
# Afterwards SLURM_CONF=DIR/slurm.conf makes sbatch and the like use it. It is stopped as well when
# the process OWNER (by default the one that has called this) ends. Needs root, for the name spaces.
set -euo pipefail

PATH=$PATH:/usr/sbin:/sbin
nodes=4

check() {
  local missing=()
  for program in slurmctld slurmd sbatch srun scontrol squeue munged unshare; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  if ((${#missing[@]})); then
    echo "no ${missing[*]}; make test SLURM=1 installs Slurm"
    return 1
  fi
  if [ "$(id -u)" != 0 ] || ! unshare --mount --uts --propagation private true 2>/dev/null; then
    echo "this account may not make name spaces (unshare --mount --uts): run the tests of Slurm as root"
    return 1
  fi
}

# The part of slurm.conf that both kinds of cluster share. Each cluster has its own ports.
common_conf() {
  cat <<END
ClusterName=tiny
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
EnforcePartLimits=ALL
ReturnToService=2
KillWait=5
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
END
}

small_conf() {
  common_conf
  # config_overrides: nodes of this machine may pose as larger ones.
  cat <<END
SlurmdParameters=config_overrides
NodeName=n[1-$nodes] NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 \
Port=[$((port + 1))-$((port + nodes))] Sockets=4 CoresPerSocket=12 ThreadsPerCore=1 \
RealMemory=4000 State=UNKNOWN
PartitionName=regular Nodes=ALL Default=YES MaxTime=24:00:00 State=UP
END
}

# Nodes that would be powered on for a job, with sizes as in jobscripts/sites; no job ever requests
# one.
machines_conf() {
  common_conf
  cat <<END
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=INFINITE
SlurmdTimeout=0
AllowSpecResourcesUsage=YES
Licenses=SCRATCH:1000000
BurstBufferType=burst_buffer/datawarp
NodeName=nid[00001-09668] Sockets=1 CoresPerSocket=68 ThreadsPerCore=4 RealMemory=90000 \
Features=knl,quad,cache State=CLOUD
NodeName=cpu[0001-3072] Sockets=2 CoresPerSocket=64 ThreadsPerCore=2 RealMemory=500000 \
Features=cpu State=CLOUD
PartitionName=all Nodes=ALL Default=YES MaxTime=48:00:00 OverSubscribe=EXCLUSIVE State=UP
END
  cat >"$dir/burst_buffer.conf" <<END
DefaultPool=wlm_pool
Flags=EmulateCray,SetExecHost
GetSysState=/bin/true
END
}

start_controller() {
  head -c 1024 /dev/urandom >"$dir/munge.key"
  chmod 600 "$dir/munge.key"
  # --force is necessary because directories above may be less secret than a real cluster's.
  munged --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" \
    --pid-file="$dir/munged.pid" --log-file="$dir/log/munged.log" --seed-file="$dir/munge.seed" \
    2>"$dir/log/munged.err"
  slurmctld -f "$dir/slurm.conf" 2>"$dir/log/slurmctld.err"
}

# start_node NUMBER SHARED... starts a node, whose /tmp is empty except for directories that all
# nodes share.
start_node() {
  local name=n$1
  shift
  mkdir -p "$dir/spool.$name" "$dir/tmp.$name"
  # shellcheck disable=SC2016
  unshare --mount --uts --propagation private bash -c '
    set -e
    dir=$1 name=$2
    shift 2
    hostname "$name"
    mount --bind "$dir/hosts" /etc/hosts
    mount -t tmpfs -o size=1g tmpfs "$dir/tmp.$name"
    for shared; do
      [ "${shared#/tmp/}" != "$shared" ] || continue
      mkdir -p "$dir/tmp.$name${shared#/tmp}"
      mount --bind "$shared" "$dir/tmp.$name${shared#/tmp}"
    done
    mount --rbind "$dir/tmp.$name" /tmp
    mount -t tmpfs -o size=1g tmpfs /dev/shm
    cd /
    exec slurmd -f "$dir/slurm.conf" -N "$name"' slurm_node "$dir" "$name" "$@" \
    2>"$dir/log/slurmd.$name.err"
}

wait_for() {
  for ((i = 0; i < 200; ++i)); do
    if "$@"; then return 0; fi
    sleep 0.05
  done
  echo "slurm_cluster.sh: gave up waiting for: $*" >&2
  return 1
}

all_idle() { [ "$(sinfo -h -N -t idle -o %N 2>/dev/null | sort -u | wc -l)" = "$nodes" ]; }
answers() { scontrol ping >/dev/null 2>&1; }
none_queued() { [ -z "$(squeue -h 2>/dev/null)" ]; }

prepare() {
  rm -rf "$dir"
  mkdir -p "$dir/state" "$dir/log"
  port=$((20000 + $$ % 5000 * 8))
}

# Stops the cluster when its owner has ended.
guard() {
  setsid "$0" guard "$dir" "$1" >/dev/null 2>&1 </dev/null &
  echo $! >"$dir/guard.pid"
}

# Ends all processes at once, because each takes some two seconds.
end() {
  local pid pids=()
  for file in "$@"; do
    if [ -s "$file" ]; then pids+=("$(cat "$file")"); fi
  done
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do
    for ((i = 0; i < 100; ++i)); do
      kill -0 "$pid" 2>/dev/null || continue 2
      sleep 0.05
    done
    kill -KILL "$pid" 2>/dev/null || true
  done
}

stop() {
  [ -e "$dir/slurm.conf" ] || return 0
  if answers && [ -n "$(squeue -h -o %i)" ]; then
    scancel --state=PENDING --me || true
    scancel --signal=KILL --full --me || true
    scancel --me || true
    wait_for none_queued || true
  fi
  end "$dir"/slurmd.*.pid "$dir/slurmctld.pid" "$dir/munged.pid"
  rm -f "$dir"/*.pid
}

command=${1-} dir=$(realpath -m "${2:-/nowhere}")
export SLURM_CONF=$dir/slurm.conf
case $command in
  check) check ;;
  start)
    prepare
    { cat /etc/hosts; for ((n = 1; n <= nodes; ++n)); do echo "127.0.0.1 n$n"; done; } >"$dir/hosts"
    small_conf >"$dir/slurm.conf"
    start_controller
    shift 2
    for ((n = 1; n <= nodes; ++n)); do start_node "$n" "$dir" "$@"; done
    guard "${OWNER:-$PPID}"
    wait_for all_idle ;;
  machines)
    prepare
    machines_conf >"$dir/slurm.conf"
    start_controller
    guard "${OWNER:-$PPID}"
    wait_for answers ;;
  guard)
    while sleep 1; do
      [ "$(cat "$dir/guard.pid" 2>/dev/null)" = $$ ] || exit 0
      kill -0 "$3" 2>/dev/null || break
    done
    stop ;;
  stop) stop ;;
  *)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2 ;;
esac
