// SPDX-License-Identifier: Apache-2.0
// One forward-only pass over a split: see evaluator.hpp.
#include "runtime/step/evaluator.hpp"

#include <functional>
#include <vector>

#include "error.hpp"
#include "runtime/mpi/nonblocking_any.hpp"
#include "src/nn/exact_sum.hpp"

namespace halomesh {

AnyConstView input_view(const Batch& batch, const Box& span, std::int64_t local_batch) {
  return {batch.data.data, batch.data.type, span, local_batch};
}

ConstView target_view(const Batch& batch, std::int64_t targets, std::int64_t local_batch) {
  return {batch.targets.data(), Box::whole({targets, 1, 1, 1}), local_batch};
}

Evaluation evaluate(const ProcessMesh& mesh, Executor& executor, Loader& loader,
                    const SampleOrder& order, const PredictionSink& sink,
                    const std::function<bool()>& must_stop, bool exact) {
  const double begin = MPI_Wtime();
  const std::int64_t steps = order.validation_steps();
  loader.append(order.validation());
  const bool owns_output = !executor.output().span.empty();
  const Shape& output = executor.output_shape();
  const std::int64_t targets = output.c;
  require(targets > 0 && output.spatial() == Spatial{1, 1, 1},
          text("an evaluation of outputs of shape {}", output),
          "the last layer of the network must have one voxel, with a channel for each target");
  require(!exact || order.samples <= halomesh::exact::kMostTerms,
          text("--reproducible: exact sums have no room for {} validation samples", order.samples),
          "use fewer validation samples, or --evaluate-every 0");
  executor.load_parameters();
  TargetErrors errors(static_cast<std::size_t>(targets));
  ExactSums exact_sums(exact ? std::ssize(errors.sums()) : 0);
  NonblockingAny stop(mesh.world());
  const std::function<void()> poll = [&] {
    executor.progress();
    loader.progress();
    stop.progress();
  };
  for (std::int64_t step = 0; step < steps; ++step) {
    if (stop.take_result()) return {0, 0, 0, MPI_Wtime() - begin, true};
    if (must_stop) stop.start(must_stop());
    const Batch& batch = loader.next();
    const Pass pass{false, 0, step, mesh.replica() * order.local_batch, &poll};
    executor.forward(pass, input_view(batch, executor.input_span(), order.local_batch));
    if (!owns_output) continue;
    const ConstView expected = target_view(batch, targets, order.local_batch);
    for (std::int64_t i = 0; i < batch.count * targets; i += targets) {
      errors.add(executor.output().data + i, expected.data + i);
      for (std::int64_t k = 0; k < exact_sums.size(); ++k) {
        double& term = errors.sums()[static_cast<std::size_t>(k)];
        exact_sums.view().add(k, term);
        term = 0;
      }
    }
    if (sink) sink(batch.samples, executor.output(), expected);
  }
  if (exact) {
    mesh.world().sum(exact_sums.bins());
    for (std::int64_t k = 0; k < exact_sums.size(); ++k)
      errors.sums()[static_cast<std::size_t>(k)] =
          halomesh::exact::value(exact_sums.view().high[k], exact_sums.view().low[k]);
  } else {
    mesh.world().sum(errors.sums());
  }
  const std::vector<TargetQuality> quality = errors.quality();
  const double seconds = mesh.world().max(MPI_Wtime() - begin);
  return {errors.mean_square_error(), mean_mae(quality), errors.samples(), seconds, false, quality};
}

}  // namespace halomesh
