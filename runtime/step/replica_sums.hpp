// SPDX-License-Identifier: Apache-2.0
// Sums between replicas within a pass, for layers that treat samples of several replicas together.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "runtime/mpi/mpi.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

/// The most samples of several replicas that a layer treats together; 1: replicas are independent.
/// Throws UsageError unless these are some of one replica's `local_batch` samples of a pass, of
/// which a step makes `passes`, or all samples of some replicas in one pass.
std::int64_t samples_together(const Model& model, std::int64_t local_batch, std::int64_t passes,
                              std::int64_t replicas);

/// Sums over groups of consecutive replicas whose samples the network treats together, for each
/// part separately: Pass::sum_replicas.
class ReplicaSums {
 public:
  /// Collective over mesh.world() if replicas are to be summed. Throws as samples_together().
  ReplicaSums(const ProcessMesh& mesh, const Model& model, std::int64_t local_batch,
              std::int64_t passes);
  ReplicaSums(const ReplicaSums&) = delete;
  ReplicaSums& operator=(const ReplicaSums&) = delete;

  /// Null if each replica's samples are independent of the others'.
  const std::function<void(std::span<double>)>* function() const { return comm_ ? &sum_ : nullptr; }

 private:
  std::optional<Comm> comm_;
  std::function<void(std::span<double>)> sum_;
};

}  // namespace halomesh
