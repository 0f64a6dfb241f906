// SPDX-License-Identifier: Apache-2.0
// Messages between parts, written by hand.
#include "partition/part_messages.hpp"

#include <doctest/doctest.h>

namespace halomesh {
namespace {

Box planes(std::int64_t lo, std::int64_t hi) { return Box{{0, lo, 0, 0}, {1, hi, 1, 1}}; }

TEST_CASE("boxes from one part to another are one message") {
  const TransferPlan plan(
      {{1, 0, planes(4, 5)}, {0, 1, planes(0, 1)}, {0, 1, planes(2, 4)}, {2, 0, planes(9, 10)}});
  const std::vector<PartMessage> messages = messages_of(plan);
  REQUIRE(messages.size() == 3);
  CHECK(messages[0].src == 0);
  CHECK(messages[0].dst == 1);
  CHECK(messages[0].boxes == std::vector<Box>{planes(0, 1), planes(2, 4)});
  CHECK(messages[0].volume() == 3);
  CHECK(messages[1].src == 1);
  CHECK(messages[2].src == 2);
  CHECK(messages_of({}).empty());
  CHECK(plan_of_part(plan, 1).transfers() ==
        std::vector<Transfer>{{0, 1, planes(0, 1)}, {0, 1, planes(2, 4)}, {1, 0, planes(4, 5)}});
}

}  // namespace
}  // namespace halomesh
