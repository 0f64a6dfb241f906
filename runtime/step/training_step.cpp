// SPDX-License-Identifier: Apache-2.0
// One step of training: see training_step.hpp.
#include "runtime/step/training_step.hpp"

#include <functional>

#include "runtime/step/evaluator.hpp"
#include "src/nn/loss.hpp"

namespace halomesh {

TrainingStep::TrainingStep(const ProcessMesh& mesh, Model& model, const ModelGeometry& geometry,
                           Parameters& parameters, std::int64_t local_batch, Trace* trace,
                           Reduction reduction)
    : mesh_(mesh),
      parameters_(parameters),
      local_batch_(local_batch),
      trace_(trace),
      executor_(mesh.group(), model, geometry, parameters, local_batch, true, trace),
      reducer_(mesh, geometry, parameters, reduction, trace) {}

double TrainingStep::run(Loader& loader, const StepSettings& settings) {
  const std::function<void()> poll = [this, &loader] {  // small enough not to allocate memory
    executor_.progress();
    reducer_.progress();
    loader.progress();
  };
  const Pass pass{true, settings.seed, settings.number, mesh_.replica() * local_batch_, &poll};
  executor_.load_parameters();  // needs no input: overlaps with reading it
  const Batch* batch = nullptr;
  {
    const TraceScope scope(trace_, Phase::kInputWait);
    batch = &loader.next();
  }
  const AnyConstView input = input_view(*batch, executor_.input_span(), local_batch_);
  executor_.forward(pass, input);
  double loss = 0;
  if (const Box& out = executor_.output().span; !out.empty()) {
    const TraceScope scope(trace_, Phase::kLoss);
    const std::int64_t global_batch = local_batch_ * mesh_.shape().replicas;
    const ErrorSums errors = loss_gradient(LossKind::kMeanSquaredError, executor_.output(),
                                           target_view(*batch, out.extent(kC), local_batch_),
                                           local_batch_, global_batch, executor_.output_diff());
    loss = errors.squared / static_cast<double>(global_batch * out.extent(kC));
  }
  executor_.backward(pass, input, reducer_);
  reducer_.finish();
  const TraceScope scope(trace_, Phase::kOptimizer);
  sgd_step(settings.sgd, settings.rate, parameters_.diffs(), parameters_.velocity(),
           parameters_.values());
  return loss;
}

}  // namespace halomesh
