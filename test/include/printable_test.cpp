// SPDX-License-Identifier: Apache-2.0
// Control characters become visible, everything else stays.
#include "printable.hpp"

#include <doctest/doctest.h>

namespace halomesh {

TEST_CASE("control characters are shown, letters of any language and line breaks stay") {
  CHECK(printable("a b/c\u00e9\tx\n") == "a b/c\u00e9\tx\n");
  CHECK(printable("data\033[2J\r\a\x7f") == "data\\x1b[2J\\x0d\\x07\\x7f");
  CHECK(printable("").empty());
}

}  // namespace halomesh
