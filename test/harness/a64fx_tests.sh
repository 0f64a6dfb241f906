#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs tests of the A64FX build under qemu: the partition tests, the layers' tests, and training
# runs on 2 ranks whose losses are compared with those of this machine's own build.
# Usage: a64fx_tests.sh SYSROOT ARM_DIR HOST_DIR [1]    (1: a subset of 3 to 11 minutes)
# Times are meaningless: qemu runs SVE some thousand times slower than a CPU does.
set -eu

sysroot=$1 arm=$2 host=$3 short=${4:-}
emulate="qemu-aarch64-static -cpu a64fx -L $sysroot"
launch="${MPIRUN:-mpirun} -n 2 --oversubscribe --bind-to none"
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# qemu has no process_vm_readv.
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1
# The limit of a case is for CPUs.
export HALOMESH_CASE_SECONDS=7200

# These take too long under emulation: thousands of convolutions, and universes of particles.
left_out="*universe*,*particles*,*in fp32 cut over parts*,*on any number of threads*"
left_out="$left_out,convolution cut over parts equals the serial one: seeded cases"
left_out="$left_out,sparse data gradient in bf16 is the one in fp32*"
files='*test/nn/*'
if [ -n "$short" ]; then # the kernels of convolution blocks
  files='*test/nn/sparse_*,*test/nn/pooled_*,*test/nn/winograd_*,*test/nn/dense_*'
  left_out="$left_out,*a second step*,*holds for any number of channels*,*takes bf16*"
  left_out="$left_out,*with large windows: within its bound*,Winograd weight gradient errs little more*"
  left_out="$left_out,Winograd convolution is at most twice as wrong*,Winograd convolution has the same bits*"
fi

step() {
  echo "===== $1 ($(($(date +%s) - start)) s so far)"
  shift
  "$@"
}
start=$(date +%s)
# shellcheck disable=SC2086
{
  step "A64FX: partition tests" $emulate "$arm/partition_tests"
  step "A64FX: layers" $emulate "$arm/nn_tests" --source-file="$files" \
    --test-case-exclude="$left_out"
  HALOMESH_CURVES=$(mktemp -d)
  export HALOMESH_CURVES OMP_NUM_THREADS=1
  trap 'rm -rf "$HALOMESH_CURVES"' EXIT
  case="a tiny network has one curve*"
  step "this machine: training on 1 and 2 ranks" $launch "$host/mpi_tests" --test-case="$case"
  test -s "$HALOMESH_CURVES/kernel2.curve"
  step "A64FX: training on 2 ranks" $launch $emulate "$arm/mpi_tests" --test-case="$case"
}
echo "===== A64FX: all passed ($(($(date +%s) - start)) s)"
