#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Finds missing packages that the build, the tests or the checks need, and installs them with apt.
# Usage: install_dependencies.sh [--mpi=openmpi|mpich|smpi] [--hdf5=serial|parallel]
#   [--torch] [--browser] [--lint] [--slurm] [--a64fx] [--counts] [--benchmark] [--docs] [--dry-run]
# Silent if nothing is missing. Without apt or root rights, prints the missing packages and a hint.
set -eu

mpi=openmpi hdf5=serial torch=0 browser=0 lint=0 slurm=0 a64fx=0 counts=0 benchmark=0 docs=0 dry_run=0
for option in "$@"; do
  case $option in
    --mpi=openmpi | --mpi=mpich | --mpi=smpi) mpi=${option#--mpi=} ;;
    --hdf5=serial | --hdf5=parallel) hdf5=${option#--hdf5=} ;;
    --torch) torch=1 ;;
    --browser) browser=1 ;;
    --a64fx) a64fx=1 ;;
    --counts) counts=1 ;;
    --benchmark) benchmark=1 ;;
    --docs) docs=1 ;;
    --lint) lint=1 ;;
    --slurm) slurm=1 ;;
    --dry-run) dry_run=1 ;;
    *) echo "install_dependencies.sh: unknown option $option" >&2; exit 2 ;;
  esac
done

# Each line is package|check, where the check needs no package manager: command:NAME, header:NAME,
# launcher:NAME or python:NAME.
needed="g++|command:${CXX:-c++}
pkg-config|command:pkg-config
libdnnl-dev|header:dnnl.hpp
libhwloc-dev|header:hwloc.h
libboost-dev|header:boost/version.hpp
libboost-program-options-dev|header:boost/program_options.hpp
libfmt-dev|header:fmt/core.h
doctest-dev|header:doctest/doctest.h
strace|command:strace
libfftw3-dev|header:fftw3.h
libeigen3-dev|header:Eigen/Cholesky
zlib1g-dev|header:zlib.h
libisal-dev|header:isa-l/crc.h
libnifti2-dev|header:nifti/nifti2_io.h
nlohmann-json3-dev|header:nlohmann/json.hpp
protobuf-compiler|command:protoc
libprotobuf-dev|header:google/protobuf/message.h"
case $hdf5 in
  serial) needed="$needed
libhdf5-dev|header:hdf5.h" ;;
  parallel) needed="$needed
libhdf5-$mpi-dev|header:hdf5.h" ;;
esac
case $mpi in
  openmpi) needed="$needed
libopenmpi-dev|command:mpicxx
openmpi-bin|launcher:openmpi" ;;
  mpich) needed="$needed
libmpich-dev|command:mpicxx
mpich|launcher:mpich" ;;
  smpi) needed="$needed
libsimgrid-dev|command:smpirun" ;;
esac
if [ "$a64fx" = 1 ]; then
  needed="$needed
g++-aarch64-linux-gnu|command:aarch64-linux-gnu-g++
qemu-user-static|command:qemu-aarch64-static"
fi
if [ "$counts" = 1 ]; then
  needed="$needed
qemu-user|command:qemu-aarch64"
fi
if [ "$benchmark" = 1 ]; then
  needed="$needed
libbenchmark-dev|header:benchmark/benchmark.h"
fi
if [ "$docs" = 1 ]; then
  needed="$needed
mkdocs|command:mkdocs
python3|command:python3"
fi
if [ "$lint" = 1 ]; then
  needed="$needed
clang|command:clang++
libomp-dev|command:clang++
libclang-rt-14-dev|command:clang++
clang-format|command:clang-format
clang-tidy|command:clang-tidy"
fi
# Only some tests and report use these: without them they are skipped, or check less.
optional="shellcheck|command:shellcheck
python3|command:python3
python3-numpy|python:numpy
python3-h5py|python:h5py
python3-nibabel|python:nibabel
python3-matplotlib|python:matplotlib
python3-jinja2|python:jinja2"
if [ "$torch" = 1 ]; then
  optional="$optional
python3-torch|python:torch"
fi
if [ "$browser" = 1 ]; then
  optional="$optional
chromium-headless-shell|command:chromium-headless-shell"
  # npm often comes from elsewhere; Debian's brings hundreds of packages.
  command -v npm >/dev/null 2>&1 || optional="$optional
nodejs|command:node
npm|command:npm"
fi
if [ "$slurm" = 1 ]; then
  optional="$optional
slurmctld|command:slurmctld
slurmd|command:slurmd
slurm-client|command:sbatch
munge|command:munged"
fi

installed_as_package() {
  command -v dpkg-query >/dev/null 2>&1 &&
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

usable_without_package() {
  case $1 in
    command:*) command -v "${1#command:}" >/dev/null 2>&1 ;;
    header:*)
      flags="${CPPFLAGS:-} ${CXXFLAGS:-} ${HDF5_CFLAGS:-} ${DNNL_CFLAGS:-} ${FFTW_CFLAGS:-}"
      flags="$flags ${BOOST_CFLAGS:-} ${PROTOBUF_CFLAGS:-} ${HWLOC_CFLAGS:-} ${FMT_CFLAGS:-} ${EIGEN_CFLAGS:-}"
      # shellcheck disable=SC2086
      printf '#include <%s>\n' "${1#header:}" |
        ${CXX:-c++} -std=c++20 -E -x c++ $flags - >/dev/null 2>&1 ;;
    launcher:openmpi) ${MPIRUN:-mpirun} --version 2>&1 | grep -q 'Open MPI' ;;
    launcher:mpich) ${MPIRUN:-mpirun} --version 2>&1 | grep -q -i -E 'hydra|mpich|intel' ;;
    python:*) "${PYTHON:-python3}" -c "import ${1#python:}" >/dev/null 2>&1 ;;
  esac
}

missing_packages() {
  for line in $1; do
    installed_as_package "${line%%|*}" || printf '%s ' "$line"
  done
}

not_usable() {
  for line in $1; do
    usable_without_package "${line#*|}" || printf '%s ' "$line"
  done
}

names() {
  for line in $1; do printf '%s ' "${line%%|*}"; done
}

# The way to become root here: nothing, "sudo", or "no".
root_by() {
  if [ "$(id -u)" = 0 ]; then
    echo
  elif command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    echo sudo
  else
    echo no
  fi
}

apt_install() {
  echo "Installing: $*"
  # shellcheck disable=SC2086
  $root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 \
    install --no-install-recommends "$@" >"$log" 2>&1
}

install() {
  # shellcheck disable=SC2086
  apt_install $1 || {
    echo "Refreshing the package lists"
    # shellcheck disable=SC2086
    $root apt-get -q update >"$log" 2>&1 && apt_install $1
  }
}

missing=$(missing_packages "$needed")
missing_optional=$(missing_packages "$optional")
[ -n "$missing$missing_optional" ] || exit 0

root=$(root_by)
if [ "$dry_run" = 1 ]; then
  echo "Missing: $(names "$missing$missing_optional")"
  exit 0
fi

if command -v apt-get >/dev/null 2>&1 && [ "$root" != no ]; then
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  if [ -n "$missing" ] && ! install "$(names "$missing")"; then
    tail -n 20 "$log" >&2
    echo "apt-get could not install: $(names "$missing")" >&2
    echo "hint: fix the package sources (see above), then run make deps again." >&2
    exit 1
  fi
  if [ -n "$missing_optional" ] && ! install "$(names "$missing_optional")"; then
    tail -n 5 "$log" >&2
    echo "apt-get could not install $(names "$missing_optional"): tests that use it will be skipped." >&2
  fi
  exit 0
fi

# Without installation, packages present under another name (modules, own builds) are accepted.
missing=$(not_usable "$missing")
missing_optional=$(not_usable "$missing_optional")
if [ -n "$missing_optional" ]; then
  echo "Not found: $(names "$missing_optional"): tests that use it will be skipped." >&2
fi
[ -n "$missing" ] || exit 0
{
  echo "Missing, and this account cannot install packages:"
  for line in $missing; do
    printf '  %-30s (no %s)\n' "${line%%|*}" "$(echo "${line#*|}" | tr ':' ' ')"
  done
  if command -v apt-get >/dev/null 2>&1; then
    echo "hint: ask an administrator to run"
    echo "  apt-get install $(names "$missing")"
  else
    echo "hint: these are Debian's package names; install the equivalent packages of your system or load"
    echo "modules that provide them. If headers are in unusual places, set CPATH and LIBRARY_PATH, or"
    echo "HDF5_CFLAGS, HDF5_LIBS, DNNL_CFLAGS, DNNL_LIBS and the like (see make help)."
  fi
} >&2
exit 1
