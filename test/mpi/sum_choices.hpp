// SPDX-License-Identifier: Apache-2.0
// Every algorithm of sums by messages, for tests.
#pragma once

#include <vector>

#include "partition/cost/network_cost.hpp"

namespace halomesh {

/// All algorithms on so many ranks, two-level ones with every group that divides them.
inline std::vector<SumChoice> ways_of(int ranks) {
  using enum SumAlgorithm;
  std::vector<SumChoice> ways;
  for (const SumAlgorithm algorithm : {kRecursiveDoubling, kHalvingDoubling, kRing, kBinomialTree})
    ways.push_back({algorithm, {ranks, 1}});
  ways.push_back({kHalvingDoubling, {ranks, 1}, kHalvingDoubling, 3});
  for (int inner = 2; inner < ranks; ++inner)
    if (ranks % inner == 0)
      for (const SumAlgorithm across : {kRecursiveDoubling, kHalvingDoubling, kRing})
        ways.push_back({kTwoLevel, {ranks, inner}, across, 2});
  return ways;
}

}  // namespace halomesh
