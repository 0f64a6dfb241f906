// SPDX-License-Identifier: Apache-2.0
// Ranks killed at random moments of a training that writes checkpoints all the time.
#include "test/system/random_kills.hpp"

namespace halomesh::test {

TEST_SUITE_BEGIN("kills");

TEST_CASE("a run with ranks killed at 20 random moments is the uninterrupted one") {
  check_random_kills(20, 20231113);
}

TEST_CASE("a staged run with ranks killed at 20 random moments is the uninterrupted one") {
  check_random_kills(20, 5, {{"stage-dir", workshop().fresh("stage").string()}});
}

TEST_SUITE_END();

}  // namespace halomesh::test
