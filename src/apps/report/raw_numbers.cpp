// SPDX-License-Identifier: Apache-2.0
// The numbers of a report for scripts.
#include <algorithm>
#include <cmath>

#include "src/apps/report/extrapolation.hpp"
#include "src/apps/report/run_phases.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostPoints = 500;  // of a curve

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json range_json(const RankRange& range) {
  return {{"mean", range.mean},
          {"min", range.least},
          {"max", range.most},
          {"max_rank", range.slowest_rank}};
}

Json phases_json(const RunPhases& phases) {
  Json kinds;
  for (std::size_t kind = 0; kind < kPhaseKinds; ++kind)
    kinds[name_of(static_cast<PhaseKind>(kind))] = range_json(phases.kinds[kind]);
  return {{"steps", phases.steps},
          {"step_seconds", range_json(phases.step)},
          {"kinds", kinds},
          {"load_balance", phases.load_balance},
          {"communication_efficiency", phases.communication},
          {"parallel_efficiency", phases.parallel},
          {"limit", phases.limit},
          {"halo_sent_bytes", phases.halo_sent},
          {"reduced_bytes", phases.reduced_bytes},
          {"input_bytes", phases.input_bytes}};
}

/// At most kMostPoints validations, equally spaced.
Json evaluations_json(const RunFiles& files) {
  Json list = Json::array();
  const auto& all = files.evaluations();
  const std::size_t step = (all.size() + kMostPoints - 1) / kMostPoints;
  for (std::size_t i = 0; i < all.size(); i += step)
    list.push_back({all[i].record.epoch, all[i].record.score});
  return list;
}

Json run_json(const RunNumbers& run) {
  Json json = {{"name", run.name},
               {"ranks", run.ranks},
               {"replicas", run.replicas},
               {"parts", run.parts},
               {"batch", run.batch},
               {"training_samples", run.training_samples},
               {"validation_samples", run.validation_samples},
               {std::string("target_") + key_of(run.kind), run.target},
               {"reached", run.reached},
               {std::string(higher_is_better(run.kind) ? "best_" : "least_") + key_of(run.kind),
                or_null(run.best_score)},
               {"epochs", run.epochs},
               {"steps", run.steps},
               {"solution_seconds", or_null(run.times.solution)},
               {"staging_seconds", run.times.staging},
               {"training_seconds", run.times.training},
               {"evaluation_seconds", run.times.evaluation},
               {"rest_seconds", run.times.rest()},
               {"epoch_seconds", run.epoch_seconds()},
               {"training_samples_per_second", run.training_rate()},
               {"evaluated_samples_per_second", run.evaluation_rate()}};
  if (run.files == nullptr) return json;
  json["mae_of_epochs"] = evaluations_json(*run.files);
  if (const auto phases = phases_of(*run.files)) json["phases"] = phases_json(*phases);
  return json;
}

Json bench_json(const BenchFile& bench) {
  Json runs = Json::array();
  for (const auto& run : bench.record["runs"])
    runs.push_back({{"parts", text_at(run, {"parts"})},
                    {"ranks", number_at(run, {"ranks"})},
                    {"precision", text_at(run, {"precision"})},
                    {"batch", number_at(run, {"batch"})},
                    {"mean_step_seconds", number_at(run, {"mean_step_seconds"})},
                    {"samples_per_second", number_at(run, {"samples_per_second", "median"})},
                    {"evaluated_samples_per_second",
                     number_at(run, {"evaluated_samples_per_second", "median"})}});
  return {{"name", bench.name}, {"runs", runs}};
}

Json extrapolation_json(const Extrapolation& one) {
  return {{"replicas", one.configuration.replicas}, {"parts", to_string(one.configuration.parts)},
          {"batch", one.configuration.batch},       {"ranks", one.ranks},
          {"epoch_seconds", one.seconds_per_epoch}, {"seconds", one.seconds},
          {"deviation_seconds", one.deviation}};
}

}  // namespace

std::string raw_numbers(const ReportInput& input) {
  Json json = {{"runs", Json::array()}, {"bench", Json::array()}, {"extrapolated", Json::array()}};
  for (const RunNumbers& run : input.runs) json["runs"].push_back(run_json(run));
  for (const BenchFile& bench : input.benches) json["bench"].push_back(bench_json(bench));
  const std::vector<MeasuredRates> rates = measured_rates(input);
  for (const Configuration& configuration : input.predict)
    json["extrapolated"].push_back(extrapolation_json(extrapolate(configuration, rates, input)));
  json["warnings"] = input.problems;
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace halomesh
