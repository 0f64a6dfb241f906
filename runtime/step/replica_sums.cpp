// SPDX-License-Identifier: Apache-2.0
// Sums between replicas: see replica_sums.hpp.
#include "runtime/step/replica_sums.hpp"

#include "error.hpp"
#include "narrow.hpp"

namespace halomesh {
namespace {

// Throws UsageError unless both numbers of samples fit each other.
void check_samples(std::int64_t together, std::int64_t local_batch, std::int64_t passes,
                   std::int64_t replicas) {
  if (local_batch % together == 0) return;
  const bool whole = together % local_batch == 0 && replicas % (together / local_batch) == 0;
  if (whole && passes == 1) return;
  throw UsageError(
      fmt::format("{} samples are to be normalized together, but {} replicas have {} each in {}",
                  together, replicas, local_batch,
                  passes == 1 ? "a step" : fmt::format("each of {} passes of a step", passes)),
      passes == 1 ? "give a number that divides the samples of a replica, or a multiple of these "
                    "that divides the batch"
                  : "give a number that divides the samples of a pass");
}

}  // namespace

ReplicaSums::ReplicaSums(const ProcessMesh& mesh, const Model& model, std::int64_t local_batch,
                         std::int64_t passes) {
  std::int64_t most = 1;
  for (const ModelLayer& entry : model.layers()) {
    const std::int64_t together = entry.layer->samples_together();
    check_samples(together, local_batch, passes, mesh.shape().replicas);
    if (together <= local_batch || together == most) continue;
    require(most == 1, text("layers that take {} and {} samples together", most, together),
            "use one number for the whole network");
    most = together;
  }
  if (most == 1) return;
  const std::int64_t set = mesh.replica() / (most / local_batch);
  comm_ = mesh.world().split(narrow<int>(set * mesh.shape().parts.count() + mesh.part()),
                             narrow<int>(mesh.replica()));
  sum_ = [this](std::span<double> values) { comm_->sum(values); };
}

}  // namespace halomesh
