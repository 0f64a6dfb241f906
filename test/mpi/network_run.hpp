// SPDX-License-Identifier: Apache-2.0
// One network on one mesh with values that are a function of global indices alone: its tensors,
// parameters and one step of forward and backward.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/mpi/process_mesh.hpp"
#include "runtime/step/executor.hpp"
#include "runtime/step/gradient_reducer.hpp"
#include "runtime/step/replica_sums.hpp"
#include "src/nn/model.hpp"
#include "src/nn/parameters.hpp"

namespace halomesh {

/// Calls visit(n, c, d, h, w) for each element of `box` of each of `batch` samples.
template <class Visit>
void for_each_element(std::int64_t batch, const Box& box, Visit visit) {
  for (std::int64_t n = 0; n < batch; ++n)
    for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
      for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
        for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
          for (std::int64_t c = box.lo[kC]; c < box.hi[kC]; ++c) visit(n, c, d, h, w);
}

/// Calls visit(index in the flat memory, parameter, global index in it) for all that `part` holds.
template <class Visit>
void for_each_held(const Parameters& parameters, const ModelGeometry& geometry, std::int64_t part,
                   Visit visit) {
  for (const HolderGroup& group : parameters.groups())
    for (const ParameterRange& range : group.ranges) {
      const ParameterPlacement& placement = geometry.parameters()[range.placement];
      for_each_run(placement.geometry, placement.slices[static_cast<std::size_t>(part)],
                   [&](std::int64_t local, std::int64_t global, std::int64_t length) {
                     for (std::int64_t i = 0; i < length; ++i)
                       visit(static_cast<std::size_t>(range.offset + local + i), range.placement,
                             global + i);
                   });
    }
}

/// Values of a step. Element indices are those of one sample in d,h,w,c order; samples count
/// through the global batch.
struct StepValues {
  std::function<float(std::size_t placement, std::int64_t index)> parameter;
  std::function<float(std::int64_t sample, std::int64_t element)> input, output_diff;
};

class NetworkRun {
 public:
  /// Collective over `comm`, of shape.ranks() ranks.
  NetworkRun(const Comm& comm, const MeshShape& shape, Model model, std::int64_t local_batch,
             StepValues values, MemoryUse use = MemoryUse::kShared)
      : mesh_(comm, shape),
        model_(std::move(model)),
        geometry_(model_.geometry(shape.parts)),
        parameters_(geometry_, mesh_.part()),
        executor_(mesh_.group(), model_, geometry_, parameters_, local_batch, true, nullptr, use),
        reducer_(mesh_, geometry_, parameters_, Reduction::kAuto, nullptr, 256),
        replica_sums_(mesh_, model_, local_batch, 1),
        local_batch_(local_batch),
        values_(std::move(values)) {}

  /// Resets parameters, input and output gradient, runs a step and sums the gradients.
  void step() {
    for_each_held(parameters_, geometry_, mesh_.part(), [&](auto at, auto placement, auto index) {
      parameters_.values()[at] = values_.parameter(placement, index);
    });
    const std::int64_t first = mesh_.replica() * local_batch_;
    Tensor input(executor_.input_span(), local_batch_);
    fill_with(input.view(), geometry_.tensors().front().shape, first, values_.input);
    const Pass pass{.training = true,
                    .seed = 1,
                    .step = 5,
                    .first_sample = first,
                    .global_batch = local_batch_ * mesh_.shape().replicas,
                    .sum_replicas = replica_sums_.function()};
    executor_.load_parameters();
    executor_.forward(pass, input.view());
    fill_with(executor_.output_diff(), geometry_.tensors().back().shape, first,
              values_.output_diff);
    executor_.backward(pass, input.view(), reducer_);
    reducer_.finish();
  }

  const StepValues& values() const { return values_; }
  const ProcessMesh& mesh() const { return mesh_; }
  const ModelGeometry& geometry() const { return geometry_; }
  const Executor& executor() const { return executor_; }
  Executor& executor() { return executor_; }
  Parameters& parameters() { return parameters_; }
  std::int64_t local_batch() const { return local_batch_; }
  std::int64_t first_sample() const { return mesh_.replica() * local_batch_; }

 private:
  static void fill_with(View view, const Shape& shape, std::int64_t first,
                        const std::function<float(std::int64_t, std::int64_t)>& value) {
    const View index{nullptr, Box::whole(shape), 1};
    for_each_element(view.batch, view.span, [&](auto n, auto c, auto d, auto h, auto w) {
      view.at(n, c, d, h, w) = value(first + n, index.offset(0, c, d, h, w));
    });
  }

  ProcessMesh mesh_;
  Model model_;
  ModelGeometry geometry_;
  Parameters parameters_;
  Executor executor_;
  GradientReducer reducer_;
  ReplicaSums replica_sums_;
  std::int64_t local_batch_;
  StepValues values_;
};

}  // namespace halomesh
