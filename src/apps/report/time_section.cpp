// SPDX-License-Identifier: Apache-2.0
// Time to solution: its parts, its score, and the throughput behind it.
#include <algorithm>
#include <cmath>
#include <set>

#include "joined.hpp"
#include "src/apps/report/figure_parts.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {
namespace {

constexpr std::size_t kMostBars = 24;

double rounded(double value) { return value == 0 ? 0.0 : value; }

/// Fig. 1: the parts of T_sol in percent, the rest included.
Figure parts_of_time(const std::vector<RunGroup>& groups) {
  Figure figure = new_figure(
      "time-parts", "Parts of the time to solution", {""}, {"% of the time to solution"},
      fmt::format("Staging, evaluation and training as in Fig. 1 of {}; the rest is start-up, "
                  "opening files and checkpoints.",
                  kPaper));
  figure.stacked = true;
  figure.horizontal = true;
  std::vector<Series> parts;
  for (const char* name : {"staging", "evaluation", "training", "rest"})
    parts.push_back(new_series(name, Mark::kBars));
  for (const RunGroup& group : groups) {
    const double total = group.of([](const RunNumbers& run) { return run.times.total(); }).mean;
    if (!(total > 0) || figure.categories.size() == kMostBars) continue;
    const double values[] = {
        group.of([](const RunNumbers& run) { return run.times.staging; }).mean,
        group.of([](const RunNumbers& run) { return run.times.evaluation; }).mean,
        group.of([](const RunNumbers& run) { return run.times.training; }).mean,
        group.of([](const RunNumbers& run) { return run.times.rest(); }).mean};
    const auto row = static_cast<double>(figure.categories.size());
    for (std::size_t part = 0; part < parts.size(); ++part)
      parts[part].data.push_back(
          point(row, 100 * std::max(rounded(values[part]), 0.0) / total,
                fmt::format("{} {}", parts[part].name, duration(values[part]))));
    const bool open = std::any_of(group.runs.begin(), group.runs.end(),
                                  [](const RunNumbers* run) { return !run->times.solution; });
    figure.categories.push_back(group.label + (open ? " (not ended)" : ""));
  }
  if (!figure.categories.empty()) figure.series = std::move(parts);
  return figure;
}

/// The runs of a group as the score sees them; only if all have ended.
std::vector<MlperfRun> scored(const RunGroup& group) {
  std::vector<MlperfRun> runs;
  for (const RunNumbers* numbers : group.runs) {
    MlperfRun run;
    run.end = numbers->reached ? MlperfEnd::kReached : MlperfEnd::kMissed;
    if (!numbers->times.solution) run.end = MlperfEnd::kUnfinished;
    run.minutes = numbers->times.total() / 60;
    runs.push_back(run);
  }
  return runs;
}

std::vector<std::string> score_cells(const std::vector<MlperfRun>& runs) {
  const MlperfScore score = score_runs(runs);
  std::vector<double> minutes;
  for (const MlperfRun& run : runs)
    if (run.end == MlperfEnd::kReached) minutes.push_back(*run.minutes);
  const Statistics reached = statistics_of(minutes);
  return {std::to_string(runs.size()), fmt::format("{}", score.missed),
          score.olympic_minutes ? fmt::format("{:.2f}", *score.olympic_minutes) : "-",
          with_deviation(reached),
          reached.count > 1 ? fmt::format("{} ({} .. {})", shown(reached.median),
                                          shown(reached.least), shown(reached.most))
                            : "-"};
}

std::string count_or_dash(std::int64_t count) { return count > 0 ? std::to_string(count) : "-"; }

std::vector<std::string> submission_cells(const RunGroup& group) {
  const RunFiles* files = group.first().files;
  if (files == nullptr) return {"-", "-", group.label, "-", "-", "-"};
  const double sockets = number_at(files->run(), {"machine", "sockets"});
  const auto processors =
      group.first().nodes > 0 && sockets > 0
          ? std::to_string(group.first().nodes * static_cast<std::int64_t>(sockets))
          : "-";
  const std::string platform = option_of(*files, "submission-platform");
  const std::string division = option_of(*files, "submission-division");
  return {division.empty() ? "-" : division,
          platform.empty() ? group.first().cpu : platform,
          group.label,
          "halomesh " + text_at(files->run(), {"version"}),
          processors,
          "0"};
}

/// Table 4.
Table scores(const ReportInput& input, const std::vector<RunGroup>& groups) {
  Table table = new_table(
      "scores", "Time to solution",
      {"division", "system", "submission", "software", "processors", "accelerators", "runs",
       "missed", "olympic mean in min", "mean in min", "median (range) in min"},
      "<<<<>>>>>>>",
      fmt::format(
          "As Table 4 of {}. The olympic mean leaves out the fastest and the slowest run; a "
          "run that missed the target counts as the slowest.",
          kPaper));
  const auto add = [&](std::vector<std::string> cells, const std::vector<std::string>& score) {
    cells.insert(cells.end(), score.begin(), score.end());
    table.rows.push_back(std::move(cells));
  };
  for (const RunGroup& group : groups)
    if (group.any_reached()) add(submission_cells(group), score_cells(scored(group)));
  const auto or_dash = [](const std::string& text) { return text.empty() ? "-" : text; };
  for (const ResultRow& row : input.results)
    add({or_dash(row.division), or_dash(row.system), row.submission, or_dash(row.software),
         or_dash(row.processors), or_dash(row.accelerators)},
        score_cells(row.runs));
  if (input.show_published && !table.rows.empty())
    for (const PublishedRun& run : published_runs())
      add({run.division, run.system, fmt::format("{} (published)", run.name), "-", "-", "-"},
          {"10", "-", fmt::format("{:.2f}", run.minutes), "-", "-"});
  return table;
}

/// Table 6.
Table throughput(const ReportInput& input, const std::vector<RunGroup>& groups) {
  Table table = new_table(
      "throughput", "Throughput and budget",
      {"runs", "batch", "epochs", "ranks", "training in samples/s per rank",
       "evaluation in samples/s per rank", "time to solution in min", "budget in h x ranks"},
      "<>>>>>>>",
      fmt::format("As Table 6 of {}; a worker is a rank. Budget: time to solution x ranks.",
                  kPaper));
  const auto over_ranks = [](double value, double ranks) {
    return ranks > 0 ? shown(value / ranks) : "-";
  };
  for (const RunGroup& group : groups) {
    const auto ranks = static_cast<double>(group.first().ranks);
    const Statistics minutes = group.of([](const RunNumbers& run) {
      return run.times.solution ? *run.times.solution / 60 : std::nan("");
    });
    table.rows.push_back(
        {group.label, count_or_dash(group.first().batch),
         with_deviation(group.epochs()) + (group.any_reached() ? "" : " (target not reached)"),
         count_or_dash(group.first().ranks),
         over_ranks(group.of([](const RunNumbers& run) { return run.training_rate(); }).mean,
                    ranks),
         over_ranks(group.of([](const RunNumbers& run) { return run.evaluation_rate(); }).mean,
                    ranks),
         with_deviation(minutes),
         ranks > 0 && minutes.count > 0 ? fmt::format("{:.2f}", minutes.mean / 60 * ranks) : "-"});
  }
  if (input.show_published)
    for (const PublishedRun& run : published_runs())
      table.rows.push_back(
          {fmt::format("{} (published)", run.name), shown(run.batch),
           fmt::format("{} ({} .. {})", run.epochs, run.least_epochs, run.most_epochs),
           shown(run.workers), shown(run.training_rate() / run.workers),
           shown(run.evaluation_rate() / run.workers), shown(run.minutes),
           fmt::format("{:.2f}", run.minutes / 60 * run.workers)});
  return table;
}

/// Eq. 1 and 2, with the epochs that were needed.
Table epochs(const std::vector<RunNumbers>& runs) {
  Table table = new_table(
      "equation", "Time to solution from its epochs",
      {"run", "T_sol in s", "T_stg in s", "T_epoch in s", "median T_epoch in s", "E",
       "T_extra in s", "q", "T_stg / T_sol", "q / (q + E)", "mean absolute error"},
      "<>>>>>>>>>>",
      fmt::format("T_sol = T_stg + T_epoch E + T_extra (Eq. 1 of {}); q = T_stg / T_epoch, and "
                  "T_stg / T_sol = q / (q + E) where T_extra is 0 (Eq. 2). T_epoch includes the "
                  "validation; its median leaves out the first epoch.",
                  kPaper));
  for (const RunNumbers& run : runs) {
    if (run.epochs <= 0 || run.epoch_s.empty()) continue;
    const double q = run.staging_epochs(), extra = run.times.rest();
    const bool ended = run.times.solution.has_value();
    const std::vector<double> later(run.epoch_s.begin() + (run.epoch_s.size() > 1 ? 1 : 0),
                                    run.epoch_s.end());
    table.rows.push_back({run.name, ended ? shown(run.times.total()) : "-",
                          shown(run.times.staging), shown(run.epoch_seconds()),
                          shown(statistics_of(later).median), shown(run.epochs),
                          !ended                             ? "-"
                          : extra > 0.02 * run.times.total() ? shown(extra) + " *"
                                                             : shown(rounded(extra)),
                          shown(q), ended ? percent(run.times.staging / run.times.total()) : "-",
                          percent(q / (q + run.epochs)),
                          run.best_score ? fmt::format("{:.5f}", *run.best_score) : "-"});
  }
  table.notes.emplace_back(
      "* T_extra is more than 2 % of T_sol: Eq. 2, which leaves it out, is off.");
  return table;
}

}  // namespace

Section time_section(const ReportInput& input) {
  Section section{"time", "Time to solution", {}, {}, {}};
  const std::vector<RunGroup> groups = group_runs(input.runs);
  if (Figure figure = parts_of_time(groups); !figure.series.empty())
    section.figures.push_back(std::move(figure));
  if (Table table = epochs(input.runs); !table.rows.empty())
    section.tables.push_back(std::move(table));
  if (Table table = scores(input, groups); !table.rows.empty())
    section.tables.push_back(std::move(table));
  if (!groups.empty()) section.tables.push_back(throughput(input, groups));
  std::set<std::string> without_log;
  for (const RunNumbers& run : input.runs)
    if (!run.times.from_log) without_log.insert(run.name);
  if (!without_log.empty() && !section.tables.empty())
    section.paragraphs.push_back(fmt::format(
        "Without mllog.txt, times are those of metrics.jsonl, where training is the sum "
        "of the steps: {}.",
        joined(without_log, ", ")));
  return section;
}

}  // namespace halomesh
