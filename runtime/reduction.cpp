// Sums over the holders of values: see reduction.hpp.
#include "runtime/reduction.hpp"

#include <utility>

#include "error.hpp"
#include "narrow.hpp"

namespace halomesh {
namespace {

std::int64_t nodes_of(const Comm& comm) {
  return comm.sum(std::int64_t{comm.split_by_node().rank() == 0 ? 1 : 0});
}

}  // namespace

Reduction reduction_named(const std::string& name, const ProcessMesh& mesh) {
  if (name == "flat") return Reduction::kFlat;
  if (name == "two-level") return Reduction::kTwoLevel;
  require(name == "auto", cat("a reduction named ", name), "use auto, flat or two-level");
  const std::int64_t of_a_replica = mesh.world().max(nodes_of(mesh.group()));
  return of_a_replica < nodes_of(mesh.world()) ? Reduction::kTwoLevel : Reduction::kFlat;
}

HolderComms::HolderComms(Comm holders, std::int64_t replica, Reduction reduction)
    : all(std::move(holders)) {
  if (reduction == Reduction::kFlat) return;
  Comm inside = all.split(narrow<int>(replica), all.rank());
  if (inside.size() == 1 || inside.size() == all.size()) return;
  across = all.split(inside.rank(), all.rank());
  // Stages of different ranges interleave as they complete: each has a communicator of its own.
  gather = inside.dup();
  scatter = std::move(inside);
}

StagedSum::StagedSum(const HolderComms& comms, std::int64_t volume) : volume_(narrow<int>(volume)) {
  if (comms.stages() == 1) return;
  const std::int64_t shares = comms.scatter.size();
  for (std::int64_t i = 0; i < shares; ++i) {
    offsets_.push_back(narrow<int>(volume * i / shares));
    counts_.push_back(narrow<int>(volume * (i + 1) / shares) - offsets_.back());
  }
  share_ = AlignedBuffer<float>(counts_[static_cast<std::size_t>(comms.scatter.rank())]);
}

void StagedSum::start(const HolderComms& comms, int stage, float* values, MPI_Request* request) {
  const auto count = narrow<int>(share_.size());
  if (comms.stages() == 1)
    mpi_check(MPI_Iallreduce(MPI_IN_PLACE, values, volume_, MPI_FLOAT, MPI_SUM, comms.all.handle(),
                             request));
  else if (stage == 0)
    mpi_check(MPI_Ireduce_scatter(values, share_.data(), counts_.data(), MPI_FLOAT, MPI_SUM,
                                  comms.scatter.handle(), request));
  else if (stage == 1)
    mpi_check(MPI_Iallreduce(MPI_IN_PLACE, share_.data(), count, MPI_FLOAT, MPI_SUM,
                             comms.across.handle(), request));
  else
    mpi_check(MPI_Iallgatherv(share_.data(), count, MPI_FLOAT, values, counts_.data(),
                              offsets_.data(), MPI_FLOAT, comms.gather.handle(), request));
}

}  // namespace halomesh
