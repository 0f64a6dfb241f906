// SPDX-License-Identifier: Apache-2.0
// Ranks killed at a few random moments; test/long has more of them.
#include "test/system/random_kills.hpp"

namespace halomesh::test {

TEST_CASE("a run with ranks killed at 4 random moments is the uninterrupted one") {
  check_random_kills(4, 41);
}

}  // namespace halomesh::test
