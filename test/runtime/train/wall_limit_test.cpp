// SPDX-License-Identifier: Apache-2.0
// The margin before the wall limit, from literal times.
#include "runtime/train/wall_limit.hpp"

#include <doctest/doctest.h>

namespace halomesh {

TEST_CASE("the margin before the wall limit follows the measured times") {
  WallLimit limit(1000, 100);
  CHECK(limit.margin_s(0) == 10);  // two checkpoints, as assumed
  limit.step_took(2);
  limit.step_took(1);
  CHECK(limit.margin_s(0) == 14);
  CHECK(limit.margin_s(3) == 20);  // an unknown validation counts as training steps
  limit.evaluation_took(0.5);
  CHECK(limit.margin_s(3) == 14.5);
  limit.checkpoint_took(0.25);
  CHECK(limit.margin_s(0) == 4.5);
  limit.checkpoint_took(30);
  limit.checkpoint_took(20);
  CHECK(limit.margin_s(0) == 64);
  CHECK(!limit.reached(1036, 0));
  CHECK(limit.reached(1036.5, 0));
  CHECK(limit.reached(1036, 1));
  CHECK(limit.left_s(1036) == 64);
}

TEST_CASE("a short wall limit leaves time for steps before the first checkpoint") {
  WallLimit limit(1000, 8);
  limit.step_took(0.1);
  CHECK(limit.margin_s(0) == doctest::Approx(2 * 0.1 + 2 * 0.4));
  CHECK(!limit.reached(1001, 0));
  CHECK(limit.reached(1007.1, 0));
}

TEST_CASE("without a wall limit nothing is ever reached") {
  CHECK(!WallLimit(5, 0).reached(1e9, 10));
}

}  // namespace halomesh
