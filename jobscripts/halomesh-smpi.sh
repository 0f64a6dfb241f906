#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs halomesh on simulated ranks, by SimGrid's SMPI. `make smpi` puts it into build/smpi.
set -eu

usage() {
  cat <<'EOF'
usage: halomesh-smpi --platform PLATFORM [-n RANKS] [--per-node N] [--blocks XxYxZ] [--cfg KEY:VALUE]...
                     COMMAND [options]

Runs a command of halomesh on simulated ranks of a simulated machine, e.g.
  halomesh-smpi --platform fugaku:4x4x4 bench --simulate-compute machine.json --parts 1x1x1

PLATFORM is one of
  fugaku:XxYxZ     nodes of a 3-D torus of TofuD (6.35 GB/s a link and direction)
  aries:GROUPS     groups of 384 nodes of a dragonfly of Aries (5.25 and 4.7 GB/s a link)
  fat-tree:NODES   a non-blocking fat tree of 24 GB/s links, 32 nodes to a switch
  FILE             a platform file of SimGrid with hosts n0, n1, ..., e.g. of halomesh plan --platform
-n RANKS           ranks; default: one per node of the machine, times N (needed for a FILE)
--per-node N       ranks of each node (1)
--blocks XxYxZ     fugaku: fill the nodes of one block of this shape after another, x first, instead
                   of the nodes of the whole torus; goes with HALOMESH_TORUS=SHAPE/XxYxZ
--cfg KEY:VALUE    also passed to SimGrid
--print-platform   write the platform file to standard output and run nothing
EOF
}

fail() {
  echo "halomesh-smpi: error: $1" >&2
  echo "  hint: $2" >&2
  exit 2
}

platform='' ranks='' per_node=1 blocks='' print=0
here=$(cd "$(dirname "$0")" && pwd)
configuration=''
while [ $# -gt 0 ]; do
  case $1 in
    --platform) platform=${2:?} && shift 2 ;;
    -n) ranks=${2:?} && shift 2 ;;
    --per-node) per_node=${2:?} && shift 2 ;;
    --blocks) blocks=${2:?} && shift 2 ;;
    --cfg) configuration="$configuration --cfg=${2:?}" && shift 2 ;;
    --print-platform) print=1 && shift ;;
    --help | -h) usage && exit 0 ;;
    -*) fail "unknown option $1" "halomesh-smpi --help lists the options" ;;
    *) break ;;
  esac
done
[ -n "$platform" ] || fail "no platform was given" "use --platform, e.g. --platform fugaku:4x4x4"
for number in "$per_node" "${ranks:-1}"; do
  case $number in
    '' | 0* | *[!0-9]*) fail "'$number' is no number of ranks" "give a whole number of at least 1" ;;
  esac
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
file=$scratch/platform.xml nodes=''

# cluster NODES ATTRIBUTES: hosts n0 to n(NODES - 1) of equal speed, with a core for each rank.
cluster() {
  nodes=$1
  cat >"$file" <<EOF
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="world" routing="Full">
<cluster id="machine" prefix="n" suffix="" radical="0-$((nodes - 1))" speed="1Gf" core="$per_node"
  sharing_policy="SPLITDUPLEX" loopback_lat="300ns" $2/>
</zone></platform>
EOF
}

# The CPU time of a message at its sender and at its receiver.
overhead=1.3e-6
case $platform in
  fugaku:*)
    shape=${platform#*:}
    x=${shape%%x*} rest=${shape#*x}
    y=${rest%%x*} z=${rest#*x}
    case $shape in
      *x*x*x* | x* | *x | *xx* | *[!0-9x]*) fail "'$shape' is no shape of a torus" "write it as XxYxZ" ;;
      *x*x*) ;;
      *) fail "'$shape' is no shape of a torus" "write it as XxYxZ" ;;
    esac
    # SimGrid cannot make a torus with an extent of 1.
    for extent in "$x" "$y" "$z"; do
      [ "$extent" -ge 2 ] || fail "'$shape' has an extent below 2" "use e.g. 2x2x2 and -n RANKS"
    done
    cluster $((x * y * z)) "topology=\"TORUS\" topo_parameters=\"$x,$y,$z\" bw=\"6.35GBps\"
  lat=\"100ns\" loopback_bw=\"50GBps\""
    ;;
  aries:*)
    groups=${platform#*:}
    case $groups in
      '' | 0* | 1 | *[!0-9]*) fail "'$groups' is no number of groups" "give at least 2" ;;
    esac
    # Adaptive routing spreads messages within a group over more ways than SimGrid's static routes.
    # Its 96 routers are therefore joined pairwise, by the three links that join two chassis. Each
    # pair of groups has a share of each router's ten optical links.
    blue=$((859 / (groups - 1)))
    [ "$blue" -ge 1 ] || blue=1
    cluster $((groups * 384)) "topology=\"DRAGONFLY\" topo_parameters=\"$groups,$blue;1,1;96,3;4\"
  bw=\"5.25GBps\" lat=\"100ns\" loopback_bw=\"20GBps\""
    overhead=6e-7
    ;;
  fat-tree:*)
    nodes=${platform#*:}
    case $nodes in
      '' | 0* | *[!0-9]*) fail "'$nodes' is no number of nodes" "give a multiple of 32" ;;
    esac
    [ $((nodes % 32)) = 0 ] || fail "'$nodes' is no multiple of 32" "32 nodes share a switch"
    cluster "$nodes" "topology=\"FAT_TREE\" topo_parameters=\"2;32,$((nodes / 32));1,32;1,1\"
  bw=\"24GBps\" lat=\"150ns\" loopback_bw=\"20GBps\""
    overhead=5e-7
    ;;
  *)
    [ -r "$platform" ] || fail "$platform cannot be read" "give a platform or a file of one; see --help"
    file=$platform
    # The overhead is in the file that `halomesh plan --platform` writes.
    written=$(sed -n 's/.*smpi\/os:0:\([0-9.e+-]*\):0.*/\1/p' "$file" | head -n 1)
    overhead=${written:-$overhead}
    [ -n "$ranks" ] || fail "how many ranks on $platform?" "add -n RANKS"
    ;;
esac
if [ "$print" = 1 ]; then
  cat "$file"
  exit 0
fi
ranks=${ranks:-$((nodes * per_node))}
used=$(((ranks + per_node - 1) / per_node))
[ -z "$nodes" ] || [ "$used" -le "$nodes" ] ||
  fail "$ranks ranks need $used nodes of $per_node ranks, but $platform has $nodes" \
    "use a larger machine or fewer ranks"
# hosts prints the numbers of the used nodes, in the order in which ranks fill them.
hosts() {
  if [ -z "$blocks" ]; then
    awk -v nodes="$used" 'BEGIN { for (i = 0; i < nodes; ++i) print i }'
  else
    awk -v shape="$x $y $z" -v block="$(echo "$blocks" | tr x ' ')" 'BEGIN {
      split(shape, n, " "); split(block, b, " ")
      for (Z = 0; Z < n[3]; Z += b[3]) for (Y = 0; Y < n[2]; Y += b[2]) for (X = 0; X < n[1]; X += b[1])
        for (k = Z; k < Z + b[3]; ++k) for (j = Y; j < Y + b[2]; ++j) for (i = X; i < X + b[1]; ++i)
          print i + n[1] * (j + n[2] * k)
    }' | awk -v nodes="$used" 'NR <= nodes'
  fi
}
if [ -n "$blocks" ]; then
  case $platform in
    fugaku:*) ;;
    *) fail "$platform has no blocks" "use --blocks with fugaku:XxYxZ only" ;;
  esac
  echo "$blocks" | grep -Eqx '[1-9][0-9]*x[1-9][0-9]*x[1-9][0-9]*' ||
    fail "'$blocks' is no shape of blocks" "write it as XxYxZ"
  echo "$blocks" | tr x ' ' | {
    read -r bx by bz
    [ $((x % bx + y % by + z % bz)) = 0 ]
  } || fail "blocks of $blocks do not fill the torus $shape" "use extents that divide those of the torus"
fi
hosts | awk -v ranks="$per_node" '{ print "n" $1 ":" ranks }' >"$scratch/hosts"

# Time passes only where the program says so and in messages. The options exclude factors of another
# machine, make tests of requests free (a cost for each request in flight doubles the events), and
# run collectives of start-up as trees, whose simulation is fast. Sends that nobody waits for are
# few, because SimGrid 3.32 searches a list of all such sends for each of them; no message travels
# before its receive is posted. SMPI then charges neither receivers nor blocking sends: the program
# charges its own messages and the sums of the loss. Ranks are threads of one process that share its
# variables, so no variable of the program belongs to one rank.
# shellcheck disable=SC2086
OMP_NUM_THREADS=1 smpirun -np "$ranks" -platform "$file" -hostfile "$scratch/hosts" -no-privatize \
  --cfg=smpi/simulate-computation:no --cfg=smpi/host-speed:1Gf --cfg=smpi/cpu-threshold:0 \
  --cfg=smpi/test:0 --cfg=smpi/iprobe:0 --cfg=smpi/grow-injected-times:no \
  --cfg=smpi/bw-factor:0:1.0 --cfg=smpi/lat-factor:0:1.0 \
  --cfg=network/weight-S:0 --cfg=network/crosstraffic:0 \
  --cfg=smpi/os:0:$overhead:0 --cfg=smpi/ois:0:$overhead:0 --cfg=smpi/or:0:$overhead:0 \
  --cfg=smpi/send-is-detached-thresh:0 \
  --cfg=smpi/barrier:ompi_tree --cfg=smpi/allreduce:redbcast --cfg=smpi/reduce:ompi_binomial \
  --cfg=smpi/bcast:binomial_tree --cfg=smpi/gather:ompi_binomial --cfg=smpi/allgather:rdb \
  --cfg=contexts/stack-size:512 --cfg=smpi/display-timing:no --log=root.thres:warning \
  $configuration "$here/halomesh" "$@"
