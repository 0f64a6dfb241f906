// SPDX-License-Identifier: Apache-2.0
// Reads MLPerf logs: see mlperf_summary.hpp.
#include "runtime/log/mlperf_summary.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "error.hpp"

namespace halomesh {
namespace {

using Json = nlohmann::json;

constexpr double kMaxTimeMs = 1e15;  // differences of such times are whole numbers of 64 bits

/// What has been read of a log so far; times in ms.
struct Reading {
  std::string place;  ///< file and line
  std::optional<std::int64_t> run_start, run_stop, staging_start, epoch_start, evaluation_start;
  double epoch_evaluation_s = 0;
  bool success = false;
  std::set<std::int64_t> epochs;
};

[[noreturn]] void fail(const std::string& place, const std::string& what) {
  throw Error(fmt::format("{}: {}", place, what), "give the complete log of one run");
}

void set_once(std::optional<std::int64_t>& time, std::int64_t value, const Reading& reading,
              const std::string& key) {
  if (time) fail(reading.place, fmt::format("a second {}", key));
  time = value;
}

double seconds_between(std::int64_t start_ms, std::int64_t stop_ms) {
  return 1e-3 * static_cast<double>(stop_ms - start_ms);
}

/// The key decides: some v0.7 logs use the same event_type for start and end of staging.
void read_staging(const std::string& key, std::int64_t time, Reading& reading, MlperfRun& run) {
  if (key == "staging_start") {
    reading.staging_start = time;
  } else if (reading.staging_start) {
    run.staging_s += seconds_between(*reading.staging_start, time);
    reading.staging_start.reset();
  }
}

/// Starts and ends of epochs and validations; a missing start or end leaves them out.
void read_interval(const std::string& key, std::int64_t time, const Json& metadata,
                   Reading& reading, MlperfRun& run) {
  if (key == "epoch_start") {
    reading.epoch_start = time;
    reading.epoch_evaluation_s = 0;
  } else if (key == "eval_start") {
    reading.evaluation_start = time;
  } else if (key == "eval_stop" && reading.evaluation_start) {
    const double seconds = seconds_between(*reading.evaluation_start, time);
    run.evaluation_s += seconds;
    reading.epoch_evaluation_s += seconds;
    reading.evaluation_start.reset();
  } else if (key == "epoch_stop" && reading.epoch_start) {
    const Json number = metadata.is_object() ? metadata.value("epoch_num", Json()) : Json();
    run.finished.push_back({number.is_number_integer() ? number.get<std::int64_t>() : 0,
                            seconds_between(*reading.epoch_start, time),
                            reading.epoch_evaluation_s});
    reading.epoch_start.reset();
  }
}

/// Sizes of the run; values that are no sizes are ignored.
void read_size(const std::string& key, const Json& line, MlperfRun& run) {
  std::int64_t* size = key == "global_batch_size" ? &run.batch
                       : key == "train_samples"   ? &run.training_samples
                       : key == "eval_samples"    ? &run.validation_samples
                                                  : nullptr;
  if (size != nullptr && line.contains("value") && line["value"].is_number_integer())
    *size = std::clamp<std::int64_t>(line["value"].get<std::int64_t>(), 0, 1'000'000'000'000);
}

void read_line(const Json& line, double target, Reading& reading, MlperfRun& run) {
  if (!line.is_object() || !line.contains("key") || !line["key"].is_string() ||
      !line.contains("time_ms") || !line["time_ms"].is_number())
    fail(reading.place, "not a line of an MLPerf log");
  const std::string key = line["key"];
  const double time_ms = line["time_ms"];
  if (!(std::abs(time_ms) <= kMaxTimeMs))
    fail(reading.place, fmt::format("a time_ms of {}", time_ms));
  const auto time = static_cast<std::int64_t>(time_ms);
  const Json metadata = line.value("metadata", Json::object());
  read_interval(key, time, metadata, reading, run);
  read_size(key, line, run);
  if (key == "run_start") {
    set_once(reading.run_start, time, reading, key);
  } else if (key == "run_stop") {
    set_once(reading.run_stop, time, reading, key);
    reading.success =
        metadata.is_object() && metadata.contains("status") && metadata["status"] == "success";
  } else if (key == "staging_start" || key == "staging_stop") {
    read_staging(key, time, reading, run);
  } else if (key == "epoch_start") {
    const bool numbered = metadata.is_object() && metadata.contains("epoch_num") &&
                          metadata["epoch_num"].is_number_integer();
    if (!numbered) fail(reading.place, "an epoch_start without epoch_num");
    reading.epochs.insert(metadata["epoch_num"].get<std::int64_t>());
  } else if (key == "eval_error" && line.contains("value") && line["value"].is_number()) {
    const double error = line["value"];
    if (error > 0) run.best_error = std::min(run.best_error.value_or(error), error);
  } else if (key == "eval_accuracy" && line.contains("value") && line["value"].is_number()) {
    const double accuracy = line["value"];
    run.best_accuracy = std::max(run.best_accuracy.value_or(accuracy), accuracy);
  } else if (key == "resumed") {
    ++run.resumed;
  }
  const bool good = (run.best_error && *run.best_error <= target) ||
                    (run.best_accuracy && *run.best_accuracy >= target);
  if (reading.run_stop && reading.success && good)
    run.end = MlperfEnd::kReached;
  else if (reading.run_stop)
    run.end = MlperfEnd::kMissed;
}

}  // namespace

MlperfRun read_mlperf_run(std::string_view text, const std::string& name, double target) {
  constexpr std::string_view kToken = ":::MLLOG";
  MlperfRun run;
  run.name = name;
  Reading reading;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    // Launchers may prefix lines with rank names.
    const std::size_t token = line.find(kToken);
    if (token == std::string_view::npos) continue;
    reading.place = fmt::format("{}: line {}", name, number);
    read_line(Json::parse(line.substr(token + kToken.size()), nullptr, false), target, reading,
              run);
  }
  if (!reading.run_start) fail(name, "no run_start: not the log of an MLPerf run");
  if (reading.run_stop) {
    if (*reading.run_stop < *reading.run_start) fail(name, "the run stops before it starts");
    run.minutes = static_cast<double>(*reading.run_stop - *reading.run_start) / 60e3;
  }
  run.epochs = static_cast<std::int64_t>(reading.epochs.size());
  return run;
}

MlperfScore score_runs(std::span<const MlperfRun> runs) {
  MlperfScore score;
  std::vector<double> minutes;
  for (const MlperfRun& run : runs) {
    if (run.end == MlperfEnd::kReached)
      minutes.push_back(*run.minutes);
    else
      ++score.missed;
  }
  if (runs.size() < 3)
    score.reason = fmt::format("{} runs, at least 3 needed", runs.size());
  else if (score.missed > 1)
    score.reason = fmt::format("{} runs missed the target (at most 1 allowed)", score.missed);
  if (!score.reason.empty()) return score;
  std::sort(minutes.begin(), minutes.end());
  const auto last = minutes.end() - (score.missed == 0 ? 1 : 0);
  const double sum = std::accumulate(minutes.begin() + 1, last, 0.0);
  score.olympic_minutes = sum / static_cast<double>(runs.size() - 2);
  return score;
}

}  // namespace halomesh
