#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks in a build for a CPU without AVX-512, or even without AVX, that kernels for better CPUs run
# only if chosen at run time. Usage: isa_check.sh BUILD_DIR, e.g. build/isa
#   - Their objects show only names of their own namespace: the linker might give code of any other
#     name (an inline function, a template) to the whole program.
#   - None of their code runs before main(), hence before the CPU is examined.
#   - No other object of the program has an instruction of AVX-512 or, unless the build is for AVX,
#     of AVX.
# Its last line is "N passed, M failed, K skipped".
set -eu

dir=$1
passed=0 failed=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# check WHAT STATUS
check() {
  if [ "$2" = 0 ]; then
    passed=$((passed + 1)) && echo "ok $1"
  else
    failed=$((failed + 1)) && echo "not ok $1"
  fi
}

# holds PATTERN OBJECT succeeds if the object has such instructions, and prints the first.
holds() {
  objdump -d --no-show-raw-insn "$2" >"$scratch/code"
  grep -m 1 -E "$1" "$scratch/code"
}
avx512='%zmm|%[xy]mm(1[6-9]|2[0-9]|3[01])|%k[0-7]'
avx='%ymm'

kernels=$(ls "$dir"/obj/isa-*.o)
for object in $kernels; do
  isa=isa_$(basename "$object" .o | sed 's/^isa-//')
  nm --defined-only --extern-only "$object" | awk '{ print $3 }' >"$scratch/names"
  grep -q "$isa" "$scratch/names" && ! grep -v "$isa" "$scratch/names" && status=0 || status=1
  check "$isa: $(wc -l <"$scratch/names") names are of its own namespace" $status
  objdump -h "$object" | grep -E 'init_array|ctors' && status=1 || status=0
  check "$isa: nothing runs before main()" $status
  case $isa in *avx512*) pattern=$avx512 ;; *) pattern=$avx ;; esac
  holds "$pattern" "$object" >/dev/null && status=0 || status=1
  check "$isa: its instructions are recognised" $status
done

pattern=$avx512
[ ! -e "$dir/obj/isa-avx2.o" ] || pattern="$avx512|$avx"
count=0 status=0
for object in $(find "$dir/obj" -name '*.o' ! -path '*/isa-*'); do
  count=$((count + 1))
  if holds "$pattern" "$object"; then
    echo "  in $object"
    status=1
  fi
done
[ "$count" -gt 30 ] || status=1
check "none of $count other objects has such instructions" $status

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
