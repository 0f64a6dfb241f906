// SPDX-License-Identifier: Apache-2.0
// Statistics over all ranks of a quantity that has one value per rank.
#pragma once

namespace halomesh {

struct RankSpread {
  double mean = 0, min = 0, max = 0;
  int max_rank = 0;  ///< the first rank with the greatest value
};

}  // namespace halomesh
