// SPDX-License-Identifier: Apache-2.0
// Where the time of a step goes, and how efficiently the ranks work together.
#include <algorithm>
#include <cmath>
#include <optional>

#include "src/apps/report/figure_parts.hpp"
#include "src/apps/report/run_phases.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {
namespace {

constexpr double kSmallShare = 1e-3;  // of a step: smaller phases have no row
constexpr std::size_t kMostBars = 24;

struct Measured {
  const RunNumbers* run = nullptr;
  RunPhases phases;
};

std::vector<Measured> measured_runs(const ReportInput& input) {
  std::vector<Measured> all;
  for (const RunNumbers& run : input.runs) {
    if (run.files == nullptr) continue;
    if (const auto phases = phases_of(*run.files)) all.push_back({&run, *phases});
  }
  return all;
}

std::string milliseconds(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }

std::vector<std::string> range_cells(const RankRange& range, const RunPhases& phases) {
  return {milliseconds(range.mean), milliseconds(range.least), milliseconds(range.most),
          range.most > range.least ? name_of_rank(range.slowest_rank, phases) : "-",
          percent(range.mean / phases.step.mean)};
}

const std::vector<std::string> kRangeColumns = {"mean in ms", "least in ms", "most in ms",
                                                "slowest rank", "of a step"};

Table kinds_table(const std::vector<Measured>& runs) {
  std::vector<std::string> columns = {"run", "kind"};
  columns.insert(columns.end(), kRangeColumns.begin(), kRangeColumns.end());
  Table table = new_table("step-kinds", "A step by kind of time", columns, "<<>>>>>",
                          "Per step, over ranks; means over all steps.");
  for (const Measured& one : runs) {
    const auto add = [&](const std::string& kind, const RankRange& range) {
      std::vector<std::string> row = {one.run->name, kind};
      for (const std::string& cell : range_cells(range, one.phases)) row.push_back(cell);
      table.rows.push_back(row);
    };
    for (std::size_t kind = 0; kind < kPhaseKinds; ++kind)
      add(name_of(static_cast<PhaseKind>(kind)), one.phases.kinds[kind]);
    add("step", one.phases.step);
  }
  return table;
}

Table layers_table(const Measured& one, std::size_t number) {
  std::vector<std::string> columns = {"layer", "phase"};
  columns.insert(columns.end(), kRangeColumns.begin(), kRangeColumns.end());
  columns.emplace_back("received in kB");
  Table table = new_table(fmt::format("step-layers-{}", number),
                          fmt::format("A step of {} by layer and phase", one.run->name), columns,
                          "<<>>>>>>", "Per step, over ranks. Bytes: sum over ranks.");
  double small = 0;
  std::vector<PhaseShare> rows = one.phases.rows;
  std::stable_sort(rows.begin(), rows.end(), [](const PhaseShare& a, const PhaseShare& b) {
    return a.seconds.mean > b.seconds.mean;
  });
  for (const PhaseShare& row : rows) {
    if (row.seconds.mean < kSmallShare * one.phases.step.mean) {
      small += row.seconds.mean;
      continue;
    }
    std::vector<std::string> cells = {row.layer.empty() ? "-" : row.layer, row.phase};
    for (const std::string& cell : range_cells(row.seconds, one.phases)) cells.push_back(cell);
    cells.push_back(row.received_bytes > 0 ? fmt::format("{:.1f}", row.received_bytes * 1e-3)
                                           : "-");
    table.rows.push_back(cells);
  }
  if (small > 0)
    table.notes.push_back(
        fmt::format("Phases below 0.1 % of a step, together: {} ms.", milliseconds(small)));
  return table;
}

std::string mesh_label(const Measured& one) {
  return fmt::format("{}: {} x {}", one.run->name, one.phases.replicas, one.run->parts);
}

/// Fig. 6: computation and communication as parts of a step.
Figure shares(const std::vector<Measured>& runs) {
  Figure figure = new_figure(
      "step-shares", "Parts of a step", {""}, {"% of a step"},
      fmt::format(
          "Mean over ranks and steps, by run and mesh (replicas x parts); compare Fig. 6 of "
          "{}.",
          kPaper));
  figure.stacked = true;
  figure.horizontal = true;
  for (std::size_t kind = 0; kind < kPhaseKinds; ++kind) {
    Series series = new_series(name_of(static_cast<PhaseKind>(kind)), Mark::kBars);
    for (std::size_t i = 0; i < std::min(runs.size(), kMostBars); ++i) {
      const RankRange& range = runs[i].phases.kinds[kind];
      series.data.push_back(
          point(static_cast<double>(i), 100 * range.mean / runs[i].phases.step.mean,
                fmt::format("{} {} ms ({} .. {})", series.name, milliseconds(range.mean),
                            milliseconds(range.least), milliseconds(range.most))));
    }
    figure.series.push_back(std::move(series));
  }
  for (std::size_t i = 0; i < std::min(runs.size(), kMostBars); ++i)
    figure.categories.push_back(mesh_label(runs[i]));
  return figure;
}

/// The same over the number of ranks, with the spread over ranks.
Figure waiting(const std::vector<Measured>& runs) {
  Figure figure = new_figure(
      "waiting-ranks", "Waiting against ranks", {"ranks", true}, {"% of a step"},
      "Time that ranks wait for halos and for sums of gradients: mean, and least to most over "
      "ranks.");
  for (const PhaseKind kind : {PhaseKind::kHaloWait, PhaseKind::kReductionWait}) {
    Series series = new_series(name_of(kind), Mark::kPoints);
    for (const Measured& one : runs) {
      const RankRange& range = one.phases.of(kind);
      const double scale = 100 / one.phases.step.mean;
      series.data.push_back(with_range(
          point(static_cast<double>(one.phases.ranks), scale * range.mean, mesh_label(one)),
          scale * range.least, scale * range.most));
    }
    figure.series.push_back(std::move(series));
  }
  return figure;
}

/// Useful seconds of all ranks for one sample.
double useful_per_sample(const Measured& one) {
  return one.phases.useful() * static_cast<double>(one.phases.ranks) /
         static_cast<double>(std::max<std::int64_t>(one.run->batch, 1));
}

Table efficiency(const std::vector<Measured>& runs) {
  Table table = new_table(
      "efficiency", "Parallel efficiency",
      {"run", "ranks", "load balance", "communication efficiency", "parallel efficiency",
       "computation scaling", "global efficiency"},
      "<>>>>>>",
      "Metrics of the POP centres of excellence (co-design.pop-coe.eu/metrics); useful time is "
      "compute and optimizer. Load balance: mean / most useful time. Communication efficiency: "
      "most useful time / time of a step. Parallel: their product. Computation scaling: useful "
      "time per sample of the first run / of this run, over all ranks. Global: parallel x "
      "computation scaling.");
  for (const Measured& one : runs) {
    const double scaling = useful_per_sample(runs.front()) / useful_per_sample(one);
    const bool alone = runs.size() == 1;
    table.rows.push_back({one.run->name, std::to_string(one.phases.ranks),
                          percent(one.phases.load_balance), percent(one.phases.communication),
                          percent(one.phases.parallel), alone ? "-" : percent(scaling),
                          alone ? "-" : percent(scaling * one.phases.parallel)});
  }
  table.notes.emplace_back("Below 80 %, look for the cause.");
  return table;
}

}  // namespace

Section phases_section(const ReportInput& input) {
  Section section{"step", "A step in parts", {}, {}, {}};
  const std::vector<Measured> runs = measured_runs(input);
  if (runs.empty()) return section;
  for (const Measured& one : runs)
    if (!one.phases.limit.empty())
      section.paragraphs.push_back(fmt::format("{}: {}.", one.run->name, one.phases.limit));
  section.figures.push_back(shares(runs));
  if (runs.size() > 1) section.figures.push_back(waiting(runs));
  section.tables.push_back(kinds_table(runs));
  section.tables.push_back(efficiency(runs));
  for (std::size_t i = 0; i < std::min<std::size_t>(runs.size(), 6); ++i)
    section.tables.push_back(layers_table(runs[i], i + 1));
  return section;
}

}  // namespace halomesh
