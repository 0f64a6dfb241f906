// SPDX-License-Identifier: Apache-2.0
// One step of training: see training_step.hpp.
#include "runtime/step/training_step.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "runtime/step/evaluator.hpp"
#include "src/nn/add.hpp"

namespace halomesh {

const GradientRules& check_rules(const GradientRules& rules, const Loss& loss, const Model& model,
                                 const ModelGeometry& geometry, std::int64_t samples) {
  if (!rules.reproducible) return rules;
  require(loss.sums_exactly(), "this loss cannot be summed reproducibly",
          "train this network without --reproducible");
  const std::int64_t batch = rules.passes * samples;
  for (std::size_t l = 0; l < model.layers().size(); ++l) {
    const ModelLayer& entry = model.layers()[l];
    require(entry.layer->sums_exactly(), text("layer {} has no reproducible kernels", entry.name),
            "train this network without --reproducible");
    const WholeGradients* const whole = entry.layer->whole_gradients();
    const Spatial cells = whole != nullptr ? whole->gradient_cells(geometry.layers()[l].src_shapes)
                                           : Spatial{1, 1, 1};
    const std::int64_t most = exact::kMostTerms / (cells[0] * cells[1] * cells[2]);
    if (batch > most)
      throw UsageError(
          fmt::format("--reproducible: exact sums have no room for the {}x{}x{} cells of {} of a "
                      "batch of {}",
                      cells[0], cells[1], cells[2], entry.name, batch),
          fmt::format("use a --batch of at most {}", most));
  }
  return rules;
}

TrainingStep::TrainingStep(const ProcessMesh& mesh, Model& model, const ModelGeometry& geometry,
                           Parameters& parameters, Optimizer& optimizer, Loss& loss,
                           std::int64_t local_batch, Trace* trace, Reduction reduction,
                           const GradientRules& rules)
    : mesh_(mesh),
      parameters_(rules.reproducible ? parameters.keep_exact_sums() : parameters),
      optimizer_(optimizer),
      loss_(loss),
      local_batch_(local_batch),
      rules_(check_rules(rules, loss, model, geometry, local_batch * mesh.shape().replicas)),
      trace_(trace),
      replica_sums_(mesh, model, local_batch, rules.passes),
      executor_(mesh.group(), model, geometry, parameters, local_batch, true, trace, rules.memory),
      reducer_(mesh, geometry, parameters, rules.reproducible ? Reduction::kFlat : reduction, trace,
               4 << 20, rules.payload),
      part_sums_(mesh.group()),
      sum_([this](std::span<double> values) { part_sums_.sum(values); }) {}

double TrainingStep::run(Loader& loader, const StepSettings& settings) {
  executor_.load_parameters();  // needs no input, so it overlaps with reading it
  exact_loss_ = {};
  // This waits for the first step, because a loss may learn of padded samples after this object was
  // made.
  if (loss_.gradient_reads_sums())
    loss_sums_.resize(static_cast<std::size_t>(local_batch_) * loss_.sums_per_sample());
  double loss = 0;
  for (std::int64_t pass = 0; pass < rules_.passes; ++pass) {
    reducer_.expect_more(pass + 1 < rules_.passes);
    loss += run_pass(loader, settings, pass);
    reducer_.finish();
  }
  const TraceScope scope(trace_, Phase::kOptimizer);
  if (rules_.clip_norm > 0) clip_gradient();
  optimizer_.update(parameters_, {settings.number, settings.rate, &sum_});
  parameters_.update_moving_averages();
  return loss;
}

void TrainingStep::train_from(std::size_t first) {
  parameters_.freeze(first);
  executor_.train_from(first);
  reducer_.leave_out_frozen();
}

double TrainingStep::run_pass(Loader& loader, const StepSettings& settings, std::int64_t number) {
  const std::function<void()> poll = [this, &loader] {  // small enough to need no allocation
    executor_.progress();
    reducer_.progress();
    loader.progress();
  };
  const std::int64_t first = (mesh_.replica() * rules_.passes + number) * local_batch_;
  const std::int64_t global_batch = rules_.passes * local_batch_ * mesh_.shape().replicas;
  const Pass pass{true,  settings.seed, settings.number,         first,
                  &poll, global_batch,  replica_sums_.function()};
  const Batch* batch = nullptr;
  {
    const TraceScope scope(trace_, Phase::kInputWait);
    batch = &loader.next();
  }
  const AnyConstView input = input_view(*batch, executor_.input_span(), local_batch_);
  executor_.forward(pass, input);
  const double loss = find_loss(*batch, global_batch);
  executor_.backward(pass, input, reducer_);
  return loss;
}

// Writes the gradient of the output and returns this part's share of the loss.
double TrainingStep::find_loss(const Batch& batch, std::int64_t global_batch) {
  const ConstView output = executor_.output();
  if (output.span.empty() && loss_sums_.empty()) return 0;
  const TraceScope scope(trace_, Phase::kLoss);
  const AnyConstView target = targets_of(batch, loss_, output);
  if (!loss_sums_.empty()) {
    std::fill(loss_sums_.begin(), loss_sums_.end(), 0.0);
    loss_.add_sums(output, target, loss_sums_);
    if (executor_.output_owners() > 1) part_sums_.sum(loss_sums_);
  }
  if (output.span.empty()) return 0;
  if (!rules_.reproducible)
    return loss_.gradient(output, target, loss_sums_, global_batch, executor_.output_diff());
  double loss = 0;
  for (std::int64_t n = 0; n < local_batch_; ++n) {
    const double share = loss_.gradient(samples_of(output, n, 1), samples_of(target, n, 1), {},
                                        global_batch, samples_of(executor_.output_diff(), n, 1));
    exact_loss_.add(share);
    loss += share;
  }
  return loss;
}

void TrainingStep::clip_gradient() {
  double squares = 0;
  if (rules_.reproducible) {
    // Squares are kept by tensor, because the groups of tensors depend on the mesh.
    squares_of_.assign(parameters_.placements(), 0.0);
    for (const HolderGroup& group : parameters_.groups())
      for (const ParameterRange& range : group.trained())
        if (parameters_.counts(group))
          squares_of_[range.placement] = squares_.of(parameters_.diffs().subspan(
              static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.volume)));
    part_sums_.sum(squares_of_);
    for (const double of_one : squares_of_) squares += of_one;
    return clip_gradient(squares);
  }
  for (const HolderGroup& group : parameters_.groups())
    if (parameters_.counts(group))
      squares += squares_.of(
          parameters_.diffs().subspan(static_cast<std::size_t>(group.trained_offset()),
                                      static_cast<std::size_t>(group.trained_volume())));
  part_sums_.sum(std::span(&squares, 1));
  clip_gradient(squares);
}

void TrainingStep::clip_gradient(double squares) {
  gradient_norm_ = std::sqrt(squares);
  if (!(gradient_norm_ > rules_.clip_norm)) return;
  scale_values(parameters_.diffs().data(), static_cast<float>(rules_.clip_norm / gradient_norm_),
               parameters_.size());
}

}  // namespace halomesh
