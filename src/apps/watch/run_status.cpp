// SPDX-License-Identifier: Apache-2.0
// How far a run is: see run_status.hpp.
#include "src/apps/watch/run_status.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>

namespace halomesh {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kSilentSeconds = 600, kSilentIntervals = 10;
constexpr std::size_t kRecentSteps = 20, kUsualSteps = 200;

/// The value at a path of keys; null where there is none.
Json at(const Json& record, std::initializer_list<const char*> keys) {
  const Json* value = &record;
  for (const char* key : keys) {
    if (!value->is_object() || !value->contains(key)) return nullptr;
    value = &(*value)[key];
  }
  return *value;
}

/// A number, or the text of one; 0 for anything else. Options are on record as text.
double number(const Json& value) {
  double found = 0;
  if (value.is_number()) found = value.get<double>();
  if (value.is_string()) found = std::strtod(value.get<std::string>().c_str(), nullptr);
  return std::isfinite(found) ? std::clamp(found, -1e15, 1e15) : 0;
}

std::int64_t count(const Json& value) { return std::llround(number(value)); }

std::string string_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

/// Seconds of "2026-11-22T10:20:30Z"; 0 for another text.
double utc_seconds(const std::string& text) {
  std::tm utc{};
  if (std::sscanf(text.c_str(), "%d-%d-%dT%d:%d:%dZ", &utc.tm_year, &utc.tm_mon, &utc.tm_mday,
                  &utc.tm_hour, &utc.tm_min, &utc.tm_sec) != 6)
    return 0;
  utc.tm_year -= 1900;
  utc.tm_mon -= 1;
  return static_cast<double>(timegm(&utc));
}

/// Seconds of the last `most` steps, those that are not finite as 0.
std::vector<double> step_seconds(const RunFiles& files, std::size_t most) {
  const auto& steps = files.steps();
  std::vector<double> seconds;
  for (std::size_t i = steps.size() - std::min(most, steps.size()); i < steps.size(); ++i) {
    const double s = steps[i].record.seconds;
    seconds.push_back(std::isfinite(s) ? s : 0);
  }
  return seconds;
}

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Steps of an epoch; 0 while that is not known. run.json has it since it counts the samples;
/// before, the first step of a later epoch shows it.
std::int64_t steps_per_epoch(const RunFiles& files) {
  const std::int64_t samples = count(at(files.run(), {"samples", "training"})),
                     batch = count(at(files.run(), {"options", "batch"}));
  if (samples > 0 && batch > 0) return samples / batch;
  const auto& steps = files.steps();
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const StepRecord &before = steps[i - 1].record, &now = steps[i].record;
    if (now.epoch > 0 && now.epoch == before.epoch + 1 && now.step == before.step + 1)
      return (now.step - 1) / now.epoch;
  }
  return 0;
}

void find_totals(const RunFiles& files, RunStatus& status) {
  const Json options = at(files.run(), {"options"});
  const std::int64_t steps = count(at(options, {"steps"})), epochs = count(at(options, {"epochs"})),
                     per_epoch = steps_per_epoch(files);
  if (epochs > 0) status.epochs = epochs;
  if (steps > 0) status.steps = steps;
  if (epochs > 0 && per_epoch > 0)
    status.steps = std::min(status.steps.value_or(epochs * per_epoch), epochs * per_epoch);
}

void find_quality(const RunFiles& files, RunStatus& status) {
  for (const auto& each : files.steps()) status.losses.push_back(each.record.loss);
  for (const char* option : {"target-mae", "target-score"})
    if (const double target = number(at(files.run(), {"options", option})); target > 0)
      status.target_score = target;
  const auto& evaluations = files.evaluations();
  if (evaluations.empty()) return;
  status.last_evaluation = evaluations.back().record;
  status.best_score = evaluations.front().record.score;
  for (const auto& each : evaluations)
    if (is_better(each.record.kind, each.record.score, status.best_score))
      status.best_score = each.record.score;
}

void find_speed(const RunFiles& files, RunStatus& status) {
  const double batch = number(at(files.run(), {"options", "batch"}));
  const auto rate = [&](std::size_t most) {
    const double seconds = mean(step_seconds(files, most));
    return seconds > 0 ? batch / seconds : 0;
  };
  status.samples_per_s = rate(kRecentSteps);
  status.mean_samples_per_s = rate(files.steps().size());
}

void find_time_shares(const RunFiles& files, RunStatus& status) {
  if (files.phases().empty()) return;
  const Json line = files.phases().back();
  const double step_s = number(at(line, {"step_seconds", "mean"}));
  const Json kinds = at(line, {"kinds"});
  if (step_s <= 0 || !kinds.is_array()) return;
  status.phases_epoch = count(at(line, {"epoch"}));
  status.limit = string_of(at(line, {"limit"}));
  for (const Json& row : kinds)
    status.time_shares.emplace_back(string_of(at(row, {"kind"})),
                                    number(at(row, {"mean"})) / step_s);
}

/// Whether every step and the last evaluation are on record, for runs that do not write their end.
bool all_done(const RunFiles& files, const RunStatus& status) {
  const bool target =
      status.last_evaluation && status.last_evaluation->reaches(status.target_score);
  if (target) return true;
  if (!status.steps || status.step < *status.steps) return false;
  return count(at(files.run(), {"options", "evaluate-every"})) == 0 ||
         (status.last_evaluation && status.last_evaluation->epoch >= status.epoch);
}

void find_time_left(const RunFiles& files, double now, RunStatus& status) {
  const double limit_s = number(at(files.run(), {"options", "wall-limit"})),
               started = utc_seconds(string_of(at(files.run(), {"started"})));
  if (limit_s > 0 && started > 0) status.wall_s = std::max(started + limit_s - now, 0.0);
  const double step_s = mean(step_seconds(files, kUsualSteps));
  if (!status.steps || step_s <= 0) return;
  const auto steps = static_cast<double>(*status.steps - status.step);
  double left = steps * step_s;
  std::vector<double> evaluations;
  for (const auto& each : files.evaluations())
    if (std::isfinite(each.record.seconds)) evaluations.push_back(each.record.seconds);
  const double every = number(at(files.run(), {"options", "evaluate-every"}));
  const auto per_epoch = static_cast<double>(steps_per_epoch(files));
  if (every > 0 && per_epoch > 0) left += std::ceil(steps / per_epoch / every) * mean(evaluations);
  status.left_s = std::max(left, 0.0);
}

/// The usual interval between lines: their times, or, without any, how long steps take.
double usual_interval(const RunFiles& files) {
  const auto& steps = files.steps();
  std::vector<double> intervals;
  for (std::size_t i = steps.size() - std::min(kUsualSteps, steps.size()); i < steps.size(); ++i)
    if (i > 0 && steps[i - 1].time > 0 && steps[i].time > steps[i - 1].time)
      intervals.push_back(steps[i].time - steps[i - 1].time);
  return intervals.empty() ? median(step_seconds(files, kUsualSteps)) : median(intervals);
}

}  // namespace

const char* name_of(RunState state) {
  if (state == RunState::kDone) return "done";
  return state == RunState::kRunning ? "running" : "silent";
}

RunStatus status_of(const RunFiles& files, double now, double last_sign, double silent_limit_s) {
  RunStatus status;
  status.name = files.name();
  if (!files.steps().empty()) {
    status.step = files.steps().back().record.step;
    status.epoch = files.steps().back().record.epoch;
  }
  if (const std::int64_t ranks = count(at(files.run(), {"mesh", "ranks"})); ranks > 0)
    status.ranks = ranks;
  status.scheduler = string_of(at(files.run(), {"job", "scheduler"}));
  status.job = string_of(at(files.run(), {"job", "id"}));
  find_totals(files, status);
  find_quality(files, status);
  find_speed(files, status);
  find_time_shares(files, status);
  status.result = string_of(at(files.run(), {"end", "result"}));
  status.silent_s = std::max(now - last_sign, 0.0);
  status.silent_limit_s = silent_limit_s > 0
                              ? silent_limit_s
                              : std::max(kSilentSeconds, kSilentIntervals * usual_interval(files));
  if (at(files.run(), {"end"}).is_object() || all_done(files, status))
    status.state = RunState::kDone;
  else if (status.silent_s > status.silent_limit_s)
    status.state = RunState::kSilent;
  if (status.state != RunState::kDone) find_time_left(files, now, status);
  return status;
}

Json to_json(const RunStatus& status) {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(); };
  const auto positive = [](double value) { return value > 0 ? Json(value) : Json(); };
  const Score score = status.last_evaluation ? status.last_evaluation->kind : Score::kMae;
  const std::string key = key_of(score);
  Json shares = Json::object();
  for (const auto& [kind, share] : status.time_shares) shares[kind] = share;
  Json json = {{"run", status.name},
               {"state", name_of(status.state)},
               {"result", status.result.empty() ? Json() : Json(status.result)},
               {"step", status.step},
               {"steps", or_null(status.steps)},
               {"epoch", status.epoch},
               {"epochs", or_null(status.epochs)},
               {"loss", status.losses.empty() ? Json() : Json(status.losses.back())},
               {key, status.last_evaluation ? Json(status.last_evaluation->score) : Json()},
               {(higher_is_better(score) ? "best_" : "least_") + key,
                status.last_evaluation ? Json(status.best_score) : Json()},
               {"target_" + key, positive(status.target_score)},
               {"samples_per_second", positive(status.samples_per_s)},
               {"mean_samples_per_second", positive(status.mean_samples_per_s)},
               {"time_shares", shares},
               {"limit", status.limit.empty() ? Json() : Json(status.limit)},
               {"silent_seconds", status.silent_s},
               {"silent_limit_seconds", status.silent_limit_s},
               {"seconds_left", or_null(status.left_s)},
               {"wall_seconds_left", or_null(status.wall_s)}};
  if (!status.job.empty()) json["job"] = {{"scheduler", status.scheduler}, {"id", status.job}};
  return json;
}

}  // namespace halomesh
