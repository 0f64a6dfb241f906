// SPDX-License-Identifier: Apache-2.0
// The roofline of Williams, Waterman, Patterson (CACM 52, 2009) with a point per layer and phase,
// and the bounds of a whole step where bench has measured the network.
#include <algorithm>
#include <cmath>

#include "src/apps/report/figure_parts.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {
namespace {

constexpr std::size_t kMostFigures = 4;
constexpr double kSmallShare = 1e-3;  // of a step: smaller phases have no point

using Json = nlohmann::json;

double peak_of(const Json& record, const std::string& precision) {
  const double fp32 = number_at(record, {"peak", "fp32_flops_per_second"});
  const double bf16 = number_at(record, {"peak", "bf16_flops_per_second"});
  return precision == "bf16" && bf16 > fp32 ? bf16 : fp32;
}

void add_points(Figure& figure, const Json& run) {
  const double step = number_at(run, {"mean_step_seconds"});
  for (const Json& row : run.value("phases", Json::array())) {
    const double flops = number_at(row, {"flops"}), bytes = number_at(row, {"memory_bytes"});
    const double seconds = number_at(row, {"seconds_mean_over_ranks"});
    if (!(flops > 0) || !(bytes > 0) || !(seconds > kSmallShare * step)) continue;
    const std::string phase = text_at(row, {"phase"});
    auto series = std::find_if(figure.series.begin(), figure.series.end(),
                               [&](const Series& one) { return one.name == phase; });
    if (series == figure.series.end())
      series = figure.series.insert(figure.series.end(), new_series(phase, Mark::kPoints));
    series->data.push_back(point(
        flops / bytes, 1e-9 * number_at(row, {"flops_per_second"}),
        fmt::format("{} {}: {} of the step, {} of the roofline", text_at(row, {"layer"}), phase,
                    percent(seconds / step), percent(number_at(row, {"roof_fraction"})))));
  }
}

void add_roof(Figure& figure, double peak, double triad) {
  const auto [least, most] = range_over(figure, [](const Datum& datum) { return datum.x; });
  const double ridge = peak / triad;
  const double from = std::min(least, ridge) / 4, to = std::max(most, ridge) * 4;
  figure.series.push_back(new_series(
      fmt::format("roof: {} GF/s, {} GB/s", shown(1e-9 * peak), shown(1e-9 * triad)), Mark::kLine,
      {point(from, 1e-9 * triad * from), point(ridge, 1e-9 * peak), point(to, 1e-9 * peak)}));
}

Figure roofline(const BenchFile& bench, const Json& run, std::size_t number) {
  const std::string precision = text_at(run, {"precision"});
  Figure figure = new_figure(
      fmt::format("roofline-{}", number),
      fmt::format("Roofline: {}, {} x {} parts, {}", bench.name,
                  shown(number_at(run, {"replicas"})), text_at(run, {"parts"}), precision),
      {"arithmetic intensity in operations/byte", true}, {"GF/s", true},
      "All ranks together. Bytes are the least that a phase must move; the roof is the measured "
      "peak of multiply-adds and the triad bandwidth.");
  add_points(figure, run);
  const double peak = peak_of(bench.record, precision);
  const double triad = number_at(bench.record, {"peak", "triad_bytes_per_second"});
  if (!figure.series.empty() && peak > 0 && triad > 0) add_roof(figure, peak, triad);
  return figure;
}

/// Every number of seconds in a run's "bound", beside the measured step.
Table bounds(const ReportInput& input) {
  Table table = new_table(
      "bounds", "Bounds of a step", {"run", "bound", "ms", "of the measured step"}, "<<>>",
      "Extended roofline: a step takes at least as long as the longest of computation at peak, "
      "memory at triad bandwidth, and messages at the measured bandwidth of the network.");
  for (const BenchFile& bench : input.benches)
    for (const Json& run : bench.record["runs"]) {
      if (!run.contains("bound") || !run["bound"].is_object()) continue;
      const double step = number_at(run, {"mean_step_seconds"});
      const std::string name = fmt::format(
          "{}: {} x {}", bench.name, shown(number_at(run, {"replicas"})), text_at(run, {"parts"}));
      for (const auto& [key, value] : run["bound"].items()) {
        const std::size_t unit = key.find("_seconds");
        if (!value.is_number() || unit == std::string::npos || key == "step_seconds") continue;
        std::string label = key.substr(0, unit);
        std::replace(label.begin(), label.end(), '_', ' ');
        const double seconds = value.get<double>();
        table.rows.push_back(
            {name, label, fmt::format("{:.3f}", 1e3 * seconds), percent(seconds / step)});
      }
      table.rows.push_back({name, "measured step", fmt::format("{:.3f}", 1e3 * step), "100.0 %"});
    }
  return table;
}

}  // namespace

Section roofline_section(const ReportInput& input) {
  Section section{"roofline", "Roofline", {}, {}, {}};
  std::size_t number = 0, left_out = 0;
  for (const BenchFile& bench : input.benches)
    for (const Json& run : bench.record["runs"]) {
      Figure figure = roofline(bench, run, number + 1);
      if (figure.series.empty()) continue;
      if (number == kMostFigures) {
        ++left_out;
        continue;
      }
      ++number;
      section.figures.push_back(std::move(figure));
    }
  if (left_out > 0)
    section.paragraphs.push_back(
        fmt::format("Runs of bench without a roofline here: {}.", left_out));
  if (Table table = bounds(input); !table.rows.empty()) section.tables.push_back(std::move(table));
  return section;
}

}  // namespace halomesh
