// SPDX-License-Identifier: Apache-2.0
// The mean, least and greatest value over ranks, and the rank of the greatest.
#pragma once

#include <span>
#include <vector>

#include "rank_spread.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// The spread of each of this rank's `values` over the ranks of `comm`, the same on all of them.
/// Uses three all-reduces, whatever the number of values. Collective; every rank has equally many
/// values.
std::vector<RankSpread> spread_over(const Comm& comm, std::span<const double> values);
RankSpread spread_over(const Comm& comm, double value);

}  // namespace halomesh
