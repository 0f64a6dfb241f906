// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "src/apps/report/extrapolation.hpp"
#include "src/apps/report/figure_parts.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {
namespace {

std::vector<std::string> row_of(const Extrapolation& one) {
  const Configuration& c = one.configuration;
  std::vector<std::string> row = {fmt::format("{} x {}", c.replicas, to_string(c.parts)),
                                  shown(one.ranks), std::to_string(c.batch)};
  if (one.base == nullptr) {
    row.insert(row.end(), {"-", "-", "-", "-", "-", "nothing was measured with these parts"});
    return row;
  }
  const double scale = one.ranks / one.base->ranks;
  std::string source = fmt::format("{} on {} ranks", one.base->source, shown(one.base->ranks));
  if (!one.base->evaluation_measured) source += "; evaluation taken as slow as training";
  row.insert(
      row.end(),
      {shown(one.base->training * scale), shown(one.base->evaluation * scale),
       shown(one.seconds_per_epoch),
       !one.epochs ? "not known"
       : one.epochs->deviation > 0
           ? fmt::format("{} ± {}", shown(one.epochs->mean), shown(one.epochs->deviation))
           : shown(one.epochs->mean),
       one.epochs ? fmt::format("{} ± {}", shown(one.seconds / 60), shown(one.deviation / 60))
                  : "-",
       source});
  return row;
}

Series measured(const ReportInput& input) {
  Series series = new_series("measured", Mark::kPoints);
  for (const RunGroup& group : group_runs(input.runs)) {
    const Statistics minutes = group.of([](const RunNumbers& run) {
      return run.reached && run.times.solution ? *run.times.solution / 60 : std::nan("");
    });
    if (minutes.count > 0 && group.first().ranks > 0)
      series.data.push_back(
          with_range(point(static_cast<double>(group.first().ranks), minutes.mean, group.label),
                     minutes.least, minutes.most));
  }
  return series;
}

}  // namespace

Section extrapolation_section(const ReportInput& input) {
  Section section{"extrapolation", "Configurations that did not run (extrapolated)", {}, {}, {}};
  if (input.predict.empty()) return section;
  const std::vector<MeasuredRates> rates = measured_rates(input);
  Table table = new_table(
      "extrapolated", "Time to solution, extrapolated",
      {"replicas x parts", "ranks", "batch", "training in samples/s", "evaluation in samples/s",
       "epoch in s", "epochs", "time to solution in min", "rates from"},
      "<>>>>>>><",
      fmt::format("T = T_stg + E (N_t / s_t + N_v / s_v), with the rate per rank of the nearest "
                  "measurement with the same parts, after {}. The deviation comes from that of the "
                  "epochs and of the rates. Staging is that of the measured run.",
                  kPaper));
  Figure figure = new_figure("extrapolated-time", "Time to solution, extrapolated", {"ranks", true},
                             {"time to solution in min", true},
                             "Extrapolated at constant throughput per rank; whiskers: one "
                             "standard deviation.");
  Series points = new_series("extrapolated", Mark::kPoints);
  for (const Configuration& configuration : input.predict) {
    const Extrapolation one = extrapolate(configuration, rates, input);
    table.rows.push_back(row_of(one));
    if (one.seconds > 0)
      points.data.push_back(
          with_range(point(one.ranks, one.seconds / 60,
                           fmt::format("{} x {}, batch {}", configuration.replicas,
                                       to_string(configuration.parts), configuration.batch)),
                     std::max(one.seconds - one.deviation, one.seconds * 0.01) / 60,
                     (one.seconds + one.deviation) / 60));
    if (one.base != nullptr && !one.epochs)
      section.paragraphs.push_back(fmt::format(
          "How many epochs batch size {} needs is not known: give a run with it that reached its "
          "target, or --epochs-to-target N.",
          configuration.batch));
  }
  const auto [training, validation] = samples_of(input);
  table.notes.push_back(fmt::format("For {} training and {} validation samples.", shown(training),
                                    shown(validation)));
  add_series(figure, std::move(points));
  add_series(figure, measured(input));
  if (!figure.series.empty()) section.figures.push_back(std::move(figure));
  section.tables.push_back(std::move(table));
  return section;
}

}  // namespace halomesh
