// SPDX-License-Identifier: Apache-2.0
// Spreads of values over ranks: see spread_over.hpp.
#include "runtime/mpi/spread_over.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>

namespace halomesh {

std::vector<RankSpread> spread_over(const Comm& comm, std::span<const double> values) {
  const std::size_t n = values.size();
  std::vector<double> sums(values.begin(), values.end()), extremes(2 * n);
  for (std::size_t i = 0; i < n; ++i) {
    extremes[i] = values[i];
    extremes[n + i] = -values[i];
  }
  comm.sum(sums);
  comm.max(extremes);
  // The first of the ranks with the maximum has the greatest negated number.
  std::vector<std::int64_t> first(n);
  for (std::size_t i = 0; i < n; ++i)
    first[i] = values[i] == extremes[i] ? -comm.rank() : std::numeric_limits<int>::min();
  comm.max(first);
  std::vector<RankSpread> spreads(n);
  for (std::size_t i = 0; i < n; ++i)
    spreads[i] = {sums[i] / comm.size(), -extremes[n + i], extremes[i],
                  static_cast<int>(-first[i])};
  return spreads;
}

RankSpread spread_over(const Comm& comm, double value) {
  return spread_over(comm, std::span(&value, 1)).front();
}

}  // namespace halomesh
