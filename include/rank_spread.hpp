// SPDX-License-Identifier: Apache-2.0
// A quantity that each rank has its own value of, over all ranks.
#pragma once

namespace halomesh {

struct RankSpread {
  double mean = 0, min = 0, max = 0;
  int max_rank = 0;  ///< the first rank with the greatest value
};

}  // namespace halomesh
