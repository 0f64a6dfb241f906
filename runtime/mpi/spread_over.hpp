// SPDX-License-Identifier: Apache-2.0
// Mean, least and greatest value over ranks, and whose it is.
#pragma once

#include <span>
#include <vector>

#include "rank_spread.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// The spread of each of this rank's `values` over the ranks of `comm`, the same on all of them.
/// Three all-reduces, whatever the number of values. Collective; every rank has as many values.
std::vector<RankSpread> spread_over(const Comm& comm, std::span<const double> values);
RankSpread spread_over(const Comm& comm, double value);

}  // namespace halomesh
