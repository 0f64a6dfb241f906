// SPDX-License-Identifier: Apache-2.0
// One step of training: see training_step.hpp.
#include "runtime/step/training_step.hpp"

#include <cmath>
#include <functional>
#include <span>

#include "runtime/step/evaluator.hpp"
#include "src/nn/add.hpp"
#include "src/nn/loss.hpp"

namespace halomesh {
namespace {

/// Throws where the network or the batch, `samples` in a pass, are not what the rules need.
const GradientRules& checked(const GradientRules& rules, const Model& model,
                             const ModelGeometry& geometry, std::int64_t samples) {
  if (!rules.reproducible) return rules;
  const std::int64_t batch = rules.passes * samples;
  for (std::size_t l = 0; l < model.layers().size(); ++l) {
    const ModelLayer& entry = model.layers()[l];
    require(entry.layer->sums_exactly(), text("layer {} has no reproducible kernels", entry.name),
            "train this network without --reproducible");
    const Spatial cells = entry.layer->gradient_cells(geometry.layers()[l].src_shapes);
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

}  // namespace

TrainingStep::TrainingStep(const ProcessMesh& mesh, Model& model, const ModelGeometry& geometry,
                           Parameters& parameters, Optimizer& optimizer, std::int64_t local_batch,
                           Trace* trace, Reduction reduction, const GradientRules& rules)
    : mesh_(mesh),
      parameters_(rules.reproducible ? parameters.keep_exact_sums() : parameters),
      optimizer_(optimizer),
      local_batch_(local_batch),
      rules_(checked(rules, model, geometry, local_batch * mesh.shape().replicas)),
      trace_(trace),
      replica_sums_(mesh, model, local_batch, rules.passes),
      executor_(mesh.group(), model, geometry, parameters, local_batch, true, trace),
      reducer_(mesh, geometry, parameters, rules.reproducible ? Reduction::kFlat : reduction, trace,
               4 << 20, rules.payload),
      part_sums_(mesh.group()),
      sum_([this](std::span<double> values) { part_sums_.sum(values); }) {}

double TrainingStep::run(Loader& loader, const StepSettings& settings) {
  executor_.load_parameters();  // needs no input: overlaps with reading it
  exact_loss_ = {};
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
  const std::function<void()> poll = [this, &loader] {  // small enough not to allocate memory
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
  double loss = 0;
  if (const Box& out = executor_.output().span; !out.empty()) {
    const TraceScope scope(trace_, Phase::kLoss);
    const ErrorSums errors = loss_gradient(LossKind::kMeanSquaredError, executor_.output(),
                                           target_view(*batch, out.extent(kC), local_batch_),
                                           local_batch_, global_batch, executor_.output_diff());
    const auto terms = static_cast<double>(global_batch * out.extent(kC));
    loss = errors.squared / terms;
    for (std::int64_t n = 0; rules_.reproducible && n < local_batch_; ++n) {
      const auto sample = [&](ConstView view) {
        return ConstView{view.data + n * view.sample_volume(), view.span, 1};
      };
      const ConstView target = target_view(*batch, out.extent(kC), local_batch_);
      exact_loss_.add(error_sums(sample(executor_.output()), sample(target), 1).squared / terms);
    }
  }
  executor_.backward(pass, input, reducer_);
  return loss;
}

void TrainingStep::clip_gradient() {
  double squares = 0;
  if (rules_.reproducible) {
    // Tensor by tensor: which of them lie in one group depends on the mesh.
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
