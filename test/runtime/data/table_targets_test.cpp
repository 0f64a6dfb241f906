// SPDX-License-Identifier: Apache-2.0
// Tables of targets as text: separators, names, titles, and what is wrong with them.
#include "runtime/data/table_targets.hpp"

#include <doctest/doctest.h>

#include "test/runtime/data/sample_files.hpp"

namespace halomesh {
namespace {

using Words = std::vector<std::string>;

TEST_CASE(
    "table of targets: numbers between commas, semicolons, tabs or spaces, with or without names") {
  const std::vector<float> numbers{1, -2.5F, 3e3F, 0};
  for (const char* const text : {"1,-2.5\n3e3,0\n", "1; -2.5\r\n3e3 ;0\r\n", "\n+1\t-2.5\n3000\t0",
                                 "  1   -2.5 \n# a remark\n3e3 0\n"}) {
    const TargetTable table = parse_table(text, "t", 2);
    CHECK(table.numbers == numbers);
    CHECK(table.samples.empty());
    CHECK(table.titles.empty());
  }
  const TargetTable named = parse_table("name,a b,c\nx,1,-2.5\n007,3e3,0\n", "t", 2);
  CHECK(named.numbers == numbers);
  CHECK(named.samples == Words{"x", "007"});
  CHECK(named.titles == Words{"a_b", "c"});
  CHECK(parse_table("\xEF\xBB\xBF# omega sigma\n1 2\n", "t", 2).titles == Words{"omega", "sigma"});
}

TEST_CASE("table of targets: wrong lines are named") {
  const auto error = [](const char* text, std::int64_t targets) {
    return error_of([&] { parse_table(text, "t.csv", targets); });
  };
  CHECK(contains(error("1,2,3\n", 1), "t.csv: line 1 has 3 numbers, expected 1 | set --targets 3"));
  CHECK(contains(error("a,b\nx,2\n", 2), "line 2 has a name and 1 numbers, expected 2"));
  CHECK(contains(error("1,2\n1,\n", 2), "line 2: '' is not a number"));
  CHECK(contains(error("1,2\nnan,2\n", 2), "line 2: 'nan' is not a number that fp32 holds"));
  CHECK(contains(error("1,-1e39\n", 2), "line 1: '-1e39' is not a number that fp32 holds"));
  CHECK(contains(error("1,2\nx,1,2\n", 2), "line 2 has a name, others have none"));
}

}  // namespace
}  // namespace halomesh
