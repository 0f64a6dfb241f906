// SPDX-License-Identifier: Apache-2.0
// Sums over the holders of values: see reduction.hpp.
#include "runtime/step/reduction.hpp"

#include <utility>

#include "error.hpp"
#include "narrow.hpp"

namespace halomesh {

Reduction reduction_named(const std::string& name) {
  for (const Reduction reduction : {Reduction::kFlat, Reduction::kTwoLevel})
    if (name == name_of(reduction)) return reduction;
  if (name == "auto") return Reduction::kFlat;
  throw UsageError(fmt::format("unknown reduction: {}", name), "use auto, flat or two-level");
}

HolderComms::HolderComms(Comm holders, std::int64_t replica, Reduction reduction)
    : all(std::move(holders)) {
  if (reduction == Reduction::kFlat) return;
  Comm inside = all.split(narrow<int>(replica), all.rank());
  if (inside.size() == 1 || inside.size() == all.size()) return;
  across = all.split(inside.rank(), all.rank());
  // Rounds of different ranges interleave as they complete: each has a communicator of its own.
  gather = inside.dup();
  scatter = std::move(inside);
}

BucketSum::BucketSum(const HolderComms& comms, std::int64_t volume) : volume_(narrow<int>(volume)) {
  if (comms.rounds() == 1) return;
  const std::int64_t shares = comms.scatter.size();
  for (std::int64_t i = 0; i < shares; ++i) {
    offsets_.push_back(narrow<int>(volume * i / shares));
    counts_.push_back(narrow<int>(volume * (i + 1) / shares) - offsets_.back());
  }
  share_ = AlignedBuffer<float>(counts_[static_cast<std::size_t>(comms.scatter.rank())]);
}

void BucketSum::start(const HolderComms& comms, int round, float* values, MPI_Request* request) {
  const auto count = narrow<int>(share_.size());
  if (comms.rounds() == 1)
    mpi_check(MPI_Iallreduce(MPI_IN_PLACE, values, volume_, MPI_FLOAT, MPI_SUM, comms.all.handle(),
                             request));
  else if (round == 0)
    mpi_check(MPI_Ireduce_scatter(values, share_.data(), counts_.data(), MPI_FLOAT, MPI_SUM,
                                  comms.scatter.handle(), request));
  else if (round == 1)
    mpi_check(MPI_Iallreduce(MPI_IN_PLACE, share_.data(), count, MPI_FLOAT, MPI_SUM,
                             comms.across.handle(), request));
  else
    mpi_check(MPI_Iallgatherv(share_.data(), count, MPI_FLOAT, values, counts_.data(),
                              offsets_.data(), MPI_FLOAT, comms.gather.handle(), request));
}

}  // namespace halomesh
