#!/bin/sh
# Checks from the #include lines that each room uses only the rooms and libraries it may.
# Usage: layers.sh ROOT. Prints each violation as file:line: why; exit status 1 if there is one.
set -eu
cd "${1:-.}"

# The rules. rooms: what a room may include of the project, besides itself; libraries: of the rest.
#   room      | rooms                                      | libraries
rules='
include      |                                              | std
partition    | include                                      | std
src/nn       | include partition                            | std system dnnl omp
src/synth    | include                                      | std system fftw3 omp
models       | include partition src/nn                     | std
runtime      | include partition src/nn                     | std system mpi hdf5 protobuf zlib isa-l boost json hwloc
src/apps     | include partition src/nn src/synth models runtime | std system mpi hdf5 protobuf zlib boost json omp fftw3
test/include | include test                                 | std doctest
test/partition | include partition test                     | std doctest
'

files=$(for room in include partition src models runtime test/include test/partition; do
  [ ! -d "$room" ] || find "$room" -type f \
    \( -name '*.hpp' -o -name '*.cpp' -o -name '*.h' -o -name '*.cc' \)
done | LC_ALL=C sort)
if [ -z "$files" ]; then
  echo "layers: no source file under $(pwd)" >&2
  exit 1
fi

# shellcheck disable=SC2086
LC_ALL=C awk -v rules="$rules" '
function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }

function read_rules(   n, i, k, m, rows, cell, words) {
  n = split(rules, rows, "\n")
  for (i = 1; i <= n; i++) {
    if (split(rows[i], cell, "|") != 3) continue
    room = trim(cell[1])
    is_room[room] = 1
    may[room, room] = 1
    m = split(cell[2] " " cell[3], words, " ")
    for (k = 1; k <= m; k++) may[room, words[k]] = 1
    partners[room] = trim(cell[2])
  }
}

function room_of(path,   parts, n, two) {
  n = split(path, parts, "/")
  if (n < 2) return ""
  two = parts[1] "/" parts[2]
  if (two in is_room) return two
  if (parts[1] == "test") return "test"
  if (parts[1] in is_room) return parts[1]
  return ""
}

function library_of(header) {
  if (header ~ /^(mpi|mpi-ext)\.h$/) return "mpi"
  if (header ~ /^(hdf5.*|H5.*)\.h$/) return "hdf5"
  if (header ~ /^dnnl/ || header ~ /^oneapi\/dnnl/) return "dnnl"
  if (header == "omp.h") return "omp"
  if (header ~ /^fftw3/) return "fftw3"
  if (header ~ /^google\/protobuf\//) return "protobuf"
  if (header == "zlib.h") return "zlib"
  if (header ~ /^isa-l\//) return "isa-l"
  if (header == "hwloc.h") return "hwloc"
  if (header ~ /^boost\//) return "boost"
  if (header ~ /^nlohmann\//) return "json"
  if (header ~ /^doctest\//) return "doctest"
  if (header ~ /^[a-z0-9_]+$/) return "std"
  if (header ~ /^(assert|errno|float|limits|math|stdint|stddef|stdio|stdlib|string)\.h$/) return "std"
  if (header ~ /^(sys|linux|netinet|arpa)\/[a-z_]+\.h$/) return "system"
  if (header ~ /^(unistd|fcntl|sched|pthread|signal|dirent|poll|glob|termios|execinfo|immintrin|arm_neon|arm_sve|numa|dlfcn)\.h$/)
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
    if (exists("include/" header)) target = "include"
    else if (library_of(header) != "") { violation("\"" header "\": a library header is written in <>"); return }
    else { violation("\"" header "\" is in no room: write the path from the root"); return }
  }
  if (!((here, target) in may))
    violation(here " must not include " target " (\"" header "\"); it may include: " \
              (partners[here] == "" ? "itself" : "itself, " partners[here]))
}

function check_library_header(header,   library) {
  if (room_of(header) != "" || exists("include/" header)) { violation("<" header ">: a project header is written in \"\""); return }
  library = library_of(header)
  if (library == "") violation("<" header ">: no rule knows this library; name it in test/harness/layers.sh")
  else if (library == "dnnl" && FILENAME !~ /^src\/nn\/onednn(_[a-z_]+)?\.[ch]pp$/)
    violation("<" header ">: only src/nn/onednn*.{hpp,cpp} may include oneDNN")
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
  if (code ~ /(^|[^A-Za-z0-9_])MPI_COMM_WORLD([^A-Za-z0-9_]|$)/ && FILENAME !~ /^(src\/apps\/main|runtime\/mpi)\./)
    violation("only runtime/mpi.* and src/apps/main.cpp may name MPI_COMM_WORLD")
}

END {
  if (bad) { printf "layers: %d violations\n", bad; exit 1 }
  if (!checked) { print "layers: no #include line found, so nothing was checked"; exit 1 }
  printf "layers: %d #include lines in %d files keep to their rooms\n", checked, ARGC - 1
}' $files
