#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks that no comment of the rooms below begins with Of, Those, What or The same: such a fragment has
# no subject, so that a reader must guess it. Plants bad comments to see that it finds them. Its last
# line is "N passed, M failed, K skipped".
set -eu
rooms='include partition src models runtime'
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# bad_comments DIRECTORY...: "FILE:LINE: TEXT" for each bad comment of the C++ and Python files there;
# then "N comments". A line that continues the comment of the line before does not begin one.
bad_comments() {
  find "$@" -type f \( -name '*.[ch]pp' -o -name '*.h' -o -name '*.py' \) -exec awk '
    FNR == 1 { last = -1; mark = FILENAME ~ /\.py$/ ? "#+" : "//+[!<]*" }
    {
      gsub(/\\./, "_")
      gsub(/\047"\047/, "___")
      docstring = mark == "#+" && sub(/^[ \t]*[a-z]?"""/, "#")
      while (match($0, /"[^"]*"/)) {
        string = substr($0, RSTART, RLENGTH)
        gsub(/./, "_", string)
        $0 = substr($0, 1, RSTART - 1) string substr($0, RSTART + RLENGTH)
      }
      if (!match($0, mark)) next
      continues = last == FNR - 1 && column == RSTART && substr($0, 1, RSTART - 1) ~ /^[ \t]*$/ && text != ""
      last = docstring ? -1 : FNR
      column = RSTART
      text = substr($0, RSTART + RLENGTH)
      sub(/^[ \t]+/, "", text)
      if (text ~ /^SPDX/) text = ""
      if (continues || text == "") next
      count++
      if (tolower(text) ~ /^(of|those|what|the same)([^a-z0-9_]|$)/) print FILENAME ":" FNR ": " text
    }
    END { print count + 0, "comments" }' {} +
}

passed=0 failed=0
# expect NAME BAD DIRECTORY...: BAD of the comments are bad, and there are comments at all.
expect() {
  name=$1 bad=$2
  shift 2
  found=$(bad_comments "$@")
  if [ "$(echo "$found" | grep -vc ' comments$' || true)" = "$bad" ] &&
    echo "$found" | grep -q '^[1-9][0-9]* comments$'; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'not ok: %s: expected %s bad comments; found:\n%s\n' "$name" "$bad" "$found"
  fi
}

cd "$root"
# shellcheck disable=SC2086
expect "the comments of $rooms" 0 $rooms

cat >"$scratch/bad.cpp" <<'END'
// SPDX-License-Identifier: Apache-2.0
// What this file holds.
#include "box.hpp"

/// The number
/// Of windows.
int windows = 0;  ///< of a box
const char* text = "// What a string holds.";  // Those of the caller.
char quote = '"';  // The same for quotes.

/// A sum of terms.
///
/// What the terms are.
int sum = 0;
END
printf '%s\n' '"""Of this module."""' '# The same in Python.' 'path = "#What"' '# Office hours' \
  '# What follows' >"$scratch/bad.py"
expect "planted comments" 7 "$scratch"

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
