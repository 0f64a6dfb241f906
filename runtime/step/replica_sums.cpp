// SPDX-License-Identifier: Apache-2.0
// Sums between replicas: see replica_sums.hpp.
#include "runtime/step/replica_sums.hpp"

#include "counted.hpp"
#include "error.hpp"
#include "narrow.hpp"

namespace halomesh {
namespace {

void check_samples(std::int64_t together, std::int64_t local_batch, std::int64_t passes,
                   std::int64_t replicas) {
  if (local_batch % together == 0) return;
  const bool whole = together % local_batch == 0 && replicas % (together / local_batch) == 0;
  if (whole && passes == 1) return;
  throw UsageError(
      fmt::format("batch normalization over {} does not fit a batch of {} on {}{}",
                  counted(together, "sample"), local_batch * passes * replicas,
                  counted(replicas, "replica"),
                  passes == 1 ? "" : fmt::format(" in {} passes", passes)),
      passes == 1 && replicas > 1
          ? fmt::format(
                "give --batch-norm a divisor of {}, the samples of a replica, or a multiple "
                "of it that divides the batch",
                local_batch)
          : fmt::format("give --batch-norm a divisor of {}, the samples of {}", local_batch,
                        passes == 1 ? "a replica" : "a pass"));
}

}  // namespace

std::int64_t samples_together(const Model& model, std::int64_t local_batch, std::int64_t passes,
                              std::int64_t replicas) {
  std::int64_t most = 1;
  for (const ModelLayer& entry : model.layers()) {
    const std::int64_t together = entry.layer->samples_together();
    check_samples(together, local_batch, passes, replicas);
    if (together <= local_batch || together == most) continue;
    require(most == 1, text("layers that take {} and {} samples together", most, together),
            "use one number for the whole network");
    most = together;
  }
  return most;
}

ReplicaSums::ReplicaSums(const ProcessMesh& mesh, const Model& model, std::int64_t local_batch,
                         std::int64_t passes) {
  const std::int64_t most = samples_together(model, local_batch, passes, mesh.shape().replicas);
  if (most == 1) return;
  const std::int64_t set = mesh.replica() / (most / local_batch);
  comm_ = mesh.world().split(narrow<int>(set * mesh.shape().parts.count() + mesh.part()),
                             narrow<int>(mesh.replica()));
  sum_ = [this](std::span<double> values) { comm_->sum(values); };
}

}  // namespace halomesh
