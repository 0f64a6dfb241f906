#!/bin/bash
# Makes the scripts of this directory again, from the list in `commands`. Run it where models/ is; they
# expect to be submitted from there, with data in data/cosmoUniverse.
# Usage: make.sh [PROGRAM]
set -eu
program=${1:-build/halomesh}
here=$(dirname "$0")
grep -v '^#' "$here/commands" | while read -r -a words; do
  file=${words[0]}
  rest=("${words[@]:1}")
  case " ${rest[*]} " in
    *' --data '*) ;;
    *) rest+=(--data data/cosmoUniverse --out "runs/${file%.sh}") ;;
  esac
  "$program" jobscript "${rest[@]}" --program build/release/halomesh >"$here/$file"
done
