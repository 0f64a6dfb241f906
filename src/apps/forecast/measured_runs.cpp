// SPDX-License-Identifier: Apache-2.0
// Constants fitted to measured steps: see measured_runs.hpp.
#include "src/apps/forecast/measured_runs.hpp"

#include <algorithm>
#include <cmath>

#include "error.hpp"
#include "src/apps/forecast/csv_lines.hpp"

namespace halomesh {
namespace {

/// The least-squares line y = a + b x; rows are weighted by 1 / y, because errors are relative.
std::pair<double, double> line_through(const std::vector<std::pair<double, double>>& points) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (const auto& [x, y] : points) {
    const double weight = 1 / (y * y);
    w += weight, wx += weight * x, wy += weight * y;
    wxx += weight * x * x, wxy += weight * x * y;
  }
  const double b = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  return {(wy - b * wx) / w, b};
}

StepForecast forecast(const Machine& machine, const Model& model, const MeasuredRun& run,
                      bool training, ForecastCache* cache = nullptr) {
  ForecastOptions options;
  options.training = training;
  options.cache = cache;
  if (run.threads > 0) options.threads = run.threads;
  Machine here = machine;
  if (machine.interconnect == Interconnect::kNone) here.derive(run.mesh.ranks());
  return forecast_step(here, model, model.geometry(run.mesh.parts), run.mesh,
                       local_batch(run.batch, run.mesh), options);
}

void set_fitted(Machine& machine, const std::string& number, double value, std::size_t runs) {
  machine.set({number, value, Origin::kDerived, fmt::format("fitted to {} measured runs", runs),
               "the fit to measured runs"});
}

// The communication that is not hidden depends on kernel times: a few rounds settle both.
constexpr int kRounds = 12;

// Multiplies kernel times by `scale`.
void scale_kernels(Machine& machine, double scale, std::size_t runs) {
  if (machine.kernels.size() > 0)
    set_fitted(machine, "kernel-time-factor", machine.kernel_time_factor() * scale, runs);
  else
    set_fitted(machine, machine.efficiency_number(), machine.kernels.rates.efficiency / scale,
               runs);
  machine.derive(machine.network.ranks_per_node);
}

void drop_assumed_straggler(Machine& machine, std::size_t runs) {
  const auto known = std::find_if(
      machine.numbers.begin(), machine.numbers.end(),
      [](const MachineNumber& number) { return number.name == "straggler-per-doubling"; });
  if (known == machine.numbers.end() || known->origin != Origin::kMeasured)
    set_fitted(machine, "straggler-per-doubling", 0, runs);
}

void fit_cuts(Machine& machine, const Model& model, const std::vector<MeasuredRun>& runs) {
  drop_assumed_straggler(machine, runs.size());
  ForecastCache cache;
  for (int round = 0; round < kRounds; ++round) {
    const double overhead = machine.value("step-overhead-ms") * 1e-3;
    std::vector<std::pair<double, double>> points;
    double ratio = 0;
    for (const MeasuredRun& run : runs) {
      const StepForecast f = forecast(machine, model, run, true, &cache);
      points.emplace_back(f.compute_s - overhead, run.step_s - (f.step_s - f.compute_s));
      ratio += points.back().second / points.back().first / static_cast<double>(runs.size());
    }
    auto [constant, scale] = line_through(points);
    if (constant < 0 || !(scale > 0)) constant = 0, scale = ratio;  // kernels alone explain more
    if (!(scale > 0))
      throw UsageError(
          fmt::format("no kernel rate explains the {} measured runs", runs.size()),
          "their steps are shorter than their messages alone: check the network's numbers");
    set_fitted(machine, "step-overhead-ms", constant * 1e3, runs.size());
    scale_kernels(machine, scale, runs.size());
  }
}

void fit_one_cut(Machine& machine, const Model& model, const std::vector<MeasuredRun>& runs) {
  std::vector<std::pair<double, double>> steps;
  steps.reserve(runs.size());
  for (const MeasuredRun& run : runs)
    steps.emplace_back(static_cast<double>(run.mesh.ranks()), run.step_s);
  set_fitted(machine, "straggler-per-doubling", std::clamp(fit_straggling(steps).slope, 0.0, 0.2),
             runs.size());
  ForecastCache cache;
  for (int round = 0; round < kRounds; ++round) {
    double log_ratio = 0;
    for (const MeasuredRun& run : runs)
      log_ratio += std::log(run.step_s / forecast(machine, model, run, true, &cache).step_s) /
                   static_cast<double>(runs.size());
    scale_kernels(machine, std::exp(log_ratio), runs.size());
  }
}

}  // namespace

std::vector<MeasuredRun> read_runs(const std::filesystem::path& file) {
  std::vector<MeasuredRun> runs;
  for (const CsvLine& line : read_csv(file)) {
    if (line.cells.size() != 9)
      throw UsageError(fmt::format("{}: {} columns", line.where, line.cells.size()),
                       "give label,parts,replicas,batch,step_ms,eval_step_ms,staging_s,startup_s,"
                       "minutes");
    MeasuredRun run;
    run.label = line.cells[0];
    run.mesh = {static_cast<std::int64_t>(line.number(2, 1)), parse_part_grid(line.cells[1])};
    run.batch = static_cast<std::int64_t>(line.number(3, 1));
    run.step_s = line.number(4, 0.001) * 1e-3;
    run.evaluation_step_s = line.number(5, 0) * 1e-3;
    run.staging_s = line.number(6, 0);
    run.startup_s = line.number(7, 0);
    run.minutes = line.number(8, 0);
    local_batch(run.batch, run.mesh);
    runs.push_back(run);
  }
  return runs;
}

double Straggling::step_s(double ranks) const { return base_s * (1 + slope * std::log2(ranks)); }

Straggling fit_straggling(const std::vector<std::pair<double, double>>& steps, double prior) {
  constexpr double kNoise = 0.01;
  double mean = 0;
  for (const auto& step : steps) mean += step.second / static_cast<double>(steps.size());
  // The unknowns are the base b and the growth m = slope * b, in units of the mean step. The
  // equations are b + m L = t with weight 1 / noise, and m - prior b = 0 with weight 1 / (prior /
  // 2).
  double bb = 0, bm = 0, mm = 0, by = 0, my = 0;
  for (const auto& [ranks, seconds] : steps) {
    const double l = std::log2(ranks), weight = 1 / (kNoise * kNoise), y = seconds / mean;
    bb += weight, bm += weight * l, mm += weight * l * l;
    by += weight * y, my += weight * l * y;
  }
  const double belief = 4 / (prior * prior);
  bb += belief * prior * prior, bm -= belief * prior, mm += belief;
  const double determinant = bb * mm - bm * bm;
  const double b = (by * mm - my * bm) / determinant, m = (bb * my - bm * by) / determinant;
  return {b * mean, m / b};
}

Machine fit_to_runs(Machine machine, const Model& model, const std::vector<MeasuredRun>& runs) {
  if (runs.empty()) throw UsageError("there are no measured runs to fit", "give one or more");
  const bool one_cut = std::all_of(runs.begin(), runs.end(), [&](const MeasuredRun& run) {
    return run.mesh.parts == runs[0].mesh.parts;
  });
  if (one_cut)
    fit_one_cut(machine, model, runs);
  else
    fit_cuts(machine, model, runs);
  return machine;
}

double predicted_step_s(const Machine& machine, const Model& model, const MeasuredRun& run,
                        bool training) {
  return forecast(machine, model, run, training).step_s;
}

}  // namespace halomesh
