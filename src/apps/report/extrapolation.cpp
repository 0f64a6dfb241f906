// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/extrapolation.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace halomesh {
namespace {

std::optional<EpochsToTarget> epochs_for(std::int64_t batch, const ReportInput& input) {
  if (input.epochs_to_target) return input.epochs_to_target;
  std::vector<double> epochs;
  for (const RunNumbers& run : input.runs)
    if (run.reached && run.batch == batch) epochs.push_back(run.epochs);
  if (epochs.empty()) return std::nullopt;
  const Statistics statistics = statistics_of(epochs);
  return EpochsToTarget{statistics.mean, statistics.deviation};
}

}  // namespace

std::vector<MeasuredRates> measured_rates(const ReportInput& input) {
  std::vector<MeasuredRates> all;
  for (const RunNumbers& run : input.runs) {
    const double training = run.training_rate(), evaluation = run.evaluation_rate();
    if (run.ranks == 0 || run.batch == 0 || !(training > 0) || !std::isfinite(training)) continue;
    const bool evaluated = evaluation > 0 && std::isfinite(evaluation);
    // The first epoch reads what later ones find in caches.
    const std::vector<double> later(run.epoch_s.begin() + (run.epoch_s.size() > 1 ? 1 : 0),
                                    run.epoch_s.end());
    const Statistics epochs = statistics_of(later);
    all.push_back(
        {run.name, run.parts, static_cast<double>(run.ranks),
         static_cast<double>(run.local_batch()), training, evaluated ? evaluation : training,
         epochs.count > 1 ? epochs.deviation / epochs.mean : 0, run.times.staging, evaluated});
  }
  for (const BenchFile& bench : input.benches)
    for (const auto& run : bench.record["runs"]) {
      const double training = number_at(run, {"samples_per_second", "median"});
      const double evaluation = number_at(run, {"evaluated_samples_per_second", "median"});
      const double spread = number_at(run, {"samples_per_second", "max"}) -
                            number_at(run, {"samples_per_second", "min"});
      const bool evaluated = evaluation > 0;
      all.push_back({bench.name, text_at(run, {"parts"}), number_at(run, {"ranks"}),
                     number_at(run, {"local_batch"}), training, evaluated ? evaluation : training,
                     std::isfinite(spread) ? spread / 2 / training : 0, 0, evaluated});
    }
  return all;
}

std::pair<double, double> samples_of(const ReportInput& input) {
  for (const RunNumbers& run : input.runs)
    if (run.training_samples > 0)
      return {static_cast<double>(run.training_samples),
              static_cast<double>(run.validation_samples)};
  return {262144, 65536};
}

Extrapolation extrapolate(const Configuration& configuration,
                          const std::vector<MeasuredRates>& rates, const ReportInput& input) {
  Extrapolation result;
  result.configuration = configuration;
  result.ranks = static_cast<double>(configuration.replicas * configuration.parts.count());
  result.epochs = epochs_for(configuration.batch, input);
  const double local_batch =
      static_cast<double>(configuration.batch) / static_cast<double>(configuration.replicas);
  const auto distance = [&](const MeasuredRates& one) {
    return std::tuple(one.local_batch != local_batch, std::abs(std::log(result.ranks / one.ranks)));
  };
  for (const MeasuredRates& one : rates)
    if (one.parts == to_string(configuration.parts) &&
        (result.base == nullptr || distance(one) < distance(*result.base)))
      result.base = &one;
  if (result.base == nullptr) return result;
  const auto [training, validation] = samples_of(input);
  const double scale = result.ranks / result.base->ranks;
  result.seconds_per_epoch =
      training / (result.base->training * scale) + validation / (result.base->evaluation * scale);
  if (!result.epochs) return result;
  const double compute = result.epochs->mean * result.seconds_per_epoch;
  result.seconds = result.base->staging_s + compute;
  result.deviation = std::hypot(result.epochs->deviation * result.seconds_per_epoch,
                                result.base->deviation * compute);
  return result;
}

}  // namespace halomesh
