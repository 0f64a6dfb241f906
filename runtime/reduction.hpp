// How a range of values is summed over the ranks that hold it: at once, or in two levels.
// Knows communicators and nodes; nothing of parameters or of buckets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/mpi.hpp"
#include "runtime/process_mesh.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// kFlat: one all-reduce over all holders. kTwoLevel: the holders of a replica scatter the sums of
/// theirs among themselves, each sums its share with the same share of the other replicas, and the
/// shares are gathered. Of V values that P ranks of each of R replicas hold, V / P a rank go from
/// replica to replica; the rest stays inside of it.
enum class Reduction : std::uint8_t { kFlat, kTwoLevel };

constexpr const char* name_of(Reduction reduction) {
  return reduction == Reduction::kFlat ? "flat" : "two-level";
}

/// Of "flat", "two-level" or "auto": two levels where every replica keeps to fewer nodes than there
/// are, so that what stays inside of it is cheaper than what leaves; flat otherwise, and on one
/// node. Collective over mesh.world(); the same on every rank.
Reduction reduction_named(const std::string& name, const ProcessMesh& mesh);

/// The communicators of ranks that hold the same values.
struct HolderComms {
  Comm all;
  Comm scatter, across, gather;  ///< null where a sum is flat

  /// Collective over `holders`. Flat where a replica, or all of them, is a single rank.
  HolderComms(Comm holders, std::int64_t replica, Reduction reduction);
  int stages() const { return across.is_null() ? 1 : 3; }
};

/// The sum of one range of values, in the stages of its HolderComms. Every stage is one
/// non-blocking collective: all holders start those of one communicator in the same order.
class StagedSum {
 public:
  StagedSum(const HolderComms& comms, std::int64_t volume);
  /// Starts a stage once the one before is complete; after the last, `values` is the sum.
  void start(const HolderComms& comms, int stage, float* values, MPI_Request* request);

 private:
  int volume_;
  std::vector<int> counts_, offsets_;  // of the share of each holder of a replica
  AlignedBuffer<float> share_;         // of this rank
};

}  // namespace halomesh
