// SPDX-License-Identifier: Apache-2.0
// Columns of a table on a terminal.
#include "text_table.hpp"

#include <doctest/doctest.h>

#include <sstream>

namespace halomesh {
namespace {

TEST_CASE("columns are as wide as their widest cell; text is left-aligned, numbers are not") {
  TextTable table({"name", "n", "long header"}, "<>>");
  table.add({"conv1", "1234", "5"});
  table.add({"x"});
  std::ostringstream out;
  out << table;
  CHECK(out.str() ==
        "  name      n  long header\n"
        "  conv1  1234            5\n"
        "  x\n");
}

}  // namespace
}  // namespace halomesh
