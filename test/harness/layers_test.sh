#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Plants one wrong include at a time in a tree of a few files, and expects layers.sh to refuse it
# with the right words and to accept the original tree. Its last line is "N passed, M failed, K
# skipped".
set -eu
layers=$(cd "$(dirname "$0")" && pwd)/layers.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"

# put FILE LINE... writes a file of these lines.
put() {
  mkdir -p "$(dirname "$1")"
  file=$1
  shift
  printf '%s\n' "$@" >"$file"
}

put include/box.hpp '#include <vector>'
put partition/cut.hpp '#include "box.hpp"'
put partition/cut.cpp '#include "partition/cut.hpp"'
put src/nn/onednn/onednn.cpp '#include <dnnl.hpp>' '#include "partition/cut.hpp"'
put models/net.hpp '#include "box.hpp"'
put runtime/posix/file.hpp '#include <fcntl.h>'
put runtime/mpi/mpi.hpp '#include <mpi.h>' '#include "box.hpp"'
put runtime/mpi/mpi.cpp '#include "runtime/mpi/mpi.hpp"' 'MPI_Comm c = MPI_COMM_WORLD;'
put runtime/machine/topology.cpp '#include <hwloc.h>' '#include "runtime/mpi/mpi.hpp"'
put runtime/hdf5/hdf5_file.hpp '#include <hdf5.h>'
put runtime/data/example.cpp '#include <google/protobuf/message.h>' '#include "runtime/hdf5/hdf5_file.hpp"'
put src/apps/train/train.cpp '#include "runtime/data/sample.hpp"' '#include "models/net.hpp"'
put runtime/data/sample.hpp '#include "runtime/posix/file.hpp"'
put test/partition/cut_test.cpp '#include <doctest/doctest.h>' '#include "partition/cut.hpp"'

passed=0 failed=0
# expect NAME STATUS WORDS expects layers.sh to end with STATUS and print WORDS.
expect() {
  status=0
  output=$(sh "$layers" . 2>&1) || status=$?
  case $output in *"$3"*) said=1 ;; *) said=0 ;; esac
  if [ "$status" = "$2" ] && [ "$said" = 1 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'not ok: %s: exit status %s, expected %s and "%s"; printed:\n%s\n' \
      "$1" "$status" "$2" "$3" "$output"
  fi
}

# plant FILE LINE WORDS expects layers.sh to refuse this line at the end of FILE.
plant() {
  if [ -e "$1" ]; then cp "$1" saved; else rm -f saved; fi
  mkdir -p "$(dirname "$1")"
  printf '%s\n' "$2" >>"$1"
  expect "$1: $2" 1 "$3"
  if [ -e saved ]; then mv saved "$1"; else rm "$1"; fi
}

expect "the tree as it is" 0 "#include lines in 14 files keep to their rooms"
# Includes upwards, between folders of the root and between rooms of one folder.
plant partition/cut.hpp '#include "runtime/mpi/mpi.hpp"' 'partition/cut.hpp:2: partition must not include runtime/mpi'
plant include/box.hpp '#include "partition/cut.hpp"' 'include must not include partition'
plant runtime/mpi/mpi.hpp '#include "runtime/data/sample.hpp"' 'runtime/mpi must not include runtime/data'
plant runtime/posix/file.hpp '#include "src/apps/train/train.hpp"' 'runtime/posix must not include src/apps/train'
plant test/partition/cut_test.cpp '#include "runtime/mpi/mpi.hpp"' 'test/partition must not include runtime/mpi'
# Files that lie in no room.
plant runtime/stray.hpp '#include <vector>' 'runtime/stray.hpp:1: this directory is no room'
plant runtime/attic/old.cpp '#include <vector>' 'runtime/attic/old.cpp:1: this directory is no room'
plant models/net.hpp '#include "runtime/stray.hpp"' '"runtime/stray.hpp" is in no room'
# Libraries outside their room.
plant runtime/data/sample.hpp '#include <mpi.h>' 'runtime/data must not use mpi (<mpi.h>)'
plant src/apps/train/train.cpp '#include <mpi.h>' 'src/apps/train must not use mpi'
plant src/apps/train/train.cpp '#include <hdf5.h>' 'src/apps/train must not use hdf5'
plant runtime/data/sample.hpp '#include <H5Fpublic.h>' 'runtime/data must not use hdf5'
plant runtime/mpi/mpi.cpp '#include <hwloc.h>' 'runtime/mpi must not use hwloc'
plant runtime/hdf5/hdf5_file.hpp '#include <google/protobuf/message.h>' 'runtime/hdf5 must not use protobuf'
plant runtime/posix/file.hpp '#include <zlib.h>' 'runtime/posix must not use zlib'
plant src/nn/relu.cpp '#include <dnnl.hpp>' 'only src/nn/onednn may include oneDNN'
plant partition/cut.cpp '#include <unistd.h>' 'partition must not use system'
plant models/net.hpp '#include <unheard/of.h>' 'no rule knows this library'
# Other ways around the rules.
plant partition/cut.cpp '#include "../runtime/mpi/mpi.hpp"' 'write the path from the root, without dots'
plant partition/cut.cpp '#include "mpi.h"' 'a library header is written in <>'
plant models/net.hpp '#include <box.hpp>' 'a project header is written in ""'
plant models/net.hpp '#  include HEADER' 'an include must name its file'
plant partition/cut.cpp '#pragma omp parallel' 'partition must not use OpenMP'
plant runtime/data/sample.hpp 'MPI_COMM_WORLD' 'may name MPI_COMM_WORLD'

# Circles between modules of one room: directly, over a third one, and over a source file.
put runtime/data/archive.hpp '#include "runtime/data/sample.hpp"'
put runtime/data/reader.cpp '#include "runtime/data/archive.hpp"'
plant runtime/data/sample.hpp '#include "runtime/data/archive.hpp"' 'runtime/data/archive'
plant runtime/data/sample.cpp '#include "runtime/data/reader.hpp"' '  runtime/data/reader'
plant runtime/data/archive.hpp '#include "runtime/data/reader.hpp"' 'modules that include each other'

expect "the tree as it was" 0 "keep to their rooms"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
