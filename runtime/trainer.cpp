// The training loop: see trainer.hpp.
#include "runtime/trainer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "error.hpp"
#include "narrow.hpp"

namespace halomesh {
namespace {

SampleOrder make_order(const TrainerOptions& options, const ProcessMesh& mesh,
                       const Dataset& dataset) {
  return {options.shuffle, options.seed, dataset.size(), mesh.shape().replicas,
          local_batch(options.global_batch, mesh.shape())};
}

bool is_first_node(const Comm& world, const Comm& node) {
  return node.max(std::int64_t{world.rank() == 0 ? 1 : 0}) == 1;
}

}  // namespace

Trainer::Trainer(const ProcessMesh& mesh, Model& model, const ModelGeometry& geometry,
                 Parameters& parameters, const Dataset& train, const Dataset* validation,
                 TrainerOptions options, Trace* trace)
    : mesh_(mesh),
      geometry_(geometry),
      parameters_(parameters),
      options_(std::move(options)),
      order_(make_order(options_, mesh, train)),
      validation_order_(validation == nullptr ? SampleOrder{}
                                              : make_order(options_, mesh, *validation)),
      schedule_(options_.schedule, std::max<std::int64_t>(1, order_.training_steps())),
      trace_(trace),
      training_(mesh, model, geometry, parameters, order_.local_batch, trace, options_.reduction),
      input_(
          mesh, geometry, model.input_type(), !executor().output().span.empty(), {&train, order_},
          {options_.evaluate_every > 0 ? validation : nullptr, validation_order_}, options_.stage),
      mllog_(options_.mllog != nullptr ? *options_.mllog : no_mllog_),
      node_(mesh.world().split_by_node()),
      stop_answered_(node_),
      // Only the node of world rank 0 speaks; any of its ranks, as any of them may have died.
      signals_(is_first_node(mesh.world(), node_) ? stop_answered_.get() : nullptr),
      wall_limit_(options_.started_s > 0 ? options_.started_s : MPI_Wtime(),
                  options_.wall_limit_s) {
  validate(options_.sgd);
  if (options_.augment) draw_.emplace(options_.seed, train.shape());
  if (order_.training_steps() == 0)
    throw UsageError(cat("the ", train.size(), " training samples of ", train.directory().string(),
                         " do not fill one batch of ", options_.global_batch),
                     "use a smaller --batch or more samples");
  require(options_.evaluate_every == 0 || validation != nullptr,
          "validation is asked for without a validation set");
}

void Trainer::resume(const TrainingState& state) {
  const TrainingState mine = current_state();
  std::string differences;
  if (state.seed != mine.seed)
    differences += cat(" --seed ", state.seed, " instead of ", mine.seed, ';');
  for (const auto& [name, value] : mine.run)
    if (const auto its = state.run.find(name); its == state.run.end() || its->second != value)
      differences += cat(" --", name, ' ', its == state.run.end() ? "(none)" : its->second,
                         " instead of ", value, ';');
  require(differences.empty(), cat("the checkpoint belongs to another curve:", differences),
          "give the same options and data to go on, start anew from its parameters with "
          "--init-from FILE, or take another --out");
  step_ = saved_step_ = state.step;
}

TrainingState Trainer::current_state() const {
  TrainingState state;
  state.step = step_;
  state.epoch = step_ / steps_per_epoch();
  state.samples_into_epoch = step_ % steps_per_epoch() * options_.global_batch;
  state.seed = options_.seed;
  state.model = options_.model;
  state.run = {{"batch", std::to_string(options_.global_batch)},
               {"shuffle", options_.shuffle == Shuffle::kLocal
                               ? cat("local of ", order_.replicas, " replicas")
                               : "global"},
               {"augment", options_.augment ? "on" : "off"},
               {"training-samples", std::to_string(order_.samples)}};
  state.written_by = options_.program;
  return state;
}

bool Trainer::checkpoint_due() const {
  return options_.checkpoint_every > 0 && step_ % options_.checkpoint_every == 0;
}

bool Trainer::limit_reached() const {
  return (options_.steps > 0 && step_ >= options_.steps) ||
         (options_.epochs > 0 && step_ >= options_.epochs * steps_per_epoch());
}

bool Trainer::evaluation_due() const {
  if (options_.evaluate_every == 0 || step_ == 0) return false;
  const bool epoch_ends = step_ % steps_per_epoch() == 0;
  return limit_reached() ||
         (epoch_ends && step_ / steps_per_epoch() % options_.evaluate_every == 0);
}

bool Trainer::target_reached() const {
  return options_.target_mae > 0 && evaluated_step_ == step_ &&
         result_.last_evaluation->mae <= options_.target_mae;
}

void Trainer::append_epochs() {
  // The epoch after the current one is added as well, so that its first batch is read in time.
  const std::int64_t per_epoch = steps_per_epoch(), current = step_ / per_epoch;
  appended_epochs_ = std::max(appended_epochs_, current);
  for (; appended_epochs_ <= current + 1; ++appended_epochs_) {
    const bool wanted = options_.epochs == 0 || appended_epochs_ < options_.epochs;
    if (!wanted) break;
    const std::int64_t first = appended_epochs_ == current ? step_ % per_epoch : 0;
    input_.training().append(order_.training(appended_epochs_, first, draw_ ? &*draw_ : nullptr));
  }
}

Trainer::StepSums Trainer::train_step() {
  const auto rate = static_cast<float>(schedule_.rate(step_));
  std::array<double, 2> sums{};
  sums[0] = training_.run(input_.training(), {options_.seed, step_, options_.sgd, rate});
  ++step_;
  // Any rank may have been told to stop, or see its own clock run out: one sum tells all of them.
  sums[1] = must_stop() ? 1.0 : 0.0;
  mesh_.world().sum(sums);
  return {sums[0], sums[1] > 0};
}

bool Trainer::must_stop() const {
  if (signals_.requested()) return true;
  const std::int64_t batches = evaluation_due() ? validation_order_.validation_steps() : 0;
  return wall_limit_.reached(MPI_Wtime(), static_cast<double>(batches));
}

void Trainer::after_step(const StepSums& sums, double seconds) {
  if (!std::isfinite(sums.loss))
    throw Error(cat("the loss of step ", step_, " is ", sums.loss, " with learning rate ",
                    schedule_.rate(step_ - 1)),
                "lower --lr, or lengthen the warm-up; the last checkpoint is from before");
  if (run_steps_++ == 0) result_.first_loss = sums.loss;
  recent_loss_ = run_steps_ == 1 ? sums.loss : 0.9 * recent_loss_ + 0.1 * sums.loss;
  training_s_ += seconds;
  wall_limit_.step_took(seconds);
  const std::int64_t epoch = (step_ - 1) / steps_per_epoch();
  metrics_.step({step_, epoch, sums.loss, schedule_.rate(step_ - 1), seconds});
  progress_.update(step_, cat("epoch ", epoch + 1, "  loss ", recent_loss_));
}

void Trainer::evaluate_now(std::int64_t epoch) {
  const TraceScope scope(trace_, "evaluation", "");
  mllog_.eval_start(epoch);
  const Evaluation evaluation =
      evaluate(mesh_, training_.executor(), input_.validation(), validation_order_);
  mllog_.eval_stop(epoch);
  if (step_ > 0 && step_ % steps_per_epoch() == 0) mllog_.epoch_stop(epoch);
  mllog_.eval_error(epoch, evaluation.mae);
  wall_limit_.evaluation_took(evaluation.seconds);
  metrics_.evaluation(
      {epoch, evaluation.mae, evaluation.loss, evaluation.samples, evaluation.seconds});
  progress_.message(cat("epoch ", epoch + 1, ", step ", step_, ": validation MAE ", evaluation.mae,
                        ", loss ", evaluation.loss, " (", evaluation.samples, " samples, ",
                        evaluation.seconds, " s)"));
  if (!result_.first_evaluation) result_.first_evaluation = evaluation;
  result_.last_evaluation = evaluation;
  evaluated_step_ = step_;
}

void Trainer::save() {
  if (saved_step_ == step_) return;
  const TraceScope scope(trace_, "checkpoint", "");
  const double begin = MPI_Wtime();
  save_checkpoint(mesh_, geometry_, parameters_, current_state(), options_.out / "checkpoints",
                  narrow<int>(options_.keep));
  wall_limit_.checkpoint_took(MPI_Wtime() - begin);
  saved_step_ = step_;
}

bool Trainer::train_epoch() {
  append_epochs();
  mllog_.epoch_start(step_ / steps_per_epoch());
  const std::int64_t end = (step_ / steps_per_epoch() + 1) * steps_per_epoch();
  while (step_ < end && !limit_reached()) {
    const double begin = MPI_Wtime();
    const StepSums sums = train_step();
    after_step(sums, MPI_Wtime() - begin);
    if (sums.stop) return false;
    if (step_ < end && checkpoint_due()) save();
  }
  return true;
}

void Trainer::finish_epoch() {
  const std::int64_t epoch = (step_ - 1) / steps_per_epoch();
  if (evaluation_due() && evaluated_step_ != step_) evaluate_now(epoch);
  if (step_ % steps_per_epoch() == 0) mllog_.epoch_stop(epoch);
  // After the evaluation, so that a run killed in between repeats it when it goes on.
  if (options_.checkpoint_every == 0 || checkpoint_due()) save();
}

void Trainer::open_logs() {
  const bool speaks = mesh_.world().rank() == 0;
  if (speaks) metrics_ = MetricsLog(options_.out / "metrics.jsonl", step_);
  const std::optional<EvaluationRecord>& before = metrics_.evaluation_before();
  std::array<double, 5> known{};
  if (before)
    known = {1, before->mae, before->loss, static_cast<double>(before->samples), before->seconds};
  mesh_.world().sum(known);  // of rank 0 alone
  if (known[0] > 0) {
    result_.last_evaluation =
        Evaluation{known[2], known[1], static_cast<std::int64_t>(known[3]), known[4]};
    result_.first_evaluation = result_.last_evaluation;
    evaluated_step_ = step_;
    wall_limit_.evaluation_took(known[4]);
  }
  const bool closed = !evaluation_due() || evaluated_step_ == step_;
  mllog_.open(options_.out / "mllog.txt",
              {step_, step_ / steps_per_epoch(), step_ % steps_per_epoch() > 0, closed,
               closed && (limit_reached() || target_reached())});
}

TrainingResult Trainer::run() {
  open_logs();
  const std::int64_t by_epochs = options_.epochs * steps_per_epoch();
  const std::int64_t last = options_.steps == 0 ? by_epochs
                            : by_epochs == 0    ? options_.steps
                                                : std::min(options_.steps, by_epochs);
  progress_ = Progress("training", "steps", last, mesh_.world().rank() == 0, step_);
  // What is done already needs no input.
  const bool works =
      (!limit_reached() && !target_reached()) || (evaluation_due() && evaluated_step_ != step_);
  const bool stages = works && options_.stage.has_value();
  if (stages) mllog_.staging_start();
  const bool ready = !works || input_.open([this] { return must_stop(); }, metrics_);
  if (stages) mllog_.staging_stop();
  if (!ready) result_.end = TrainingEnd::kStopped;
  if (ready && options_.evaluate_every > 0 && options_.evaluate_first && step_ == 0)
    evaluate_now(-1);
  // A run may have been stopped at an epoch's end, before its validation.
  if (ready && step_ > 0) finish_epoch();
  while (ready && !limit_reached() && !target_reached()) {
    // Told to stop, but there may be nothing left to be done.
    if (!train_epoch() && (!limit_reached() || evaluation_due())) {
      result_.end = TrainingEnd::kStopped;
      break;
    }
    finish_epoch();
  }
  if (target_reached()) result_.end = TrainingEnd::kTargetReached;
  if (result_.end != TrainingEnd::kStopped) mllog_.run_stop(target_reached());
  save();
  progress_.finish();
  result_.steps = step_;
  result_.epochs = step_ / steps_per_epoch();
  result_.last_loss = recent_loss_;
  if (training_s_ > 0)
    result_.samples_per_s = static_cast<double>(run_steps_ * options_.global_batch) / training_s_;
  if (training_s_ > 0) result_.input_wait = input_.training().input_wait_seconds() / training_s_;
  return result_;
}

}  // namespace halomesh
