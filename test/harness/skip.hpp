// SPDX-License-Identifier: Apache-2.0
// Skips a running case when it finds that this machine lacks a resource. If that is known
// beforehand, use the decoration doctest::skip().
#pragma once

#include <doctest/doctest.h>

#include <string>

namespace halomesh::test {

/// True if the running case is skipped; the test program's main() counts it as such.
inline bool& case_is_skipped() {
  static bool skipped = false;
  return skipped;
}

/// Counts the running case as skipped, unless it fails, and prints why. The case returns at once:
/// `return skip_case("no swap space");`. Under a launcher one rank's call is enough.
inline void skip_case(const std::string& why) {
  case_is_skipped() = true;
  MESSAGE("skipped: " << why);
}

}  // namespace halomesh::test
