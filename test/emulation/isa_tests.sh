#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Starts a program that was built for any x86-64, and trains a few steps with it, on emulated CPUs
# without AVX-512, without AVX2 and without AVX. Usage: isa_tests.sh PROGRAM
set -eu

program=$1
emulator=qemu-x86_64-static
export OMP_NUM_THREADS=1
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# expect TEXT COMMAND...: the command's output holds this text.
expect() {
  text=$1
  shift
  "$@" >"$scratch/output" 2>&1 || true
  if ! grep -q "$text" "$scratch/output"; then
    echo "isa_tests.sh: no \"$text\" in the output of $*:" >&2
    cat "$scratch/output" >&2
    exit 1
  fi
  grep "$text" "$scratch/output"
}

$program synth --out "$scratch/data" --train 4 --validation 2 --extent 16 --seed 1 >/dev/null
train="train --data $scratch/data --conv-layers 2 --filters 16 --fc 8 --epochs 1 --batch 2"
for cpu in Haswell,avx2 SandyBridge,plain Nehalem,plain; do
  emulate="$emulator -cpu ${cpu%,*}"
  echo "===== ${cpu%,*}"
  # shellcheck disable=SC2086
  {
    expect "kernels   ${cpu#*,} (built: " $emulate "$program" info
    expect "this CPU lacks avx512" env HALOMESH_ISA=avx512 $emulate "$program" info
    expect "epoch 1" $emulate "$program" $train --out "$scratch/run-${cpu%,*}"
  }
done
echo "===== starts and trains on all of them"
