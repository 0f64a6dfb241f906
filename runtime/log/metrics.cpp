// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl and run.json: see metrics.hpp.
#include "runtime/log/metrics.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "error.hpp"
#include "runtime/log/json_bytes.hpp"
#include "runtime/posix/atomic_file.hpp"

namespace halomesh {
namespace {

/// Whether a line of the file is about several steps, of which "step" is the last.
bool sums_steps(const nlohmann::json& json) {
  return json["event"] == "phases" || json["event"] == "layers";
}

/// Parses a line of metrics; empty if it is not JSON.
std::optional<nlohmann::json> parse_line(std::string_view line) {
  auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("event") || !json["event"].is_string())
    return std::nullopt;
  const bool counted = json["event"] == "step" || json["event"] == "resumed" || sums_steps(json);
  if (counted && (!json.contains("step") || !json["step"].is_number_integer())) return std::nullopt;
  return json;
}

double number_in(const nlohmann::json& json, const char* key) {
  const auto value = json.find(key);
  return value != json.end() && value->is_number() ? value->get<double>() : 0;
}

/// A count, clamped to values that are safe to compute with, whatever the file says.
std::int64_t count_in(const nlohmann::json& json, const char* key) {
  return std::llround(std::clamp(number_in(json, key), 0.0, 1e15));
}

std::optional<EvaluationRecord> evaluation_of(const nlohmann::json& json) {
  if (!json.is_object() || json["event"] != "eval") return std::nullopt;
  const std::optional<Score> score = score_in(json);
  if (!score) return std::nullopt;
  return EvaluationRecord{count_in(json, "epoch"),    number_in(json, key_of(*score)),
                          number_in(json, "loss"),    count_in(json, "samples"),
                          number_in(json, "seconds"), *score,
                          json.contains("empty")};
}

/// Keeps the lines of a file, or of its end, that belong to the first `last_step` steps.
class CurveFilter : public LineFilter {
 public:
  explicit CurveFilter(std::int64_t last_step) : last_step_(last_step) {}

  nlohmann::json evaluation;  ///< the first one after the last step; null if there is none
  std::int64_t damaged = 0, first_damaged = 0;  ///< lines; the number of the first from 1
  std::int64_t missing = 0;                     ///< missing steps

  void begin(bool are_all) override {
    are_all_ = are_all;
    seen_ = are_all ? 0 : -1;
    damaged = missing = lines_ = 0;
    over_ = last_step_ == 0;
    evaluation = nullptr;
    summed_.clear();
  }
  Line take(std::string_view line) override {
    ++lines_;
    if (over_) return Line::kRemoved;
    const auto json = parse_line(line);
    const Line verdict = json ? take_json(*json) : Line::kDamaged;
    over_ = verdict == Line::kRemoved;
    if (verdict == Line::kDamaged && ++damaged == 1) first_damaged = lines_;
    return verdict;
  }
  End end() override {
    missing += last_step_ - seen_;
    return !are_all_ && damaged + missing > 0 ? End::kNeedsMore : End::kDone;
  }

 private:
  Line take_json(const nlohmann::json& json) {
    const bool resumed = json["event"] == "resumed", sums = sums_steps(json);
    const bool counts = resumed || json["event"] == "step";
    const std::int64_t step = counts || sums ? json["step"].get<std::int64_t>() : 0;
    if (step > last_step_) return Line::kRemoved;
    const std::int64_t own = resumed ? 0 : 1;
    if (counts && seen_ < 0) seen_ = step - own;
    if ((counts && step < seen_ + own) || (sums && step <= summed_[json["event"]]))
      return Line::kDamaged;
    if (counts) {
      missing += step - seen_ - own;
      // Steps that an earlier job has reported missing are not reported again.
      if (resumed) missing = std::max<std::int64_t>(missing - count_in(json, "records_missing"), 0);
      seen_ = step;
    } else if (sums) {
      summed_[json["event"]] = step;
    } else if (seen_ == last_step_ && evaluation.is_null() && json["event"] == "eval") {
      evaluation = json;
    }
    return Line::kKept;
  }

  std::int64_t last_step_;
  bool are_all_ = false;
  bool over_ = false;  // this line and all after it belong to later steps
  std::int64_t lines_ = 0;
  // Every step up to this one is present, missing, or known to be missing; -1: nothing is known
  // before the first step.
  std::int64_t seen_ = 0;
  std::map<std::string, std::int64_t> summed_;  // the last step of the last line, by event
};

}  // namespace

MetricsLog::MetricsLog(std::filesystem::path path, std::int64_t last_step) {
  CurveFilter curve(last_step);
  file_ = LineFile(std::move(path), curve);
  evaluation_before_ = evaluation_of(curve.evaluation);
  const auto note = [&](const std::string& more) {
    warning_ += (warning_.empty() ? file_.path().string() + ": " : "; ") + more;
  };
  if (curve.damaged > 0)
    note(
        fmt::format("damaged lines removed: {} (the first is line {}; the original file is kept "
                    "as {})",
                    curve.damaged, curve.first_damaged, file_.damaged_path().filename().string()));
  if (curve.missing == 0) return;
  note(fmt::format("steps missing before the checkpoint: {} of {}", curve.missing, last_step));
  append({{"event", "resumed"}, {"step", last_step}, {"records_missing", curve.missing}});
}

void MetricsLog::append(nlohmann::ordered_json line) {
  line["time"] = unix_time();
  file_.append(line.dump());
}

void MetricsLog::step(const StepRecord& record) {
  append({{"event", "step"},
          {"step", record.step},
          {"epoch", record.epoch},
          {"loss", record.loss},
          {"lr", record.lr},
          {"seconds", record.seconds}});
}

std::optional<Score> score_in(const nlohmann::json& line) {
  for (const Score score : kScores)
    if (const auto value = line.find(key_of(score)); value != line.end() && value->is_number())
      return score;
  return std::nullopt;
}

void add_to_json(nlohmann::ordered_json& json, const ClassScores& scores) {
  constexpr std::size_t kMostClasses = 64;
  json["balanced_accuracy"] = scores.balanced_accuracy;
  json["auc"] = scores.auc;
  if (scores.confusion.front().size() <= kMostClasses) json["confusion"] = scores.confusion;
}

void MetricsLog::evaluation(const EvaluationRecord& record, std::span<const ClassQuality> classes,
                            const std::optional<ClassScores>& labels) {
  nlohmann::ordered_json line = {
      {"event", "eval"},     {"epoch", record.epoch},     {key_of(record.kind), record.score},
      {"loss", record.loss}, {"samples", record.samples}, {"seconds", record.seconds}};
  if (record.empty) line["empty"] = true;
  for (const ClassQuality& each : classes)
    line["classes"].push_back({{"iou", each.iou}, {"dice", each.dice}});
  if (labels) add_to_json(line, *labels);
  append(std::move(line));
}

std::string to_text(const StageRecord& record, const std::filesystem::path& directory) {
  return fmt::format("{}{} samples in {:g} s: {:g} MB read, {:g} MB stored in {}",
                     record.reused ? "reusing the stage of " : "staged ", record.samples,
                     record.seconds, static_cast<double>(record.bytes_read) * 1e-6,
                     static_cast<double>(record.bytes_staged) * 1e-6, directory.string());
}

nlohmann::ordered_json to_json(const StageRecord& record) {
  const RankSpread& ranks = record.rank_seconds;
  return {{"seconds", record.seconds},
          {"samples", record.samples},
          {"bytes_read", record.bytes_read},
          {"bytes_staged", record.bytes_staged},
          {"reused", record.reused},
          {"read_seconds", record.read_seconds},
          {"read_calls", record.read_calls},
          {"rank_seconds",
           {{"mean", ranks.mean},
            {"min", ranks.min},
            {"max", ranks.max},
            {"max_rank", ranks.max_rank}}}};
}

void MetricsLog::stage(const StageRecord& record) {
  nlohmann::ordered_json line = {{"event", "stage"}};
  line.update(to_json(record));
  append(std::move(line));
}

void MetricsLog::phases(const PhaseSummary& summary) { append(to_json(summary)); }

void MetricsLog::layers(const PhaseSummary& summary) { append(layers_json(summary)); }

double unix_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) /
         1000;
}

void write_run_record(const std::filesystem::path& path, const nlohmann::ordered_json& record) {
  write_file_atomically(path, dump_json(record, 2) + '\n');
}

}  // namespace halomesh
