#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Instructions of the gradients of conv2 to conv5 on one thread of an A64FX (512-bit SVE), counted by
# qemu: sparse kernels beside the library's dense ones. Prints tables in Markdown.
# Usage: gradient_counts.sh SYSROOT DIR    DIR holds gradient_work and instruction_counts.so
set -eu

sysroot=$1 dir=$2
export OMP_NUM_THREADS=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# counts_of CASE...: instructions, multiply-adds, loads and stores of one run: those of two less
# those of one, which leaves out starting, generating code and packing weights.
counts_of() {
  for times in 1 2; do
    qemu-aarch64 -cpu a64fx -L "$sysroot" -plugin "$dir/instruction_counts.so" -d plugin \
      -D "$scratch/counts$times" "$dir/gradient_work" "$@" "$times" >"$scratch/kernel" </dev/null
  done
  cat "$scratch/counts1" "$scratch/counts2" | awk '
    { for (i = 2; i <= 5; ++i) { count[i] = $i - before[i]; before[i] = $i } }
    END { if (NR != 2 || count[2] <= 0) exit 1
          for (i = 2; i <= 5; ++i) printf "%s ", count[i] / 1e6 }'
}

for gradient in weights data; do
  echo
  echo "Gradient of $gradient, millions of instructions: all (vector multiply-adds, loads, stores)"
  echo
  echo '| kernel | layer | sparse | un-pooling + dense | dense alone | sparse / dense | library |'
  echo '|---|---|---|---|---|---|---|'
  for kernel in 2 3; do
    for layer in 2 3 4 5; do
      sparse=$(counts_of $layer $kernel $gradient sparse)
      dense=$(counts_of $layer $kernel $gradient dense)
      library=$(counts_of $layer $kernel $gradient library)
      echo "$sparse $dense $library $(tr ' ' '_' <"$scratch/kernel")" | awk -v k=$kernel -v l=$layer '
        { printf "| %d | conv%d | %.1f (%.1f, %.1f, %.1f) | %.1f (%.1f, %.1f, %.1f) | %.1f | %.2f | %s |\n",
                 k, l, $1, $2, $3, $4, $5, $6, $7, $8, $9, $1 / $5, $13 }' | tr '_' ' '
    done
  done
done
