// SPDX-License-Identifier: Apache-2.0
// The measurements of a scaling study: see scaling_record.hpp.
#include "src/apps/scaling/scaling_record.hpp"

#include <algorithm>
#include <utility>

#include "runtime/log/json_bytes.hpp"

namespace halomesh {
namespace {

using Json = nlohmann::ordered_json;

bool is_of(const Json& measurement, const ScalingCase& one) {
  return measurement.at("parts") == to_string(one.mesh.parts) &&
         measurement.at("ranks") == one.mesh.ranks() && measurement.at("batch") == one.batch;
}

/// Reads every value once, so that a damaged file is found before any measurement.
void check_measurement(const Json& one) {
  (void)one.at("parts").get<std::string>();
  (void)one.at("ranks").get<std::int64_t>();
  (void)one.at("batch").get<std::int64_t>();
  (void)one.at("round").get<std::int64_t>();
  (void)one.at("step_seconds").at(0);
  (void)one.at("step_seconds").get<std::vector<double>>();
  for (const char* name : {"mean_step_seconds", "halo_wait", "reduction_wait", "input_wait"})
    (void)one.at(name).get<double>();
}

Json spread_json(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}};
}

Json run_json(const ScalingRecord::Summary& run, bool strong, const StudySettings& settings) {
  const MeshShape& mesh = run.setting.mesh;
  const Spread steps = spread_of(run.seconds);
  const auto batch = static_cast<double>(run.setting.batch);
  const auto share = [](double value) { return Json{{"mean", value}}; };
  Json json = {{"scaling", strong ? "strong" : "weak"},
               {"parts", to_string(mesh.parts)},
               {"replicas", mesh.replicas},
               {"ranks", mesh.ranks()},
               {"precision", settings.at("precision")},
               {"reduction", settings.at("reduction")},
               {"batch", run.setting.batch},
               {"local_batch", run.setting.batch / mesh.replicas},
               {"rounds", run.rounds},
               {"steps", run.seconds.size()},
               {"step_seconds", spread_json(steps)},
               {"samples_per_second",
                spread_json({batch / steps.median, batch / steps.max, batch / steps.min})},
               {"mean_step_seconds", run.mean_s},
               {"wait_fraction",
                {{"halo", share(run.halo_wait)},
                 {"reduction", share(run.reduction_wait)},
                 {"input", share(run.input_wait)}}},
               {"efficiency", run.efficiency > 0 ? Json(run.efficiency) : Json()}};
  if (run.predicted) {
    json["predicted_step_seconds"] = run.predicted->step_s;
    json["predicted_range_seconds"] = {run.predicted->low_s, run.predicted->high_s};
  }
  return json;
}

}  // namespace

ScalingRecord::ScalingRecord(Json program, StudySettings settings)
    : program_(std::move(program)), settings_(std::move(settings)) {}

void ScalingRecord::resume(const std::string& text, const std::filesystem::path& file) {
  const char* const cure = "give --restart to replace it, or another --json file";
  const Json json = parse_json<Json>(text);
  require(json.is_object() && json.contains("study") && json.contains("measurements"),
          file.string() + ": not a file of halomesh scaling, or a damaged one", cure);
  try {
    const auto before = json.at("study").get<StudySettings>();
    for (const auto& [name, value] : settings_) {
      const auto at = before.find(name);
      const std::string old = at == before.end() ? "nothing" : at->second;
      require(old == value,
              fmt::format("{}: measured with {} = {}, not {}", file.string(), name, old, value),
              fmt::format("run it with the same {}, or {}", name, cure));
    }
    for (const Json& one : json.at("measurements")) check_measurement(one);
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("{}: damaged: {}", file.string(), error.what()), cure);
  }
  measurements_ = json.at("measurements");
}

bool ScalingRecord::has(const ScalingCase& one, std::int64_t round) const {
  return std::any_of(measurements_.begin(), measurements_.end(), [&](const Json& measurement) {
    return is_of(measurement, one) && measurement.at("round") == round;
  });
}

void ScalingRecord::add(const ScalingCase& one, std::int64_t round, const BenchResult& result) {
  measurements_.push_back({{"parts", to_string(one.mesh.parts)},
                           {"ranks", one.mesh.ranks()},
                           {"batch", one.batch},
                           {"round", round},
                           {"step_seconds", result.seconds},
                           {"mean_step_seconds", result.mean_step_s},
                           {"halo_wait", result.halo_wait.mean},
                           {"reduction_wait", result.reduction_wait.mean},
                           {"input_wait", result.input_wait.mean},
                           {"max_memory_bytes", result.max_memory_bytes}});
}

std::int64_t ScalingRecord::measurements() const { return std::ssize(measurements_); }

double ScalingRecord::Summary::rate() const {
  return static_cast<double>(setting.batch) / spread_of(seconds).median;
}

std::vector<ScalingRecord::Summary> ScalingRecord::summaries(
    const std::vector<ScalingCase>& cases, bool strong,
    const std::map<std::string, PredictedStep>& predicted) const {
  std::vector<Summary> all;
  for (const ScalingCase& one : cases) {
    if (strong ? !one.strong : !one.weak) continue;
    Summary run;
    run.setting = one;
    for (const Json& measurement : measurements_) {
      if (!is_of(measurement, one)) continue;
      ++run.rounds;
      for (const Json& seconds : measurement.at("step_seconds"))
        run.seconds.push_back(seconds.get<double>());
      run.mean_s += measurement.at("mean_step_seconds").get<double>();
      run.halo_wait += measurement.at("halo_wait").get<double>();
      run.reduction_wait += measurement.at("reduction_wait").get<double>();
      run.input_wait += measurement.at("input_wait").get<double>();
    }
    if (run.rounds == 0) continue;
    for (double* sum : {&run.mean_s, &run.halo_wait, &run.reduction_wait, &run.input_wait})
      *sum /= static_cast<double>(run.rounds);
    if (const auto at = predicted.find(one.name()); at != predicted.end())
      run.predicted = at->second;
    all.push_back(std::move(run));
  }
  const auto per_rank = [](const Summary& run) {
    return run.rate() / static_cast<double>(run.setting.mesh.ranks());
  };
  double reference = 0;
  for (const Summary& run : all)
    if (run.setting.mesh.ranks() == all.front().setting.mesh.ranks())
      reference = std::max(reference, per_rank(run));
  for (Summary& run : all) run.efficiency = per_rank(run) / reference;
  return all;
}

Json ScalingRecord::json(const std::vector<ScalingCase>& cases,
                         const std::map<std::string, PredictedStep>& predicted) const {
  Json json = program_;
  json["study"] = settings_;
  json["measurements"] = measurements_;
  json["runs"] = Json::array();
  for (const bool strong : {true, false})
    for (const Summary& run : summaries(cases, strong, predicted))
      json["runs"].push_back(run_json(run, strong, settings_));
  return json;
}

}  // namespace halomesh
