// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/run_numbers.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <utility>

namespace halomesh {
namespace {

std::int64_t whole(double value) {
  return std::isfinite(value) ? std::llround(std::clamp(value, 0.0, 1e15)) : 0;
}

double real_of(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end != text.c_str() && std::isfinite(value) ? value : 0;
}

/// "2026-11-22T17:40:00Z" in Unix seconds; 0 for anything else.
double unix_time(const std::string& text) {
  std::tm utc{};
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return end != nullptr ? static_cast<double>(timegm(&utc)) : 0;
}

void read_run_record(const RunFiles& files, RunNumbers& numbers) {
  const auto& run = files.run();
  numbers.ranks = whole(number_at(run, {"mesh", "ranks"}));
  numbers.replicas = std::max<std::int64_t>(whole(number_at(run, {"mesh", "replicas"})), 1);
  numbers.threads = whole(number_at(run, {"mesh", "threads"}));
  numbers.nodes = whole(number_at(run, {"nodes"}));
  if (const std::string parts = text_at(run, {"mesh", "parts"}); !parts.empty())
    numbers.parts = parts;
  numbers.cpu = text_at(run, {"machine", "cpu"});
  numbers.model = option_of(files, "model");
  numbers.precision = option_of(files, "precision");
  numbers.batch = whole(real_of(option_of(files, "batch")));
  for (const char* option : {"target-mae", "target-score"})
    if (const double target = real_of(option_of(files, option)); target > 0)
      numbers.target = target;
  numbers.training_samples = whole(number_at(run, {"samples", "training"}));
  numbers.validation_samples = whole(number_at(run, {"samples", "validation"}));
}

/// Steps and validations of each epoch, from metrics.jsonl.
void read_epochs(const RunFiles& files, RunNumbers& numbers) {
  std::map<std::int64_t, double> seconds;
  std::int64_t ended = 0;
  for (const auto& step : files.steps()) {
    const double s = std::isfinite(step.record.seconds) ? step.record.seconds : 0;
    seconds[step.record.epoch] += s;
    numbers.times.training += s;
  }
  for (const auto& evaluation : files.evaluations()) {
    const EvaluationRecord& record = evaluation.record;
    const double s = std::isfinite(record.seconds) ? record.seconds : 0;
    numbers.times.evaluation += s;
    numbers.evaluated_samples += static_cast<double>(record.samples);
    if (record.samples > 0 && numbers.validation_samples == 0)
      numbers.validation_samples = record.samples;
    numbers.kind = record.kind;
    if (std::isfinite(record.score) && !record.empty &&
        (!numbers.best_score || is_better(record.kind, record.score, *numbers.best_score)))
      numbers.best_score = record.score;
    if (const auto epoch = seconds.find(record.epoch); epoch != seconds.end()) {
      epoch->second += s;
      ended = std::max(ended, record.epoch + 1);
    }
  }
  numbers.steps = static_cast<double>(files.steps().size());
  const double per_epoch =
      numbers.batch > 0 && numbers.training_samples > 0
          ? std::max(1.0, std::floor(static_cast<double>(numbers.training_samples) /
                                     static_cast<double>(numbers.batch)))
          : 0;
  // Without validations the number of steps tells how many epochs there were.
  numbers.epochs = ended > 0       ? static_cast<double>(ended)
                   : per_epoch > 0 ? numbers.steps / per_epoch
                                   : static_cast<double>(seconds.size());
  if (numbers.training_samples == 0 && numbers.batch > 0 && ended > 0)
    numbers.training_samples = whole(numbers.steps / numbers.epochs) * numbers.batch;
  for (const auto& [epoch, s] : seconds)
    if (ended == 0 || epoch < ended) numbers.epoch_s.push_back(s);
}

void read_times(const RunFiles& files, RunNumbers& numbers) {
  RunTimes& times = numbers.times;
  const double staging = number_at(files.stage(), {"seconds"});
  times.staging = std::isfinite(staging) ? staging : 0;
  const double end = number_at(files.run(), {"end", "time"});
  const double start = unix_time(text_at(files.run(), {"started"}));
  if (start > 0 && end >= start) times.solution = end - start;
  const std::string result = text_at(files.run(), {"end", "result"});
  numbers.reached =
      result == "target" ||
      (numbers.best_score && reaches(numbers.kind, *numbers.best_score, numbers.target));
}

/// The log is the authority on times: it covers all jobs of the run.
void read_log(const MlperfRun& log, RunNumbers& numbers) {
  numbers.batch = log.batch > 0 ? log.batch : numbers.batch;
  if (log.training_samples > 0) numbers.training_samples = log.training_samples;
  if (log.validation_samples > 0) numbers.validation_samples = log.validation_samples;
  if (log.best_error) numbers.best_score = log.best_error;
  if (log.best_accuracy) numbers.best_score = log.best_accuracy;
  numbers.reached = log.end == MlperfEnd::kReached;
  if (log.finished.empty()) return;
  RunTimes times;
  times.from_log = true;
  times.staging = log.staging_s;
  times.evaluation = log.evaluation_s;
  numbers.epoch_s.clear();
  for (const MlperfEpoch& epoch : log.finished) {
    times.training += epoch.seconds - epoch.evaluation_s;
    numbers.epoch_s.push_back(epoch.seconds);
  }
  if (log.minutes) times.solution = *log.minutes * 60;
  numbers.times = times;
  numbers.epochs = static_cast<double>(log.finished.size());
  if (numbers.batch > 0)
    numbers.steps = numbers.epochs * std::floor(static_cast<double>(numbers.training_samples) /
                                                static_cast<double>(numbers.batch));
  numbers.evaluated_samples = numbers.epochs * static_cast<double>(numbers.validation_samples);
}

}  // namespace

std::string option_of(const RunFiles& files, const std::string& name) {
  const auto& run = files.run();
  if (!run.is_object() || !run.contains("options")) return {};
  return text_at(run["options"], {name.c_str()});
}

RunNumbers numbers_of(const RunFiles* files, std::optional<MlperfRun> log, double target) {
  RunNumbers numbers;
  numbers.files = files;
  numbers.log = std::move(log);
  if (files != nullptr) {
    numbers.name = files->name();
    read_run_record(*files, numbers);
    read_epochs(*files, numbers);
    read_times(*files, numbers);
  } else {
    numbers.name = numbers.log->name;
  }
  // The page's target is an MAE.
  if (numbers.target == 0 && numbers.kind == Score::kMae) numbers.target = target;
  if (numbers.log) read_log(*numbers.log, numbers);
  return numbers;
}

Statistics RunGroup::epochs() const {
  std::vector<double> values;
  for (const RunNumbers* run : runs)
    if (run->reached || !any_reached()) values.push_back(run->epochs);
  return statistics_of(values);
}

bool RunGroup::any_reached() const {
  return std::any_of(runs.begin(), runs.end(), [](const RunNumbers* run) { return run->reached; });
}

std::vector<RunGroup> group_runs(const std::vector<RunNumbers>& runs) {
  std::vector<RunGroup> groups;
  const auto alike = [](const RunNumbers& a, const RunNumbers& b) {
    return a.ranks == b.ranks && a.parts == b.parts && a.batch == b.batch && a.cpu == b.cpu &&
           a.model == b.model && a.precision == b.precision && a.threads == b.threads &&
           a.training_samples == b.training_samples;
  };
  for (const RunNumbers& run : runs) {
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const RunGroup& group) {
      return alike(group.first(), run);
    });
    if (found == groups.end())
      groups.push_back({run.name, {&run}});
    else
      found->runs.push_back(&run);
  }
  for (RunGroup& group : groups)
    if (group.runs.size() > 1)
      group.label = fmt::format("{} x {} parts, batch {} ({} runs)", group.first().replicas,
                                group.first().parts, group.first().batch, group.runs.size());
  return groups;
}

}  // namespace halomesh
