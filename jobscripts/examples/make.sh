#!/bin/bash
# Writes the job scripts that `commands` lists. Run it where models/ is; the scripts expect to be submitted
# from there, with data in data/cosmoUniverse.
# Usage: make.sh PROGRAM DIRECTORY
set -eu
program=${1:?usage: make.sh PROGRAM DIRECTORY}
directory=${2:?usage: make.sh PROGRAM DIRECTORY}
mkdir -p "$directory"
grep -v '^#' "$(dirname "$0")/commands" | while read -r -a words; do
  file=${words[0]}
  rest=("${words[@]:1}")
  case " ${rest[*]} " in
    *' --data '*) ;;
    *) rest+=(--data data/cosmoUniverse --out "runs/${file%.sh}") ;;
  esac
  "$program" jobscript "${rest[@]}" --program build/release/halomesh >"$directory/$file"
done
