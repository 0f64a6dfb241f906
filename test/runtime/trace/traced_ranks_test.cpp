// SPDX-License-Identifier: Apache-2.0
// Which steps and ranks a trace shows, as tables.
#include "runtime/trace/traced_ranks.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

#include "error.hpp"

namespace halomesh {
namespace {

TEST_CASE("--trace-steps is FIRST+COUNT") {
  const TraceSteps steps = parse_trace_steps("12+30");
  CHECK(steps.first == 12);
  CHECK(steps.count == 30);
  CHECK(steps.last() == 41);
  CHECK(parse_trace_steps("1+1000").last() == 1000);
  for (const char* wrong : {"", "5", "5+", "+3", "0+3", "5+0", "5+1001", "5+3+1", "-5+3", "5 + 3",
                            "five+3", "99999999999999999999+1"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_trace_steps(wrong), UsageError);
  }
}

TEST_CASE("--trace-ranks is a list of ranks and ranges") {
  using Ranks = std::vector<int>;
  CHECK(parse_trace_ranks("8,0-3,2", 9) == Ranks{0, 1, 2, 3, 8});
  CHECK(parse_trace_ranks("0", 1) == Ranks{0});
  CHECK(parse_trace_ranks("all", 3) == Ranks{0, 1, 2});
  for (const char* wrong : {"", "3", "0,,1", "0,", "2-1", "-1", "0-", "0-3", "a", "all,1", "0;1"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_trace_ranks(wrong, 3), UsageError);
  }
}

TEST_CASE("a trace shows all ranks up to 64, beyond them a selection") {
  using Ranks = std::vector<int>;
  Ranks all(64);
  std::iota(all.begin(), all.end(), 0);
  CHECK(default_trace_ranks({4, {4, 4, 1}}) == all);

  // 512 replicas of 16 parts: replica 0 and 16 others, the last among them.
  const Ranks many = default_trace_ranks({512, {4, 4, 1}});
  CHECK(Ranks(many.begin(), many.begin() + 16) == Ranks(all.begin(), all.begin() + 16));
  Ranks others;
  for (auto rank = many.begin() + 16; rank != many.end(); ++rank) {
    CHECK(*rank % 16 == 0);
    others.push_back(*rank / 16);
  }
  CHECK(others == Ranks{1, 2, 3, 5, 7, 10, 15, 23, 33, 49, 73, 107, 159, 234, 346, 511});

  // One replica of 128 parts, and 8192 replicas of one: never more than 32 + 16.
  CHECK(default_trace_ranks({1, {8, 4, 4}}) == Ranks(all.begin(), all.begin() + 32));
  CHECK(default_trace_ranks({8192, {1, 1, 1}}).size() <= 17);
  CHECK(default_trace_ranks({8192, {1, 1, 1}}).back() == 8191);
}

}  // namespace
}  // namespace halomesh
