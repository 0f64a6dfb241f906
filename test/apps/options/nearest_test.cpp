// SPDX-License-Identifier: Apache-2.0
// Edit distance against known pairs, and the choice of the nearest word.
#include "src/apps/options/nearest.hpp"

#include <doctest/doctest.h>

namespace halomesh {
namespace {

TEST_CASE("edit distances are symmetric") {
  struct Row {
    const char *a, *b;
    std::size_t distance;
  };
  const std::vector<Row> rows = {
      {"", "", 0},         {"", "abc", 3},  {"abc", "abc", 0},      {"kitten", "sitting", 3},
      {"flaw", "lawn", 2}, {"lr", "rl", 2}, {"epoch", "epochs", 1}, {"baych", "batch", 1}};
  for (const Row& row : rows) {
    CAPTURE(row.a);
    CHECK(edit_distance(row.a, row.b) == row.distance);
    CHECK(edit_distance(row.b, row.a) == row.distance);
  }
  CHECK(rows.size() == 8);
}

TEST_CASE("the nearest word; the first of equal ones; none from an empty list") {
  CHECK(nearest("ephocs", {"batch", "epochs", "steps"}) == "epochs");
  CHECK(nearest("x", {"aa", "bb"}) == "aa");
  CHECK(nearest("x", {}).empty());
}

}  // namespace
}  // namespace halomesh
