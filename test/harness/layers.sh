#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks by the #include lines that each room uses only its permitted rooms and libraries, and that
# no two modules (header and source of one name) include each other, directly or through others.
# Usage: layers.sh ROOT. Prints each violation as file:line: why; exit status 1 if there is one.
set -eu
cd "${1:-.}"

# The rules, bottom first. `rooms` are the rooms that a room may include besides itself, all listed
# before it; `libraries` are its outside libraries. `@NAME` stands for NAME and all rooms below it.
#   room      | rooms                                      | libraries
rules='
include           |                                                   | std
partition/cost    | include                                           | std
partition         | include partition/cost                            | std
partition/samples | include partition                                 | std
src/nn            | include partition partition/cost partition/samples                               | std system omp
src/nn/onednn     | include partition partition/cost src/nn           | std system dnnl omp
src/nn/kernels    | include partition partition/cost src/nn src/nn/onednn | std system omp
src/nn/layers     | include partition partition/cost src/nn src/nn/onednn src/nn/kernels | std system omp
src/nn/losses     | include partition src/nn src/nn/kernels           | std system omp
src/nn/optimizers | include partition src/nn src/nn/kernels           | std system omp
src/synth         | include                                           | std system fftw3 omp
src/baseline      | include src/synth                                 | std eigen
models            | include partition @src/nn                          | std
models/onnx       | include partition @src/nn models                   | std protobuf
runtime/posix     | include                                           | std system isa-l
runtime/mpi       | include partition @src/nn runtime/posix            | std system mpi
runtime/machine   | include runtime/posix runtime/mpi                 | std system hwloc
runtime/hdf5      | include partition partition/samples @src/nn runtime/posix | std hdf5 isa-l
runtime/simulated | include                                           | std mpi simgrid
runtime/log       | include partition @src/nn runtime/posix            | std system json
runtime/trace     | include partition runtime/posix runtime/mpi runtime/log | std system json zlib
runtime/data      | include partition partition/samples @src/nn runtime/posix runtime/mpi runtime/hdf5 | std system protobuf zlib nifti
runtime/stage     | include partition partition/samples @src/nn runtime/posix runtime/mpi runtime/machine runtime/log runtime/data | std system json isa-l
runtime/load      | include partition partition/samples @src/nn runtime/posix runtime/mpi runtime/log runtime/data runtime/stage | std system
runtime/step      | include partition partition/cost partition/samples @src/nn runtime/posix runtime/mpi runtime/log runtime/load | std
runtime/train     | include partition partition/samples @src/nn runtime/posix runtime/mpi runtime/hdf5 runtime/log runtime/trace runtime/data runtime/load runtime/step | std system json
src/apps/options  | include partition @src/nn models @runtime          | std system boost
src/apps/launch   | include partition @src/nn models/onnx src/synth @runtime src/apps/options | std system json boost omp
src/apps/train    | include partition partition/samples @src/nn src/baseline models models/onnx @runtime src/apps/options src/apps/launch | std json nifti
src/apps/data     | include partition partition/samples @src/nn src/synth models @runtime src/apps/options src/apps/launch | std json
src/apps/forecast | include partition partition/cost @src/nn src/apps/options runtime/step | std json
src/apps/bench    | include partition partition/cost @src/nn models @runtime src/apps/options src/apps/forecast src/apps/launch src/apps/train | std system json omp
src/apps/plan     | include partition partition/cost @src/nn models @runtime src/apps/options src/apps/launch src/apps/train src/apps/forecast | std system boost json
src/apps/study    | include partition @src/nn models @runtime src/apps/options src/apps/launch src/apps/train | std system json
src/apps/scaling  | include partition partition/cost @src/nn models @runtime src/apps/options src/apps/launch src/apps/train src/apps/forecast src/apps/bench src/apps/plan | std json
src/apps          | include src/apps/options src/apps/launch          | std system
test/include      | include test                                      | std doctest
test/partition    | include partition partition/cost partition/samples test          | std doctest
'

files=$(for room in include partition src models runtime test/include test/partition; do
  [ ! -d "$room" ] || find "$room" -type f \
    \( -name '*.hpp' -o -name '*.cpp' -o -name '*.h' -o -name '*.cc' \)
done | LC_ALL=C sort)
if [ -z "$files" ]; then
  echo "layers: no source file under $(pwd)" >&2
  exit 1
fi
edges=$(mktemp)
trap 'rm -f "$edges"' EXIT

status=0
# shellcheck disable=SC2086
LC_ALL=C awk -v rules="$rules" -v edges="$edges" '
function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }

function allow(room, word,   k) {
  if (!sub(/^@/, "", word)) { may[room, word] = 1; return }
  for (k in is_room) if (index(k "/", word "/") == 1) may[room, k] = 1
}

function read_rules(   n, i, k, m, rows, cell, words, room) {
  n = split(rules, rows, "\n")
  for (i = 1; i <= n; i++) {
    if (split(rows[i], cell, "|") != 3) continue
    room = trim(cell[1])
    partners[room] = trim(cell[2])
    m = split(cell[2], words, " ")
    for (k = 1; k <= m; k++) {
      if (words[k] !~ /^@/ && words[k] != "test" && !(words[k] in is_room)) {
        printf "layers.sh: %s may include %s, which is not listed before it\n", room, words[k]
        bad++
      }
      allow(room, words[k])
    }
    m = split(cell[3], words, " ")
    for (k = 1; k <= m; k++) may[room, words[k]] = 1
    is_room[room] = 1
    may[room, room] = 1
    may[room, "fmt"] = 1 # every room makes messages
  }
}

# The room of a path is its longest prefix that is a room. No file may lie directly in runtime/,
# which is none.
function room_of(path,   parts, n, i, prefix, room) {
  n = split(path, parts, "/")
  if (n >= 2 && parts[1] == "test" && !("test/" parts[2] in is_room)) return "test"
  for (i = 1; i < n; i++) {
    prefix = prefix (i > 1 ? "/" : "") parts[i]
    if (prefix in is_room) room = prefix
  }
  return room
}

function module_of(path) { sub(/\.[a-z]+$/, "", path); return path }

function library_of(header) {
  if (header ~ /^(mpi|mpi-ext)\.h$/) return "mpi"
  if (header ~ /^(hdf5.*|H5.*)\.h$/) return "hdf5"
  if (header ~ /^dnnl/ || header ~ /^oneapi\/dnnl/) return "dnnl"
  if (header == "omp.h") return "omp"
  if (header ~ /^fftw3/) return "fftw3"
  if (header ~ /^Eigen\//) return "eigen"
  if (header ~ /^google\/protobuf\//) return "protobuf"
  if (header == "zlib.h") return "zlib"
  if (header ~ /^nifti\//) return "nifti"
  if (header ~ /^isa-l\//) return "isa-l"
  if (header == "hwloc.h") return "hwloc"
  if (header ~ /^(simgrid|xbt)\//) return "simgrid"
  if (header ~ /^boost\//) return "boost"
  if (header ~ /^fmt\//) return "fmt"
  if (header ~ /^nlohmann\//) return "json"
  if (header ~ /^doctest\//) return "doctest"
  if (header ~ /^[a-z0-9_]+$/) return "std"
  if (header ~ /^(assert|errno|float|limits|math|stdint|stddef|stdio|stdlib|string)\.h$/) return "std"
  if (header ~ /^(sys|linux|netinet|arpa)\/[a-z_]+\.h$/) return "system"
  if (header ~ /^(unistd|fcntl|sched|spawn|pthread|signal|dirent|poll|glob|termios|execinfo|immintrin|arm_neon|arm_sve|numa|dlfcn|malloc)\.h$/)
    return "system"
  return ""
}

function exists(path,   line, status) {
  status = (getline line < path)
  close(path)
  return status >= 0
}

function violation(why) {
  printf "%s:%d: %s\n", FILENAME, FNR, why
  bad++
}

function check_project_header(header,   target) {
  if (header ~ /(^|\/)\.\.?\//) { violation("\"" header "\": write the path from the root, without dots"); return }
  target = room_of(header)
  if (target == "") {
    if (exists("include/" header)) { target = "include"; header = "include/" header }
    else if (library_of(header) != "") { violation("\"" header "\": a library header is written in <>"); return }
    else { violation("\"" header "\" is in no room: write the path from the root"); return }
  }
  if (module_of(header) != module_of(FILENAME)) print module_of(FILENAME), module_of(header) >edges
  if (!((here, target) in may))
    violation(here " must not include " target " (\"" header "\"); it may include: " \
              (partners[here] == "" ? "itself" : "itself, " partners[here]))
}

function check_library_header(header,   library) {
  if (room_of(header) != "" || exists("include/" header)) { violation("<" header ">: a project header is written in \"\""); return }
  library = library_of(header)
  if (library == "") violation("<" header ">: no rule knows this library; name it in test/harness/layers.sh")
  else if (library == "dnnl" && here != "src/nn/onednn")
    violation("<" header ">: only src/nn/onednn may include oneDNN")
  else if (!((here, library) in may)) violation(here " must not use " library " (<" header ">)")
}

BEGIN { read_rules() }

FNR == 1 { here = room_of(FILENAME) }

here == "" { if (FNR == 1) violation("this directory is no room"); next }

/^[ \t]*#[ \t]*include/ {
  checked++
  header = $0
  sub(/^[ \t]*#[ \t]*include[ \t]*/, "", header)
  open = substr(header, 1, 1)
  name = substr(header, 2)
  sub(/[">].*$/, "", name)
  if (open == "\"") check_project_header(name)
  else if (open == "<") check_library_header(name)
  else violation("an include must name its file")
  next
}

/^[ \t]*#[ \t]*pragma[ \t]+omp/ {
  if (here ~ /^(include|partition|models|test)/) violation(here " must not use OpenMP")
}

{
  code = $0
  sub(/\/\/.*$/, "", code)
  if (code ~ /(^|[^A-Za-z0-9_])MPI_COMM_WORLD([^A-Za-z0-9_]|$)/ && FILENAME !~ /^(src\/apps\/main|runtime\/mpi\/mpi)\./)
    violation("only runtime/mpi/mpi.* and src/apps/main.cpp may name MPI_COMM_WORLD")
}

END {
  if (bad) { printf "layers: %d violations\n", bad; exit 1 }
  if (!checked) { print "layers: no #include line found, so nothing was checked"; exit 1 }
  printf "layers: %d #include lines in %d files keep to their rooms\n", checked, ARGC - 1
}' $files || status=1

# tsort names the members of each circle among these "user used" pairs.
if ! circles=$(tsort "$edges" 2>&1 >/dev/null); then
  echo "layers: modules that include each other:"
  echo "$circles" | sed -n 's/^tsort: \([a-z].*\)/  \1/p'
  status=1
fi
exit $status
