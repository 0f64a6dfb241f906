// SPDX-License-Identifier: Apache-2.0
// The minimum work of each phase of a step on one part: operations and memory traffic, derived only
// from a network's geometry and types.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/mesh_shape.hpp"
#include "partition/model_geometry.hpp"
#include "runtime/log/phase_times.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

/// The work of one step on one part.
struct PhaseWork {
  double flops = 0;         ///< floating-point operations, a multiply-add being two
  double memory_bytes = 0;  ///< lower bound: everything is read or written once
};

/// The work of a part with `batch` local samples. Backward with respect to data and to parameters
/// each count as many operations as forward, if computed at all. A dense layer that is cut counts
/// its share of the input; other layers count their share of the output.
class StepWork {
 public:
  StepWork(const Model& model, const ModelGeometry& geometry, std::int64_t part,
           std::int64_t batch);
  /// The sum over all ranks of `mesh`. Local.
  static StepWork of_all_ranks(const Model& model, const ModelGeometry& geometry,
                               const MeshShape& mesh, std::int64_t local_batch);

  struct Entry {
    PhaseKey key;
    PhaseWork work;
  };
  const std::vector<Entry>& entries() const { return entries_; }
  /// Operations of all phases.
  double flops() const;
  /// The work of one phase; zeros if it is unknown.
  PhaseWork of(const PhaseKey& key) const;

 private:
  double bytes(std::size_t tensor, std::int64_t volume) const;
  void add_layer(std::size_t layer, const std::vector<bool>& with_diff);

  const Model& model_;
  const ModelGeometry& geometry_;
  std::int64_t part_, batch_;
  std::vector<DataType> types_;
  std::vector<Entry> entries_;
};

}  // namespace halomesh
