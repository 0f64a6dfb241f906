// SPDX-License-Identifier: Apache-2.0
// One forward-only pass over a split: see evaluator.hpp.
#include "runtime/step/evaluator.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
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

/// The terms of samples: added up, either in plain floating point or exactly, or all of them.
class SampleTerms {
 public:
  SampleTerms(const Loss& loss, bool exact)
      : keeps_(loss.keeps_samples()),
        terms_(loss.sums_per_sample()),
        exact_sums_(exact && !keeps_ ? static_cast<std::int64_t>(terms_.size()) : 0) {}

  void add(std::int64_t sample, std::span<const double> terms) {
    if (keeps_) {
      kept_.push_back(static_cast<double>(sample));
      kept_.insert(kept_.end(), terms.begin(), terms.end());
      return;
    }
    for (std::size_t k = 0; k < terms_.size(); ++k)
      if (exact_sums_.size() > 0)
        exact_sums_.view().add(static_cast<std::int64_t>(k), terms[k]);
      else
        terms_[k] += terms[k];
  }
  /// Returns the sums over all ranks, or the terms of all samples in their order. Collective.
  std::span<const double> over(const Comm& world) {
    if (keeps_) return all_kept(world);
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
  std::span<const double> all_kept(const Comm& world) {
    const std::size_t width = terms_.size() + 1;
    std::vector<std::vector<double>> rows;
    const std::string mine(reinterpret_cast<const char*>(kept_.data()),  // NOLINT: bytes
                           kept_.size() * sizeof(double));
    for (const std::string& part : world.all_gather(mine))
      for (std::size_t at = 0; at < part.size(); at += width * sizeof(double))
        std::memcpy(rows.emplace_back(width).data(), part.data() + at, width * sizeof(double));
    std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a[0] < b[0]; });
    terms_.clear();
    for (const auto& row : rows) terms_.insert(terms_.end(), row.begin() + 1, row.end());
    return terms_;
  }

  bool keeps_;
  std::vector<double> terms_;
  ExactSums exact_sums_;
  std::vector<double> kept_;  // the number of each sample, and its terms
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
  SampleTerms terms(loss, exact);
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
      terms.add(batch.samples[n], sums.subspan(n * width, width));
    }
  }
  const Quality quality = loss.quality(terms.over(mesh.world()));
  const double seconds = mesh.world().max(MPI_Wtime() - begin);
  return {quality.loss,    quality.score,   quality.samples, seconds,       false,
          quality.targets, quality.classes, loss.score(),    quality.labels};
}

}  // namespace halomesh
