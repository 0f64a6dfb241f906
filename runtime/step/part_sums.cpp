// SPDX-License-Identifier: Apache-2.0
// Sums over the parts of a network: see part_sums.hpp.
#include "runtime/step/part_sums.hpp"

#include <algorithm>

#include "narrow.hpp"
#include "simulation.hpp"

namespace halomesh {

void PartSums::sum(std::span<double> values) {
  if (group_.size() == 1) return;
  const auto parts = static_cast<std::size_t>(group_.size());
  gathered_.resize(std::max(gathered_.size(), parts * values.size()));
  const int count = narrow<int>(values.size());
  group_.await_all();
  mpi_check(MPI_Allgather(values.data(), count, MPI_DOUBLE, gathered_.data(), count, MPI_DOUBLE,
                          group_.handle()));
  if constexpr (simulation::kOn)  // SMPI charges neither end of these messages
    for (std::size_t ranks = 1; ranks < parts; ranks *= 2)
      for (int end = 0; end < 2; ++end)
        simulation::message_end(static_cast<std::int64_t>(values.size_bytes()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 0;
    for (std::size_t part = 0; part < parts; ++part)
      values[i] += gathered_[part * values.size() + i];
  }
}

}  // namespace halomesh
