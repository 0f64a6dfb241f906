#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints a source that includes the given tests, each in its own namespace, so that tests may repeat
# one another's names. All headers come first, so that none is read inside such a namespace.
# Usage: test_unit.sh TEST.cpp...
set -eu
grep -hE '^#include [<"]' "$@" | LC_ALL=C sort -u
n=0
for test in "$@"; do
  n=$((n + 1))
  printf '\nnamespace test_%d {\n' "$n"
  # A test in the project's own namespace sees the project's names.
  sed -nE 's/^namespace ([a-z_:]+) \{.*/\1/p' "$test" | sort -u | while read -r name; do
    while [ -n "$name" ]; do
      echo "namespace $name { using namespace ::$name; }"
      case $name in *::*) name=${name%::*} ;; *) name= ;; esac
    done
  done
  printf '#include "%s"\n}  // namespace test_%d\n' "$test" "$n"
done
