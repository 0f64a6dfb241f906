// SPDX-License-Identifier: Apache-2.0
// The training loop: see trainer.hpp.
#include "runtime/train/trainer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <span>
#include <utility>

#include "counted.hpp"
#include "error.hpp"
#include "joined.hpp"
#include "narrow.hpp"
#include "partition/samples/crops.hpp"
#include "partition/samples/passes.hpp"
#include "runtime/train/window_evaluator.hpp"
#include "src/nn/optimizers/registry.hpp"

namespace halomesh {
namespace {

/// Throws Error unless `loss` can judge the data set's targets.
void check_targets(const Dataset& data, const Loss& loss, bool cropped) {
  const bool fits = cropped || data.target_shape() == loss.target_shape();
  require(fits && data.target_type() == loss.target_type(),
          text("{} has targets {} of {}, the loss needs {} of {}", data.directory().c_str(),
               data.target_shape(), name_of(data.target_type()), loss.target_shape(),
               name_of(loss.target_type())),
          "use data whose targets fit the network's output");
}

bool is_first_node(const Comm& world, const Comm& node) {
  return node.max(std::int64_t{world.rank() == 0 ? 1 : 0}) == 1;
}

}  // namespace

Trainer::Trainer(const ProcessMesh& mesh, Model& model, const ModelGeometry& geometry,
                 Parameters& parameters, Loss& loss, const Dataset& train,
                 const Dataset* validation, TrainerOptions options)
    : mesh_(mesh),
      geometry_(geometry),
      parameters_(parameters),
      loss_(loss),
      options_(std::move(options)),
      order_(sample_order(options_, mesh.shape(), train, 1)),
      pass_order_(sample_order(options_, mesh.shape(), train, options_.accumulate)),
      validation_order_(validation == nullptr ? SampleOrder{}
                                              : sample_order(options_, mesh.shape(), *validation,
                                                             options_.accumulate)),
      schedule_(options_.schedule, std::max<std::int64_t>(1, order_.training_steps())),
      optimizer_(make_optimizer(options_.optimizer)),
      phases_(mesh, geometry, options_.global_batch),
      training_(mesh, model, geometry, parameters, *optimizer_, loss, pass_order_.local_batch,
                phases_.trace(), options_.reduction, gradient_rules(options_)),
      train_(train),
      validation_(options_.evaluate_every > 0 ? validation : nullptr),
      input_(mesh, geometry, model.input_type(), loss.target_box(executor().output().span),
             {&train, pass_order_, options_.crops ? &*options_.crops : nullptr},
             {validation_, validation_order_, options_.crops ? &*options_.crops : nullptr},
             options_.stage),
      mllog_(options_.mllog != nullptr ? *options_.mllog : no_mllog_),
      stop_answered_(mesh.node()),
      // Only the node of world rank 0 prints; any of its ranks may, because another may have died.
      signals_(is_first_node(mesh.world(), mesh.node()) ? stop_answered_.get() : nullptr,
               "writing a checkpoint after this step, unless the launcher ends the ranks first, as "
               "it does when one has died\n  hint: give the same command again to resume from the "
               "last checkpoint"),
      wall_limit_(options_.started_s > 0 ? options_.started_s : MPI_Wtime(),
                  options_.wall_limit_s) {
  require(parameters.state_names() == states_of(options_),
          "the parameters were made for another optimizer than " + options_.optimizer.name);
  for (const Dataset* data : {&train, validation})
    if (data != nullptr) check_targets(*data, loss, options_.crops.has_value());
  if (input_.pads()) loss.expect_padding();
  if (options_.timeline != nullptr) phases_.trace()->send_to(&options_.timeline->recorder());
  if (options_.augment)
    draw_.emplace(options_.seed,
                  options_.symmetries.empty() ? symmetries_of(model.input()) : options_.symmetries);
  if (order_.training_steps() == 0)
    throw UsageError(fmt::format("the {} training samples of {} do not fill one batch of {}",
                                 train.size(), train.directory().c_str(), options_.global_batch),
                     "use a smaller --batch or more samples");
  if (!options_.skips.empty()) first_trained_layer(geometry, options_.skips.back().layers);
  require(options_.evaluate_every == 0 || validation != nullptr,
          "validation was requested, but there is no validation set");
}

std::vector<std::string> Trainer::resume(const TrainingState& state) {
  std::vector<std::string> warnings =
      check_resumption(state, current_state(), options_.rules, options_.allow_changes);
  step_ = saved_step_ = state.step;
  training_.reducer().clear_copied_residuals();
  return warnings;
}

TrainingState Trainer::current_state() const {
  TrainingState state;
  state.step = step_;
  state.epoch = step_ / steps_per_epoch();
  state.samples_into_epoch = step_ % steps_per_epoch() * options_.global_batch;
  state.seed = options_.seed;
  state.model = options_.model;
  state.run = options_.run;
  state.run.try_emplace("optimizer", options_.optimizer.name);  // the owner of the states
  state.run["training-samples"] = fmt::format("{}", order_.samples);
  if (options_.shuffle == Shuffle::kLocal)
    state.run["shuffle"] = fmt::format("local of {} replicas", order_.replicas);
  state.written_by = options_.program;
  return state;
}

bool Trainer::checkpoint_due() const {
  return options_.checkpoint_every > 0 && step_ % options_.checkpoint_every == 0;
}

std::int64_t Trainer::last_step() const {
  const std::int64_t by_epochs = options_.epochs * steps_per_epoch();
  if (options_.steps == 0 || by_epochs == 0) return std::max(options_.steps, by_epochs);
  return std::min(options_.steps, by_epochs);
}

bool Trainer::limit_reached() const { return last_step() > 0 && step_ >= last_step(); }

bool Trainer::evaluation_due() const {
  if (options_.evaluate_every == 0 || step_ == 0) return false;
  const bool epoch_ends = step_ % steps_per_epoch() == 0;
  return limit_reached() ||
         (epoch_ends && step_ / steps_per_epoch() % options_.evaluate_every == 0);
}

bool Trainer::target_reached() const {
  return evaluated_step_ == step_ && last_record_.reaches(options_.target_score);
}

void Trainer::append_epochs() {
  // The epoch after the current one is added as well, so that its first batch is read in time.
  const std::int64_t per_epoch = steps_per_epoch(), current = step_ / per_epoch;
  appended_epochs_ = std::max(appended_epochs_, current);
  for (; appended_epochs_ <= current + 1; ++appended_epochs_) {
    const bool wanted = options_.epochs == 0 || appended_epochs_ < options_.epochs;
    if (!wanted) break;
    const std::int64_t first = appended_epochs_ == current ? step_ % per_epoch : 0;
    BatchSchedule steps = order_.training(appended_epochs_, first, draw_ ? &*draw_ : nullptr);
    place_crops(appended_epochs_, steps);
    input_.training().append(in_passes(steps, options_.accumulate));
  }
}

void Trainer::place_crops(std::int64_t epoch, BatchSchedule& steps) const {
  if (!options_.crops || !options_.crops->random) return;
  const CropDraw draw(options_.seed, geometry_.tensors().front().shape.spatial(),
                      options_.crops->foreground);
  const std::vector<Foreground>& foreground = input_.foreground();
  for (SampleUse& use : steps.uses) {
    const Spatial extents = train_.shape_of(use.sample).spatial();
    use.origin = foreground.empty() ? draw(epoch, use.sample, extents)
                                    : draw(epoch, use.sample, extents,
                                           foreground[static_cast<std::size_t>(use.sample)]);
  }
}

Trainer::StepSums Trainer::train_step() {
  const TraceScope whole(phases_.trace(), Phase::kStep);
  const auto rate = static_cast<float>(schedule_.rate(step_));
  std::array<double, 4> sums{};
  sums[0] = training_.run(input_.training(), {options_.seed, step_, rate});
  ++step_;
  // Any rank may have been told to stop or have reached its wall limit; one sum informs all ranks.
  sums[1] = must_stop() ? 1.0 : 0.0;
  sums[2] = signals_.take_report_request() ? 1.0 : 0.0;
  const TraceScope scope(phases_.trace(), Phase::kReductionWait, "loss");
  if (options_.reproducible) {
    sums[0] = training_.exact_loss().high;
    sums[3] = training_.exact_loss().low;
  }
  mesh_.world().sum(std::span(sums).first(options_.reproducible ? 4 : 3));
  return {sums[0] + sums[3], sums[1] > 0, sums[2] > 0};
}

bool Trainer::must_stop() const {
  if (signals_.requested()) return true;
  const std::int64_t batches = evaluation_due() ? validation_order_.validation_steps() : 0;
  return wall_limit_.reached(MPI_Wtime(), static_cast<double>(batches));
}

/// Prints the outcome of a trace on rank 0.
void Trainer::tell(const std::optional<TraceReport>& trace) {
  if (!trace) return;
  progress_.message(trace->summary);
  for (const std::string& warning : trace->warnings) progress_.message("WARNING: " + warning);
}

void Trainer::after_step(const StepSums& sums, double seconds) {
  if (!std::isfinite(sums.loss)) {
    result_.divergence = fmt::format("the loss of step {} is {:g} with learning rate {:g}", step_,
                                     sums.loss, schedule_.rate(step_ - 1));
    return;
  }
  if (run_steps_++ == 0) result_.first_loss = sums.loss;
  recent_loss_ = run_steps_ == 1 ? sums.loss : 0.9 * recent_loss_ + 0.1 * sums.loss;
  training_s_ += seconds;
  wall_limit_.step_took(seconds);
  const std::int64_t epoch = (step_ - 1) / steps_per_epoch();
  metrics_.step({step_, epoch, sums.loss, schedule_.rate(step_ - 1), seconds});
  if (step_ % steps_per_epoch() == 0)
    mllog_.trained(epoch, step_, schedule_.rate(step_ - 1), sums.loss);
  progress_.update(step_, fmt::format("epoch {}  loss {:g}", epoch + 1, recent_loss_));
}

Evaluation Trainer::evaluation() {
  const auto must_stop = [this] { return signals_.requested(); };
  if (!options_.crops || !options_.crops->random)
    return evaluate(mesh_, training_.executor(), input_.validation(), loss_, validation_order_, {},
                    must_stop, options_.reproducible);
  return evaluate_windows(mesh_, training_.executor(), geometry_.tensors().back().owned,
                          options_.make_loss,
                          {.data = validation_,
                           .staged = input_.validation_volumes(),
                           .window = geometry_.tensors().front().shape.spatial(),
                           .placement = {.overlap = options_.crops->overlap,
                                         .may_pad = options_.crops->padding.has_value()},
                           .padding = options_.crops->padding.value_or(0),
                           .local_batch = validation_order_.local_batch,
                           .type = validation_->format().type()},
                          {}, must_stop);
}

bool Trainer::evaluate_now(std::int64_t epoch) {
  const TraceScope scope(phases_.trace(), Phase::kEvaluation);
  mllog_.eval_start(epoch);
  const Evaluation evaluation = this->evaluation();
  if (evaluation.stopped) return false;
  last_record_ = {epoch,
                  evaluation.score,
                  evaluation.loss,
                  evaluation.samples,
                  evaluation.seconds,
                  evaluation.kind,
                  evaluation.is_empty()};
  mllog_.eval_stop({epoch, step_, evaluation.kind, evaluation.score, evaluation.loss,
                    last_record_.empty ? 0 : options_.target_score,
                    step_ > 0 && step_ % steps_per_epoch() == 0});
  wall_limit_.evaluation_took(evaluation.seconds);
  metrics_.evaluation(last_record_, evaluation.classes, evaluation.labels);
  progress_.message(fmt::format(
      "epoch {}, step {}: validation {} {:g}{}, loss {:g} ({}, {:g} s)", epoch + 1, step_,
      title_of(evaluation.kind), evaluation.score,
      evaluation.labels ? fmt::format(", AUC {:g}", evaluation.labels->auc) : std::string(),
      evaluation.loss, counted(evaluation.samples, "sample"), evaluation.seconds));
  if (options_.after_validation) options_.after_validation(evaluation);
  if (!result_.first_evaluation) result_.first_evaluation = evaluation;
  result_.last_evaluation = evaluation;
  evaluated_step_ = step_;
  if (!std::isfinite(evaluation.loss))
    result_.divergence =
        fmt::format("the validation loss after step {} is {:g}", step_, evaluation.loss);
  return true;
}

void Trainer::save() {
  if (saved_step_ == step_) return;
  const TraceScope scope(phases_.trace(), Phase::kCheckpoint);
  if (options_.lock != nullptr) options_.lock->require_held();
  const double begin = MPI_Wtime();
  training_.reducer().gather_residuals();
  save_checkpoint(mesh_, geometry_, parameters_, current_state(), options_.out / "checkpoints",
                  narrow<int>(options_.keep));
  wall_limit_.checkpoint_took(MPI_Wtime() - begin);
  saved_step_ = step_;
}

StepCounts Trainer::counts() {
  StepCounts counts = training_.counts();
  counts.input = input_.training().reads();
  counts.input_wait_s = input_.training().input_wait_seconds();
  return counts;
}

// Logs phases before the epoch's evaluation, so that the line follows the last of its steps.
void Trainer::log_phases() {
  phases_.note(counts());
  if (phases_.steps() == 0) return;
  metrics_.phases(phases_.take((step_ - 1) / steps_per_epoch(), step_));
  if (phases_.layers_due()) log_layers();
}

void Trainer::log_layers() {
  if (phases_.steps_of_layers() == 0) return;
  metrics_.layers(phases_.take_layers((step_ - 1) / steps_per_epoch(), step_));
}

void Trainer::report_phases() {
  phases_.note(counts());
  const std::string table = phases_.table();
  if (mesh_.world().rank() != 0) return;
  progress_.finish();
  std::cout << "SIGUSR1 received: the steps of this run up to step " << step_ << '\n'
            << table << std::flush;
}

// Freezes the layers that the epoch of the next step skips.
void Trainer::skip_gradients() {
  const std::int64_t layers = skipped_layers(options_.skips, step_ / steps_per_epoch());
  if (layers == skipped_layers_) return;
  const auto bytes = [&] {
    std::int64_t sum = 0;
    for (const GradientReducer::Sum& each : training_.reducer().sums()) sum += each.bytes;
    return mesh_.world().sum(sum);
  };
  const std::int64_t before = bytes();
  const std::size_t first = first_trained_layer(geometry_, layers);
  training_.train_from(first);
  skipped_layers_ = layers;
  progress_.message(fmt::format(
      "epoch {}: gradients below {} are skipped{}", step_ / steps_per_epoch() + 1,
      geometry_.layers()[first].name,
      before == 0
          ? ""
          : fmt::format("; per step, the sums of gradients on all ranks now "
                        "take {:.4g} MB instead of {:.4g} MB",
                        static_cast<double>(bytes()) * 1e-6, static_cast<double>(before) * 1e-6)));
}

// Looks for classes that no voxel of the epoch that has just ended is labelled with.
void Trainer::find_absent_classes() {
  const auto learned = loss_.learned_classes();
  if (std::exchange(looked_for_classes_, true) || learned.empty()) return;
  std::vector<double> parts(learned.begin(), learned.end());
  mesh_.world().sum(parts);
  std::vector<std::size_t> absent;
  for (std::size_t c = 0; c < parts.size(); ++c)
    if (parts[c] == 0) absent.push_back(c);
  if (!absent.empty() && options_.without_classes)
    options_.without_classes((step_ - 1) / steps_per_epoch(), absent);
}

bool Trainer::train_epoch() {
  append_epochs();
  skip_gradients();
  phases_.resume(counts());
  mllog_.epoch_start(step_ / steps_per_epoch(), step_);
  const std::int64_t first = step_, end = (step_ / steps_per_epoch() + 1) * steps_per_epoch();
  bool stopped = false;
  while (!stopped && step_ < end && !limit_reached()) {
    phases_.trace()->clear();
    if (options_.timeline != nullptr) options_.timeline->before_step(step_ + 1);
    const double begin = MPI_Wtime();
    const StepSums sums = train_step();
    phases_.end_step();
    after_step(sums, MPI_Wtime() - begin);
    if (options_.timeline != nullptr) tell(options_.timeline->after_step());
    if (sums.report) report_phases();
    stopped = sums.stop || diverged();
    if (!stopped && step_ < end && checkpoint_due()) save();
  }
  log_phases();
  if (step_ - first == steps_per_epoch() && !diverged()) find_absent_classes();
  return !stopped;
}

bool Trainer::finish_epoch() {
  const std::int64_t epoch = (step_ - 1) / steps_per_epoch();
  if (evaluation_pending() && !evaluate_now(epoch)) return false;
  if (diverged()) return false;
  if (step_ % steps_per_epoch() == 0) mllog_.epoch_stop(epoch, step_);
  // The checkpoint follows the evaluation, so that a run killed in between repeats the evaluation
  // when it resumes.
  if (options_.checkpoint_every == 0 || checkpoint_due()) save();
  return true;
}

void Trainer::open_logs() {
  const Comm& world = mesh_.world();
  if (world.rank() == 0) metrics_ = MetricsLog(options_.out / "metrics.jsonl", step_);
  // Only rank 0 has read the evaluations of an earlier run.
  const bool evaluated = world.max(std::int64_t{metrics_.evaluation_before().has_value()}) > 0;
  if (evaluated) {
    EvaluationRecord before = metrics_.evaluation_before().value_or(EvaluationRecord{});
    world.broadcast(std::as_writable_bytes(std::span(&before, 1)), 0);
    result_.last_evaluation = Evaluation{
        before.loss, before.score, before.samples, before.seconds, false, {}, {}, before.kind};
    result_.first_evaluation = result_.last_evaluation;
    evaluated_step_ = step_;
    last_record_ = before;
    wall_limit_.evaluation_took(before.seconds);
  }
  const bool closed = !evaluation_pending();
  mllog_.open(options_.out / "mllog.txt",
              {step_, step_ / steps_per_epoch(), step_ % steps_per_epoch() > 0, closed,
               closed && finished()});
  for (const std::string* warning : {&metrics_.warning(), &mllog_.warning()})
    if (!warning->empty()) std::cerr << "WARNING: " << *warning << std::endl;
}

bool Trainer::open_input() {
  if (options_.staged != nullptr) {
    input_.open_staged(std::move(*options_.staged));
    return true;
  }
  if (options_.stage) mllog_.staging_start();
  Progress progress("staging", "samples", input_.samples_to_stage(),
                    options_.stage && mesh_.world().rank() == 0);
  const std::int64_t begin_ns = Trace::now_ns();
  const bool ready = input_.open([this] { return must_stop(); },
                                 [&](std::int64_t done) { progress.update(done); });
  progress.finish();
  if (options_.timeline != nullptr) {
    if (options_.stage) options_.timeline->recorder().job("staging", begin_ns, Trace::now_ns());
    if (ready) input_.training().record_in(&options_.timeline->recorder());
  }
  if (options_.stage) mllog_.staging_stop();
  const StageRecord* const record = input_.stage_record();
  if (!ready || record == nullptr) return ready;
  metrics_.stage(*record);
  progress.message(to_text(*record, options_.stage->directory));
  return true;
}

TrainingEnd Trainer::train_to_end() {
  const bool nothing_left = finished() && !evaluation_pending();
  if (!nothing_left && !open_input()) return TrainingEnd::kStopped;
  const bool evaluates_first = options_.evaluate_every > 0 && options_.evaluate_first && step_ == 0;
  if (evaluates_first && !evaluate_now(-1)) return TrainingEnd::kStopped;
  // An earlier run may have stopped at an epoch's end, before its validation.
  if (step_ > 0 && !finish_epoch())
    return diverged() ? TrainingEnd::kDiverged : TrainingEnd::kStopped;
  while (!finished()) {
    // A run that is told to stop after its last step is complete anyway.
    const bool stopped = !train_epoch() && (!limit_reached() || evaluation_due());
    const bool complete = !diverged() && !stopped && finish_epoch();
    if (diverged()) return TrainingEnd::kDiverged;
    if (!complete) return TrainingEnd::kStopped;
  }
  return target_reached() ? TrainingEnd::kTargetReached : TrainingEnd::kDone;
}

TrainingResult Trainer::run() {
  open_logs();
  progress_ = Progress("training", "steps", last_step(), mesh_.world().rank() == 0, step_);
  result_.end = train_to_end();
  log_layers();
  if (result_.end != TrainingEnd::kDiverged) {
    if (result_.end != TrainingEnd::kStopped) mllog_.run_stop(target_reached());
    save();
  }
  if (options_.timeline != nullptr) tell(options_.timeline->finish());
  progress_.finish();
  result_.steps = step_;
  result_.epochs = step_ / steps_per_epoch();
  result_.last_loss = recent_loss_;
  result_.phases = phases_.table();
  if (training_s_ > 0) {
    result_.samples_per_s = static_cast<double>(run_steps_ * options_.global_batch) / training_s_;
    result_.input_wait = input_.training().input_wait_seconds() / training_s_;
  }
  return result_;
}

}  // namespace halomesh
