// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "src/apps/report/figure_parts.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {
namespace {

/// Table 5.
Table ratios(const ReportInput& input, const std::vector<RunGroup>& groups) {
  Table table = new_table(
      "staging-ratio", "Staging against an epoch",
      {"runs", "staging in min", "staging in s", "epoch in s", "staging / epoch"}, "<>>>>",
      fmt::format(
          "As Table 5 of {}: the last column is its compute-to-staging throughput ratio. An "
          "epoch includes its validation.",
          kPaper));
  for (const RunGroup& group : groups) {
    const Statistics staging = group.of([](const RunNumbers& run) { return run.times.staging; });
    if (!(staging.mean > 0)) continue;
    Statistics minutes = staging;
    minutes.mean /= 60;
    minutes.deviation /= 60;
    table.rows.push_back(
        {group.label, with_deviation(minutes), shown(staging.mean),
         shown(group.of([](const RunNumbers& run) { return run.epoch_seconds(); }).mean),
         fmt::format("{:.2f}",
                     group.of([](const RunNumbers& run) { return run.staging_epochs(); }).mean)});
  }
  if (input.show_published && !table.rows.empty())
    for (const PublishedRun& run : published_runs())
      if (run.staging > 0)
        table.rows.push_back({fmt::format("{} (published)", run.name), shown(run.staging / 60),
                              shown(run.staging), shown(run.period),
                              fmt::format("{:.2f}", run.staging / run.period)});
  return table;
}

/// What each run's stage event says.
Table details(const ReportInput& input) {
  Table table = new_table(
      "staging", "Staging of each run",
      {"run", "seconds", "samples", "read", "kept", "read rate", "read rate inside calls per rank",
       "seconds of a rank: mean (least .. most)", "slowest rank"},
      "<>>>>>>>>",
      "Read: from the data set's files. Kept: on the nodes, as stored. Inside calls: bytes over "
      "the time in read calls.");
  for (const RunNumbers& run : input.runs) {
    if (run.files == nullptr || !run.files->stage().is_object()) continue;
    const nlohmann::json& stage = run.files->stage();
    const double seconds = number_at(stage, {"seconds"}), read = number_at(stage, {"bytes_read"});
    const double slowest = number_at(stage, {"rank_seconds", "max_rank"});
    const bool reused = stage.contains("reused") && stage["reused"] == true;
    table.rows.push_back(
        {run.name, shown(seconds), shown(number_at(stage, {"samples"})), with_prefix(read, "B"),
         with_prefix(number_at(stage, {"bytes_staged"}), "B") + (reused ? " (reused)" : ""),
         seconds > 0 ? with_prefix(read / seconds, "B/s") : "-",
         with_prefix(read / number_at(stage, {"read_seconds"}), "B/s"),
         std::isfinite(slowest)
             ? fmt::format("{} ({} .. {})", shown(number_at(stage, {"rank_seconds", "mean"})),
                           shown(number_at(stage, {"rank_seconds", "min"})),
                           shown(number_at(stage, {"rank_seconds", "max"})))
             : "-",
         shown(slowest)});
  }
  return table;
}

}  // namespace

Section staging_section(const ReportInput& input) {
  Section section{"staging", "Staging", {}, {}, {}};
  if (Table table = ratios(input, group_runs(input.runs)); !table.rows.empty())
    section.tables.push_back(std::move(table));
  if (Table table = details(input); !table.rows.empty()) section.tables.push_back(std::move(table));
  return section;
}

}  // namespace halomesh
