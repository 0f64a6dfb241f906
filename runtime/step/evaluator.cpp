// SPDX-License-Identifier: Apache-2.0
// One forward-only pass over a split: see evaluator.hpp.
#include "runtime/step/evaluator.hpp"

#include <algorithm>
#include <functional>
#include <vector>

#include "error.hpp"
#include "runtime/mpi/nonblocking_any.hpp"
#include "runtime/step/part_sums.hpp"
#include "src/nn/exact_sum.hpp"

namespace halomesh {

AnyConstView input_view(const Batch& batch, const Box& span, std::int64_t local_batch) {
  return {batch.data.data, batch.data.type, span, local_batch};
}

AnyConstView targets_of(const Batch& batch, const Loss& loss, ConstView output) {
  const Box box = loss.target_box(output.span);
  require(output.span.empty() || batch.targets.span == box,
          text("targets of {} for a block {} of the output", batch.targets.span, output.span),
          "this is an error of the program; report it with the options of the run");
  return batch.targets;
}

bool Evaluation::is_empty() const {
  const auto absent = [](const ClassQuality& of_class) { return of_class.voxels == 0; };
  return !classes.empty() && std::all_of(classes.begin() + 1, classes.end(), absent);
}

namespace {

/// Adds up the terms of samples, either in plain floating point or exactly.
class TermSums {
 public:
  TermSums(std::size_t width, bool exact)
      : terms_(width), exact_sums_(exact ? static_cast<std::int64_t>(width) : 0) {}

  void add(std::span<const double> terms) {
    for (std::size_t k = 0; k < terms_.size(); ++k)
      if (exact_sums_.size() > 0)
        exact_sums_.view().add(static_cast<std::int64_t>(k), terms[k]);
      else
        terms_[k] += terms[k];
  }
  /// Returns the sums over all ranks. Collective.
  std::span<const double> over(const Comm& world) {
    if (exact_sums_.size() == 0) {
      world.sum(terms_);
      return terms_;
    }
    world.sum(exact_sums_.bins());
    for (std::size_t k = 0; k < terms_.size(); ++k) {
      const auto sum = exact_sums_.view().from(static_cast<std::int64_t>(k));
      terms_[k] = exact::value(*sum.high, *sum.low);
    }
    return terms_;
  }

 private:
  std::vector<double> terms_;
  ExactSums exact_sums_;
};

}  // namespace

Evaluation evaluate(const ProcessMesh& mesh, Executor& executor, Loader& loader, Loss& loss,
                    const SampleOrder& order, const PredictionSink& sink,
                    const std::function<bool()>& must_stop, bool exact) {
  const double begin = MPI_Wtime();
  const std::int64_t steps = order.validation_steps();
  loader.append(order.validation());
  require(!exact || order.samples <= exact::kMostTerms,
          text("--reproducible: exact sums have no room for {} validation samples", order.samples),
          "use fewer validation samples, or --evaluate-every 0");
  executor.load_parameters();
  // Where several parts have all sums of a sample, the first of them concludes it.
  const bool is_cut = executor.output_owners() > 1;
  const Box owned = executor.output().span;
  const bool concludes = is_cut ? mesh.part() == 0 : !owned.empty();
  const std::size_t width = loss.sums_per_sample();
  TermSums terms(width, exact);
  std::vector<double> all_sums(static_cast<std::size_t>(order.local_batch) * width);
  PartSums part_sums(mesh.group());
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
    const auto samples = static_cast<std::size_t>(batch.count);
    const std::span<double> sums = std::span(all_sums).first(samples * width);
    std::fill(sums.begin(), sums.end(), 0.0);
    if (!owned.empty()) {
      const ConstView output = samples_of(executor.output(), 0, batch.count);
      const AnyConstView targets = targets_of(batch, loss, output);
      loss.add_sums(output, targets, sums);
      if (sink) sink(batch.samples, output, targets);
    }
    if (is_cut) part_sums.sum(sums);
    for (std::size_t n = 0; concludes && n < samples; ++n) {
      loss.conclude(sums.subspan(n * width, width));
      terms.add(sums.subspan(n * width, width));
    }
  }
  const Quality quality = loss.quality(terms.over(mesh.world()));
  const double seconds = mesh.world().max(MPI_Wtime() - begin);
  return {quality.loss, quality.score,   quality.samples, seconds,
          false,        quality.targets, quality.classes, loss.score()};
}

}  // namespace halomesh
