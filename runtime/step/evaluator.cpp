// SPDX-License-Identifier: Apache-2.0
// One forward-only pass over a split: see evaluator.hpp.
#include "runtime/step/evaluator.hpp"

#include <algorithm>
#include <functional>
#include <vector>

#include "runtime/mpi/nonblocking_any.hpp"
#include "src/nn/loss.hpp"

namespace halomesh {

AnyConstView input_view(const Batch& batch, const Box& span, std::int64_t local_batch) {
  return {batch.data.data, batch.data.type, span, local_batch};
}

ConstView target_view(const Batch& batch, std::int64_t targets, std::int64_t local_batch) {
  return {batch.targets.data(), Box::whole({targets, 1, 1, 1}), local_batch};
}

Evaluation evaluate(const ProcessMesh& mesh, Executor& executor, Loader& loader,
                    const SampleOrder& order, const PredictionSink& sink,
                    const std::function<bool()>& must_stop) {
  const double begin = MPI_Wtime();
  const std::int64_t steps = order.validation_steps();
  loader.append(order.validation());
  const bool owns_output = !executor.output().span.empty();
  const std::int64_t targets = executor.output_shape().volume();
  executor.load_parameters();
  ErrorSums sums;
  TargetErrors by_target(static_cast<std::size_t>(targets));
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
    sums += error_sums(executor.output(), expected, batch.count);
    for (std::int64_t i = 0; i < batch.count * targets; i += targets)
      by_target.add(executor.output().data + i, expected.data + i);
    if (sink) sink(batch.samples, executor.output(), expected);
  }
  std::vector<double> total = {sums.squared, sums.absolute, static_cast<double>(sums.samples)};
  const std::span<double> of_targets = by_target.sums();
  total.insert(total.end(), of_targets.begin(), of_targets.end());
  mesh.world().sum(total);
  std::copy(total.begin() + 3, total.end(), of_targets.begin());
  const double count = total[2] * static_cast<double>(targets);
  return {total[0] / count,
          total[1] / count,
          static_cast<std::int64_t>(total[2]),
          mesh.world().max(MPI_Wtime() - begin),
          false,
          by_target.quality()};
}

}  // namespace halomesh
