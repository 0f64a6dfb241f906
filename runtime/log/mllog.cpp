// SPDX-License-Identifier: Apache-2.0
// mllog.txt: see mllog.hpp.
#include "runtime/log/mllog.hpp"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "error.hpp"
#include "runtime/log/json_bytes.hpp"

namespace halomesh {

/// One line: `value` is JSON; metadata besides file and line only where the event has them.
struct MlperfLog::Event {
  const char *type, *key;
  nlohmann::ordered_json value;
  int lineno;
  std::optional<std::int64_t> epoch{};  ///< from 0
  std::optional<std::int64_t> step{};   ///< done so far; with DeepCAM's keys only
  const char* status = nullptr;
  bool of_each_job = false;
};

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kToken = ":::MLLOG ";
constexpr const char* kStart = "INTERVAL_START";
constexpr const char* kEnd = "INTERVAL_END";
constexpr const char* kPoint = "POINT_IN_TIME";

/// As Python's json.dumps() spells it: a space after each comma and colon.
std::string python_text(const Json& json) {
  if (!json.is_structured()) return dump_json(json);
  std::string text;
  for (const auto& item : json.items()) {
    if (!text.empty()) text += ", ";
    if (json.is_object()) text += Json(item.key()).dump() + ": ";
    text += python_text(item.value());
  }
  return json.is_object() ? '{' + text + '}' : '[' + text + ']';
}

/// The epoch that a line belongs to, as numbered in the file.
std::optional<std::int64_t> epoch_number(const nlohmann::json& line) {
  const auto number = line["metadata"].find("epoch_num");
  if (number == line["metadata"].end() || !number->is_number_integer()) return std::nullopt;
  return number->get<std::int64_t>();
}

/// The JSON of a line of a log; empty if it is not one.
std::optional<nlohmann::json> parse_line(std::string_view line) {
  const std::string_view token = kToken;
  if (!line.starts_with(token)) return std::nullopt;
  auto json = parse_json(line.substr(token.size()));
  if (!json.is_object() || !json.contains("key") || !json["key"].is_string() ||
      !json.contains("metadata") || !json["metadata"].is_object() ||
      epoch_number(json).value_or(0) < 0)
    return std::nullopt;
  return json;
}

/// Whether a run at `point` has passed this line; epochs count from `first`.
bool is_past(const nlohmann::json& line, const MlperfPoint& point, std::int64_t first) {
  if (point.over) return true;
  if (line["key"] == "run_stop") return false;
  const std::optional<std::int64_t> number = epoch_number(line);
  if (!number) return true;
  const std::int64_t epoch = *number - first;
  const bool starts = line["key"] == "epoch_start";
  const bool trained = line["key"] == "learning_rate" || line["key"] == "train_loss";
  if (epoch == point.epoch) return starts && point.inside_epoch;
  if (epoch == point.epoch - 1)
    return starts || trained || point.inside_epoch || point.epoch_closed;
  return epoch < point.epoch;
}

}  // namespace

MlperfVersion parse_mlperf_version(const std::string& text) {
  if (text == "v0.7") return MlperfVersion::kV07;
  if (text == "v1.0") return MlperfVersion::kV10;
  throw UsageError(fmt::format("unknown version '{}' of the MLPerf HPC rules", text),
                   "give v0.7 or v1.0");
}

std::int64_t MlperfLog::SteadyUnixTime::ms() const {
  using std::chrono::duration_cast, std::chrono::milliseconds;
  return first_ms_ + duration_cast<milliseconds>(std::chrono::steady_clock::now() - first_).count();
}

void MlperfLog::add(const Event& event) {
  if (!speaks_) return;
  Json metadata = {{"file", __FILE__}, {"lineno", event.lineno}};
  if (event.epoch) metadata["epoch_num"] = *event.epoch + first_epoch();
  if (event.step && deepcam_) metadata["step_num"] = *event.step;
  if (event.status != nullptr) metadata["status"] = event.status;
  const Json line = {{"namespace", ""},  {"time_ms", clock_.ms()}, {"event_type", event.type},
                     {"key", event.key}, {"value", event.value},   {"metadata", metadata}};
  const std::string text = kToken + python_text(line);
  if (file_.is_open())
    file_.append(text);
  else
    waiting_.push_back({text, event.of_each_job});
}

void MlperfLog::init_start(bool cache_cleared) {
  if (deepcam_) add({kStart, "init_start", nullptr, __LINE__});
  add({kPoint, "cache_clear", cache_cleared, __LINE__});
  if (!deepcam_) add({kStart, "init_start", nullptr, __LINE__});
}

void MlperfLog::machine(const MlperfSubmission& s) {
  add({kPoint, "seed", s.seed, __LINE__});
  add({kPoint, "number_of_ranks", s.ranks, __LINE__});
  add({kPoint, "number_of_nodes", s.nodes, __LINE__});
  add({kPoint, "accelerators_per_node", 0, __LINE__});
}

void MlperfLog::submission(const MlperfSubmission& s) {
  submission_ = s;
  if (version_ == MlperfVersion::kV10 && !deepcam_) machine(s);
  add({kPoint, "submission_benchmark", s.benchmark, __LINE__});
  add({kPoint, "submission_org", s.org, __LINE__});
  add({kPoint, "submission_division", s.division, __LINE__});
  add({kPoint, "submission_status", s.status, __LINE__});
  add({kPoint, "submission_platform", s.platform, __LINE__});
  if (!s.poc_name.empty()) add({kPoint, "submission_poc_name", s.poc_name, __LINE__});
  if (!s.poc_email.empty()) add({kPoint, "submission_poc_email", s.poc_email, __LINE__});
}

void MlperfLog::training(const MlperfTraining& t) {
  if (!deepcam_) return;
  machine(submission_);
  add({kPoint, "global_batch_size", t.global_batch, __LINE__});
  add({kPoint, "batchnorm_group_size", t.batch_norm, __LINE__});
  add({kPoint, "gradient_accumulation_frequency", t.accumulate, __LINE__});
  add({kPoint, "checkpoint", t.checkpoint.empty() ? Json(nullptr) : Json(t.checkpoint), __LINE__});
  add({kPoint, "opt_name", t.optimizer, __LINE__});
  add({kPoint, "opt_lr", t.schedule.peak, __LINE__});
  add({kPoint, "opt_betas", t.settings.betas, __LINE__});
  add({kPoint, "opt_eps", t.settings.epsilon, __LINE__});
  add({kPoint, "opt_weight_decay", t.settings.weight_decay, __LINE__});
  if (t.optimizer == "LAMB") {  // both of these always are so: see optimizers/lamb.hpp
    add({kPoint, "opt_bias_correction", true, __LINE__});
    add({kPoint, "opt_grad_averaging", true, __LINE__});
    add({kPoint, "opt_max_grad_norm", t.clip_norm, __LINE__});
  }
  scheduler(t.schedule);
}

// A constant rate is a multistep schedule without milestones.
void MlperfLog::scheduler(const ScheduleOptions& schedule) {
  using enum ScheduleKind;
  const bool steps = schedule.kind == kMultistep || schedule.kind == kConstant;
  const std::string kind = steps                      ? "multistep"
                           : schedule.kind == kCosine ? "cosine_annealing"
                                                      : to_string(schedule.kind);
  add({kPoint, "scheduler_type", kind, __LINE__});
  if (steps) {
    add({kPoint, "scheduler_milestones",
         schedule.kind == kMultistep ? Json(schedule.milestones) : Json::array(), __LINE__});
    add({kPoint, "scheduler_decay_rate", schedule.kind == kMultistep ? schedule.gamma : 1.0,
         __LINE__});
  } else if (schedule.kind == kCosine) {
    add({kPoint, "scheduler_t_max", schedule.decay_steps, __LINE__});
    add({kPoint, "scheduler_eta_min", schedule.min_lr, __LINE__});
  }
  add({kPoint, "scheduler_lr_warmup_steps", schedule.warmup_steps, __LINE__});
  add({kPoint, "scheduler_lr_warmup_factor", 1.0, __LINE__});
}

void MlperfLog::run_start() {
  add({kEnd, "init_stop", nullptr, __LINE__});
  add({kStart, "run_start", nullptr, __LINE__});
}

void MlperfLog::samples(std::int64_t global_batch, std::int64_t train, std::int64_t evaluation) {
  if (!deepcam_) add({kPoint, "global_batch_size", global_batch, __LINE__});
  add({kPoint, "train_samples", train, __LINE__});
  add({kPoint, "eval_samples", evaluation, __LINE__});
}

void MlperfLog::staging_start() {
  add({kStart, "staging_start", nullptr, __LINE__, {}, {}, nullptr, true});
}
void MlperfLog::staging_stop() {
  add({kEnd, "staging_stop", nullptr, __LINE__, {}, {}, nullptr, true});
}

void MlperfLog::optimizer(const std::string& name, const ScheduleOptions& schedule,
                          double weight_decay, std::optional<double> dropout) {
  if (deepcam_) return;
  const bool warms_up = schedule.warmup_epochs > 0 && schedule.warmup_initial > 0;
  const double factor = warms_up ? schedule.peak / schedule.warmup_initial : 1.0;
  add({kPoint, "opt_name", name, __LINE__});
  add({kPoint, "opt_base_learning_rate", schedule.peak, __LINE__});
  add({kPoint, "opt_learning_rate_warmup_epochs", schedule.warmup_epochs, __LINE__});
  add({kPoint, "opt_learning_rate_warmup_factor", factor, __LINE__});
  if (schedule.kind == ScheduleKind::kConstant || schedule.kind == ScheduleKind::kStep) {
    const bool falls = schedule.kind == ScheduleKind::kStep && !schedule.decay_factors.empty();
    const Json boundaries = falls ? Json(schedule.decay_epochs) : Json::array();
    const double decay =
        falls ? *std::max_element(schedule.decay_factors.begin(), schedule.decay_factors.end())
              : 1.0;
    add({kPoint, "opt_learning_rate_decay_boundary_epochs", boundaries, __LINE__});
    add({kPoint, "opt_learning_rate_decay_factor", decay, __LINE__});
  }
  if (version_ == MlperfVersion::kV07) return;
  add({kPoint, "opt_weight_decay", weight_decay, __LINE__});
  if (dropout) add({kPoint, "dropout", *dropout, __LINE__});
}

/// Keeps the lines of a file that a run at a point has passed, and tells its log what they say.
class MlperfLog::RunFilter : public LineFilter {
 public:
  RunFilter(MlperfLog& log, const MlperfPoint& point, std::filesystem::path path)
      : log_(log), point_(point), path_(std::move(path)) {}

  // The first lines of the file name the rules, and the start of the run.
  void begin(bool are_all) override { are_all_ = are_all; }
  Line take(std::string_view line) override {
    if (!are_all_ || point_.step == 0) return Line::kRemoved;
    ++lines_;
    const auto json = parse_line(line);
    if (!json && ++damaged_ == 1) first_damaged_ = lines_;
    if (!json) return Line::kDamaged;
    const std::string key = (*json)["key"];
    if (key == "number_of_ranks") version_ = MlperfVersion::kV10;
    log_.goes_on_ = log_.goes_on_ || key == "run_start";
    if (!is_past(*json, point_, log_.first_epoch())) return Line::kRemoved;
    if (const auto time = json->find("time_ms"); time != json->end() && time->is_number_integer())
      log_.clock_.not_before(time->get<std::int64_t>());
    if (key == "epoch_start")
      epochs_.insert(log_.open_epoch_.emplace(epoch_number(*json).value_or(-1)));
    if (key == "epoch_stop") log_.open_epoch_.reset();
    log_.stopped_ = log_.stopped_ || key == "run_stop";
    any_kept_ = true;
    return Line::kKept;
  }
  End end() override {
    if (!are_all_) return End::kNeedsMore;
    if (point_.step == 0) return End::kDone;
    if (log_.goes_on_ && version_ != log_.version_)
      throw UsageError(fmt::format("{} was started with --mllog {}", path_.c_str(),
                                   version_ == MlperfVersion::kV07 ? "v0.7" : "v1.0"),
                       "give the same --mllog to resume, or another --out");
    warn();
    if (log_.goes_on_) return End::kDone;
    log_.open_epoch_.reset();
    log_.stopped_ = false;
    return End::kNoneKept;
  }

 private:
  void warn() {
    const auto note = [&](const std::string& more) {
      log_.warning_ += (log_.warning_.empty() ? path_.string() + ": " : "; ") + more;
    };
    if (damaged_ > 0)
      note(fmt::format("damaged lines removed: {} (the first is line {})", damaged_,
                       first_damaged_));
    const std::int64_t begun = point_.epoch + (point_.inside_epoch ? 1 : 0);
    if (!log_.goes_on_)
      note("the start of the run is missing: the time in the log starts with this job");
    else if (std::ssize(epochs_) < begun)
      note(fmt::format("epochs missing before the checkpoint: {} of {}",
                       begun - std::ssize(epochs_), begun));
    if (damaged_ > 0 || (!log_.goes_on_ && any_kept_))
      note(fmt::format("the original file is kept as {}.damaged", path_.filename().string()));
  }

  MlperfLog& log_;
  MlperfPoint point_;
  std::filesystem::path path_;
  bool are_all_ = false, any_kept_ = false;
  MlperfVersion version_ = MlperfVersion::kV07;
  std::int64_t lines_ = 0, damaged_ = 0, first_damaged_ = 0;
  std::set<std::int64_t> epochs_;  // begun
};

void MlperfLog::open(const std::filesystem::path& path, const MlperfPoint& point) {
  if (!speaks_) return;
  RunFilter filter(*this, point, path);
  file_ = LineFile(path, filter);
  for (const WaitingLine& line : waiting_)
    if (!goes_on_ || (line.of_each_job && !point.over)) file_.append(line.text);
  waiting_.clear();
  if (point.step > 0 && !point.over)
    add({kPoint,
         "resumed",
         point.step,
         __LINE__,
         {},
         {},
         warning_.empty() ? nullptr : "incomplete"});
}

void MlperfLog::epoch_start(std::int64_t epoch, std::int64_t step) {
  if (open_epoch_ == epoch + first_epoch()) return;
  open_epoch_ = epoch + first_epoch();
  add({kStart, "epoch_start", nullptr, __LINE__, epoch, step});
}

void MlperfLog::trained(std::int64_t epoch, std::int64_t step, double rate, double loss) {
  if (!deepcam_) return;
  add({kPoint, "learning_rate", rate, __LINE__, epoch, step});
  add({kPoint, "train_loss", loss, __LINE__, epoch, step});
}

void MlperfLog::eval_start(std::int64_t epoch) {
  add({kStart, "eval_start", nullptr, __LINE__, epoch});
}

void MlperfLog::eval_stop(const MlperfEvaluation& e) {
  const char* const key = higher_is_better(e.kind) ? "eval_accuracy" : "eval_error";
  const Event score{kPoint, key, e.score, __LINE__, e.epoch, e.step};
  if (deepcam_) {
    add(score);
    add({kPoint, "eval_loss", e.loss, __LINE__, e.epoch, e.step});
    if (reaches(e.kind, e.score, e.target))
      add({kPoint, "target_accuracy_reached", e.target, __LINE__, e.epoch, e.step});
  }
  add({kEnd, "eval_stop", nullptr, __LINE__, e.epoch});
  if (e.ends_epoch) epoch_stop(e.epoch, e.step);
  if (!deepcam_) add(score);
}

void MlperfLog::epoch_stop(std::int64_t epoch, std::int64_t step) {
  if (open_epoch_ != epoch + first_epoch()) return;
  open_epoch_.reset();
  add({kEnd, "epoch_stop", nullptr, __LINE__, epoch, step});
}

void MlperfLog::run_stop(bool success) {
  if (stopped_) return;
  stopped_ = true;
  add({kEnd, "run_stop", nullptr, __LINE__, {}, {}, success ? "success" : "aborted"});
}

}  // namespace halomesh
