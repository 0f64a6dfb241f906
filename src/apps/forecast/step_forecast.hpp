// SPDX-License-Identifier: Apache-2.0
// The time of one step of a network on a mesh and a machine: the timeline of one replica, whose
// parts go through the events of a step (partition/step_program) as the executor does, and the
// costs that all replicas add. Pure arithmetic: nothing is run.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "partition/model_geometry.hpp"
#include "runtime/step/reduction.hpp"
#include "src/apps/forecast/machine.hpp"
#include "src/apps/forecast/step_outline.hpp"
#include "src/apps/forecast/sum_traffic.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

struct StepForecast {
  // These times of the last part to finish add up to step_s.
  double compute_s = 0;    ///< kernels, update, and the machine's step overhead
  double halo_s = 0;       ///< packing halos, and waiting for them
  double gather_s = 0;     ///< the time of gathering whole tensors, and of partial sums
  double reduction_s = 0;  ///< gradient sums that are not hidden
  double straggler_s = 0;  ///< waiting for the slowest of all ranks
  double input_s = 0;      ///< waiting for samples
  double step_s = 0;
  double low_s = 0, high_s = 0;  ///< the uncertainty of step_s
  /// The shares of the kernels' time that were measured, interpolated, and derived from the
  /// roofline: KernelTime::Source
  std::array<double, 3> kernel_shares{};
};

/// StepForecast::kernel_shares in words, e.g. "90 % measured, 10 % interpolated, 0 % roofline".
std::string describe_kernel_shares(const std::array<double, 3>& shares);

struct ForecastOptions;

/// Data that forecasts with one network, mesh and batch share: outlines and routes are found once
/// if only numbers of a machine vary.
class ForecastCache {
 public:
  struct Entry {
    std::optional<SumTraffic> sums;
    std::vector<std::vector<double>> travel_s;  ///< by exchange of the outline, and message
  };
  Entry& entry(const std::string& key) { return entries_[key]; }
  /// The routes of any mesh of this many ranks.
  SumRoutes& routes(std::int64_t ranks, int per_node) { return routes_[{ranks, per_node}]; }
  const StepOutline& outline(const Model& model, const ModelGeometry& geometry, std::int64_t batch,
                             const ForecastOptions& options);
  /// Keeps only the data that meshes share.
  void forget_meshes() {
    entries_.clear();
    outlines_.clear();
  }

 private:
  std::map<std::string, Entry> entries_;
  std::map<std::pair<std::int64_t, int>, SumRoutes> routes_;
  std::map<std::tuple<std::string, std::int64_t, MemoryUse, bool>, std::unique_ptr<StepOutline>>
      outlines_;
};

struct ForecastOptions {
  bool training = true;                               ///< false: a step of an evaluation
  Reduction reduction = Reduction::kAuto;             ///< never kFlat
  std::int64_t bucket_bytes = std::int64_t{4} << 20;  ///< as in GradientReducer
  MemoryUse memory = MemoryUse::kShared;              ///< whether outputs are computed again
  bool early_sends = true;                            ///< false: halos leave with their layers
  DataType payload = DataType::kFloat32;              ///< the type of gradients in messages
  std::int64_t update_traffic = 5;                    ///< Optimizer::traffic()
  std::optional<int> threads;      ///< threads per rank; empty: machine.threads()
  ForecastCache* cache = nullptr;  ///< for this model and network only; null: nothing is
                                   ///< kept
};

/// Forecasts a step of `model` on a mesh. `geometry` is that of mesh.parts; ranks fill nodes in
/// order. Kernels slow down by the number of threads per core if it exceeds 1. Throws Error if a
/// kernel was not measured and the machine has no peak.
StepForecast forecast_step(const Machine& machine, const Model& model,
                           const ModelGeometry& geometry, const MeshShape& mesh,
                           std::int64_t local_batch, const ForecastOptions& options = {});

}  // namespace halomesh
