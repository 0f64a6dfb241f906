// SPDX-License-Identifier: Apache-2.0
// How batch size, epochs and throughput depend on each other and on the number of ranks: Fig. 2 and
// 3 of Farrell et al., arXiv:2110.11466.
#include <algorithm>
#include <cmath>

#include "src/apps/report/figure_parts.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {
namespace {

using Groups = std::vector<RunGroup>;

double ranks_of(const RunGroup& group) { return static_cast<double>(group.first().ranks); }
double batch_of(const RunGroup& group) { return static_cast<double>(group.first().batch); }

/// A point for each group for which both numbers are known, named after it.
template <class Point>
Series series_of(const char* name, const Groups& groups, const Point& make) {
  Series series = new_series(name, Mark::kPoints);
  for (const RunGroup& group : groups) {
    const Datum datum = make(group);
    if (datum.x > 0 && datum.y > 0 && std::isfinite(datum.y)) series.data.push_back(datum);
  }
  return series;
}

template <class Point>
Series published(const char* name, const ReportInput& input, const Point& make) {
  Series series = grey(new_series(name, Mark::kPoints));
  if (!input.show_published) return series;
  for (const PublishedRun& run : published_runs()) {
    series.data.push_back(make(run));
    series.data.back().label = run.name;
  }
  return series;
}

Axis log_axis(const char* label) { return {label, true}; }

std::string caption(const char* number, const char* text) {
  return fmt::format("{} As Fig. {} of {}.", text, number, kPaper);
}

Figure batch_over_ranks(const ReportInput& input, const Groups& groups) {
  Figure figure = new_figure(
      "batch-ranks", "Batch size against ranks", log_axis("ranks"), log_axis("batch size"),
      caption("2a", "Diagonals: ranks per sample of the batch, the intensity of communication."));
  add_series(figure, series_of("runs", groups, [](const RunGroup& group) {
               return point(ranks_of(group), batch_of(group), group.label);
             }));
  add_series(figure, published("published", input, [](const PublishedRun& run) {
               return point(run.workers, run.batch);
             }));
  for (const double ratio : {0.25, 0.5, 1.0, 2.0, 4.0, 16.0})
    figure.levels.push_back({fmt::format("{} ranks per sample", ratio), 1 / ratio, 1});
  return figure;
}

double samples_per_epoch(const Groups& groups) {
  for (const RunGroup& group : groups)
    if (group.first().training_samples > 0)
      return static_cast<double>(group.first().training_samples);
  return 262144;
}

Figure batch_over_epochs(const ReportInput& input, const Groups& groups) {
  Figure figure =
      new_figure("batch-epochs", "Epochs to the target and batch size",
                 log_axis("epochs to the target"), log_axis("batch size"),
                 caption("2b", "Mean over the runs that reached it. Diagonals: optimizer steps."));
  add_series(figure, series_of("runs", groups, [](const RunGroup& group) {
               const Statistics epochs = group.epochs();
               return point(group.any_reached() ? epochs.mean : std::nan(""), batch_of(group),
                            fmt::format("{}: {} epochs", group.label, with_deviation(epochs)));
             }));
  add_series(figure, published("published", input, [](const PublishedRun& run) {
               return point(run.epochs, run.batch);
             }));
  const double samples = samples_per_epoch(groups);
  for (const double steps :
       decades(range_over(figure, [&](const Datum& datum) { return datum.x * samples / datum.y; })))
    figure.levels.push_back({fmt::format("{} steps", shown(steps)), samples / steps, 1});
  return figure;
}

Datum combined(const RunGroup& group) {
  const RunNumbers& first = group.first();
  std::vector<double> rates;
  for (const RunNumbers* run : group.runs)
    for (const double seconds : run->epoch_s) rates.push_back(first.combined_rate(seconds));
  const double mean =
      group.of([](const RunNumbers& run) { return run.combined_rate(run.epoch_seconds()); }).mean;
  const Statistics spread = statistics_of(rates);
  return with_range(point(ranks_of(group), mean, group.label), spread.least, spread.most);
}

/// From (batch, rate) to (ranks, rate), where they differ.
void add_links(Figure& figure, const Groups& groups) {
  for (const RunGroup& group : groups) {
    const double rate = group.of([](const RunNumbers& run) { return run.training_rate(); }).mean;
    if (ranks_of(group) == batch_of(group) || ranks_of(group) <= 0 || !(rate > 0)) continue;
    Series link = new_series("batch to ranks: " + group.label, Mark::kLine,
                             {point(batch_of(group), rate), point(ranks_of(group), rate)});
    link.dashed = true;
    add_series(figure, std::move(link));
  }
}

Figure rate_over_ranks(const ReportInput& input, const Groups& groups) {
  Figure figure = new_figure(
      "throughput-ranks", "Throughput against ranks", log_axis("ranks"), log_axis("samples/s"),
      caption("2c",
              "Combined: training and validation samples over the time of an epoch, mean and range "
              "over epochs. Diagonals: samples/s per rank."));
  figure.top = SecondScale{"batch size (one sample per rank)", 1};
  const auto& first = groups.front().first();
  if (const auto all = first.training_samples + first.validation_samples; all > 0)
    figure.right = SecondScale{"epochs/s", 1 / static_cast<double>(all)};
  add_series(figure, series_of("training", groups, [](const RunGroup& group) {
               return point(
                   ranks_of(group),
                   group.of([](const RunNumbers& run) { return run.training_rate(); }).mean,
                   group.label);
             }));
  add_series(figure, series_of("evaluation", groups, [](const RunGroup& group) {
               return point(
                   ranks_of(group),
                   group.of([](const RunNumbers& run) { return run.evaluation_rate(); }).mean,
                   group.label);
             }));
  add_series(figure, series_of("combined", groups, combined));
  if (groups.size() <= 8) add_links(figure, groups);
  add_series(figure, published("published, training", input, [](const PublishedRun& run) {
               return point(run.workers, run.training_rate());
             }));
  add_series(figure, published("published, evaluation", input, [](const PublishedRun& run) {
               return point(run.workers, run.evaluation_rate());
             }));
  for (const double rate :
       decades(range_over(figure, [](const Datum& datum) { return datum.y / datum.x; })))
    figure.levels.push_back({fmt::format("{} samples/s per rank", shown(rate)), rate, 1});
  return figure;
}

Figure epoch_rate_over_epochs(const ReportInput& input, const Groups& groups) {
  Figure figure = new_figure(
      "epoch-rate", "Speed of an epoch against the epochs to the target",
      log_axis("epochs to the target"), log_axis("epochs/s"),
      caption("2d", "Diagonals: time of all epochs. Joins the two figures on batch size."));
  add_series(figure, series_of("runs", groups, [](const RunGroup& group) {
               const double seconds =
                   group.of([](const RunNumbers& run) { return run.epoch_seconds(); }).mean;
               return point(group.any_reached() ? group.epochs().mean : std::nan(""), 1 / seconds,
                            group.label);
             }));
  add_series(figure, published("published", input, [](const PublishedRun& run) {
               return point(run.epochs, 1 / run.period);
             }));
  const auto [least, most] =
      range_over(figure, [](const Datum& datum) { return datum.x / datum.y; });
  for (const double seconds : {1.0, 10.0, 60.0, 600.0, 3600.0, 36000.0, 360000.0})
    if (seconds > least / 10 && seconds < most * 10)
      figure.levels.push_back({duration(seconds), 1 / seconds, 1});
  return figure;
}

/// Fig. 3: runs with one sample per rank. Two figures, as the quantities have axes of their own.
std::vector<Figure> one_sample_per_rank(const Groups& all) {
  Groups groups;
  for (const RunGroup& group : all)
    if (group.first().ranks > 0 && group.first().ranks == group.first().batch)
      groups.push_back(group);
  if (groups.size() < 2) return {};
  std::sort(groups.begin(), groups.end(),
            [](const RunGroup& a, const RunGroup& b) { return a.first().ranks < b.first().ranks; });
  Figure time = new_figure("weak-time", "Time to solution with one sample per rank",
                           log_axis("ranks = batch size"), {"time to solution in min"},
                           caption("3, left axis", "Mean over the runs, and their range."));
  Figure epochs = new_figure("weak-epochs", "Epochs with one sample per rank",
                             log_axis("ranks = batch size"), {"epochs to the target"},
                             caption("3, right axis", "Mean over the runs, and their range."));
  Series times = new_series("time to solution", Mark::kLineAndPoints);
  Series counts = new_series("epochs", Mark::kLineAndPoints);
  for (const RunGroup& group : groups) {
    const Statistics minutes = group.of([](const RunNumbers& run) {
      return run.times.solution ? *run.times.solution / 60 : std::nan("");
    });
    const Statistics needed = group.epochs();
    times.data.push_back(
        with_range(point(ranks_of(group), minutes.mean, group.label), minutes.least, minutes.most));
    counts.data.push_back(
        with_range(point(ranks_of(group), needed.mean, group.label), needed.least, needed.most));
  }
  add_series(time, std::move(times));
  add_series(epochs, std::move(counts));
  return {time, epochs};
}

}  // namespace

Section scaling_section(const ReportInput& input) {
  Section section{"scaling", "Batch size, epochs and throughput", {}, {}, {}};
  Groups groups = group_runs(input.runs);
  groups.erase(std::remove_if(groups.begin(), groups.end(),
                              [](const RunGroup& group) {
                                return group.first().batch == 0 || group.first().steps == 0;
                              }),
               groups.end());
  if (groups.empty()) return section;
  for (Figure figure : {batch_over_ranks(input, groups), batch_over_epochs(input, groups),
                        rate_over_ranks(input, groups), epoch_rate_over_epochs(input, groups)}) {
    // Published points alone say nothing about these runs.
    if (!figure.series.empty() && !figure.series.front().published)
      section.figures.push_back(std::move(figure));
  }
  for (Figure& figure : one_sample_per_rank(groups))
    if (!figure.series.empty()) section.figures.push_back(std::move(figure));
  if (input.show_published)
    section.paragraphs.emplace_back(
        "Grey: CosmoFlow in MLPerf HPC v0.7, medians recomputed from the logs of the published "
        "runs "
        "(github.com/mlcommons/hpc_results_v0.7, result_*.txt); there a rank is a processor or "
        "accelerator.");
  section.paragraphs.emplace_back(
      "halomesh plan --picture FILE draws how a sample is cut and what its parts exchange.");
  return section;
}

}  // namespace halomesh
