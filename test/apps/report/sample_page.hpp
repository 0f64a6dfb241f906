// SPDX-License-Identifier: Apache-2.0
// A page with a figure of every kind, and with texts that a careless page would take for markup.
#pragma once

#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/apps/report/figure.hpp"

namespace halomesh::test {

/// A declining, noisy curve of `points` points.
inline Series noisy_curve(const std::string& name, std::int64_t points, double scale) {
  Series series{.name = name};
  std::uint32_t state = 12345;
  for (std::int64_t i = 1; i <= points; ++i) {
    state = state * 1664525U + 1013904223U;
    const double noise = 1 + 0.3 * (static_cast<double>(state >> 8U) / 16777216.0 - 0.5);
    const auto step = static_cast<double>(i);
    series.data.push_back({step, scale * noise / (1 + 20 * step / static_cast<double>(points))});
  }
  return series;
}

inline Figure loss_figure(std::int64_t points = 100000) {
  Figure figure{
      .id = "loss", .title = "Training loss", .caption = "Mean squared error of each step."};
  figure.x.label = "step";
  figure.y = {"loss", true};
  figure.right = SecondScale{"loss relative to the first", 2};
  figure.series = {noisy_curve("4 replicas <b>&\"quoted\"", points, 0.5),
                   noisy_curve("16 replicas", points, 0.4),
                   noisy_curve("64 replicas", points, 0.2)};
  Series evaluation{.name = "evaluation", .mark = Mark::kLineAndPoints};
  for (int epoch = 1; epoch <= 10; ++epoch) {
    const double step = 0.1 * epoch * static_cast<double>(points);
    evaluation.data.push_back({step, 0.6 / (1 + epoch), {}, {}, fmt::format("epoch {}", epoch)});
  }
  evaluation.data[4].y = std::nan("");
  figure.series.push_back(evaluation);
  return figure;
}

inline Figure shares_figure() {
  Figure figure{.id = "shares",
                .title = "Share of the time to solution",
                .caption = "Staging, training, evaluation and the rest of each run."};
  figure.y.label = "share of the time to solution in %";
  figure.categories = {"128 nodes, data parallel", "512 nodes, hybrid", "2048 nodes, hybrid <i>"};
  figure.stacked = figure.horizontal = true;
  const std::vector<std::pair<std::string, std::vector<double>>> parts = {
      {"staging", {12, 9, 5}},
      {"training", {75, 71, 64}},
      {"evaluation", {10, 13, 18}},
      {"other", {3, 7, 13}}};
  for (const auto& [name, values] : parts) {
    Series series{.name = name, .mark = Mark::kBars};
    for (const double value : values)
      series.data.push_back({static_cast<double>(series.data.size()), value});
    figure.series.push_back(series);
  }
  return figure;
}

inline Figure breakdown_figure() {
  Figure figure{.id = "breakdown",
                .title = "Time of a step by layer",
                .caption = "Mean over ranks; whiskers from the fastest to the slowest rank."};
  figure.y.label = "time in ms";
  for (int layer = 1; layer <= 14; ++layer)
    figure.categories.push_back(fmt::format("conv{} weights", layer));
  for (const char* name : {"forward", "backward", "halo wait"}) {
    Series series{.name = name, .mark = Mark::kBars};
    for (std::size_t i = 0; i < figure.categories.size(); ++i) {
      const auto x = static_cast<double>(i);
      const double y = 20.0 / (1 + x) + static_cast<double>(figure.series.size());
      series.data.push_back({x, y, 0.8 * y, 1.3 * y, ""});
    }
    figure.series.push_back(series);
  }
  return figure;
}

inline Figure columns_figure() {
  Figure figure{.id = "kinds", .title = "Time of a step by kind", .caption = "Stacked."};
  figure.y.label = "time in s";
  figure.categories = {"1x1x1", "2x1x1", "2x2x1"};
  figure.stacked = true;
  for (const char* name :
       {"compute", "packing", "halo wait", "reduction wait", "input wait", "optimizer", "other"}) {
    Series series{.name = name, .mark = Mark::kBars};
    for (int i = 0; i < 3; ++i)
      series.data.push_back(
          {static_cast<double>(i), 0.2 / (1 + static_cast<double>(figure.series.size()) + i)});
    figure.series.push_back(series);
  }
  return figure;
}

inline Figure scaling_figure() {
  Figure figure{.id = "scaling",
                .title = "Batch size against the number of processors",
                .caption = "Dotted: processors per sample of a batch. Grey: published."};
  figure.x = {"number of processors", true};
  figure.y = {"batch size in samples", true};
  figure.top = SecondScale{"number of threads", 48};
  Series ours{.name = "halomesh", .mark = Mark::kPoints};
  ours.data = {
      {16, 64, {}, {}, "run a"}, {64, 64}, {256, 256}, {512, 512, 300, 800, ""}, {2048, 1024}};
  Series earlier{.name = "before tuning",
                 .mark = Mark::kLineAndPoints,
                 .data = {{16, 32}, {64, 128}, {256, 512}}};
  earlier.dashed = true;
  Series published{.name = "published",
                   .mark = Mark::kPoints,
                   .data = {{128, 64}, {1024, 2048}, {4096, 4096}, {-1, 3}}};
  published.published = true;
  figure.series = {ours, earlier, published};
  for (const auto& [label, ratio] : std::vector<std::pair<std::string, double>>{
           {"1/4", 0.25}, {"1/2", 0.5}, {"1", 1}, {"2", 2}, {"4", 4}, {"16", 16}}) {
    figure.levels.push_back({label + " per sample", 1 / ratio, 1});
  }
  return figure;
}

inline Figure epochs_figure() {
  Figure figure{.id = "epochs",
                .title = "Epochs to the target",
                .caption = "Dotted: constant number of steps."};
  figure.x = {"epochs to the target", false};
  figure.y = {"batch size in samples", true};
  figure.series = {{.name = "runs",
                    .mark = Mark::kLineAndPoints,
                    .data = {{50, 64}, {70, 256}, {100, 512}, {160, 1024}}}};
  for (const int steps : {25600, 51200, 102400}) {
    figure.levels.push_back({fmt::format("{} steps", steps), 524288.0 / steps, 1});
  }
  return figure;
}

inline Figure timeline_figure() {
  Figure figure{
      .id = "timeline", .title = "One step as a timeline", .caption = "Step 5 of the run."};
  figure.x.label = "time in ms";
  figure.series = {{.name = "compute"}, {.name = "halo wait"}, {.name = "reduction wait"}};
  for (std::size_t rank = 0; rank < 16; ++rank) {
    figure.categories.push_back(fmt::format("rank {}", rank));
    double at = 0;
    for (std::size_t i = 0; i < 40; ++i) {
      const double length = 1 + static_cast<double>((i * 7 + rank * 3) % 5);
      figure.spans.push_back({rank,
                              i % 5 == 4 ? 1U
                              : i == 39  ? 2U
                                         : 0U,
                              at, at + length, fmt::format("conv{}", i % 7)});
      at += length;
    }
  }
  return figure;
}

inline Figure scatter_figure() {
  Figure figure{.id = "predictions",
                .title = "Predicted against true parameters",
                .caption = "Each dot is a sample."};
  figure.x.label = "true";
  figure.y.label = "predicted";
  Series series{.name = "sigma 8", .mark = Mark::kPoints};
  const Series noise = noisy_curve("", 6000, 1);
  for (const Datum& datum : noise.data) {
    const double x = std::fmod(datum.x * 0.618034, 1.0) * 2 - 1;
    series.data.push_back({x, x + datum.y - 0.3});
  }
  figure.series = {series};
  return figure;
}

inline Page sample_page(std::int64_t points = 100000) {
  Page page;
  page.title = "Run of 22 November: <script>alert(1)</script>";
  page.verdict = {
      "Reached the target MAE of 0.124 in 3 h 12 min (48 epochs) at 1,530 samples/s. Waiting for "
      "halos takes "
      "12.3 % of a step and limits the speed."};
  page.warnings = {"OMP_PROC_BIND is not set: threads may move between cores",
                   "run 2 has no phases"};
  Table options{
      .id = "options", .title = "Options that differ", .caption = "Between the runs of this page."};
  options.columns = {"option", "run a", "run b", "samples/s"};
  options.numeric = {false, false, false, true};
  options.rows = {{"--parts", "2x2x1", "1x1x1", "1,530"},
                  {"--output", "</td>\x01\xFF", "a&b", "980"}};
  options.notes = {"Options with equal values are left out."};
  page.sections.push_back({"options", "Options", {"Two runs are compared."}, {}, {options}});
  page.sections.push_back({"curves", "Curves", {}, {loss_figure(points)}, {}});
  page.sections.push_back(
      {"time",
       "Time",
       {},
       {shares_figure(), breakdown_figure(), columns_figure(), timeline_figure()},
       {}});
  page.sections.push_back(
      {"scaling", "Scaling", {}, {scaling_figure(), epochs_figure(), scatter_figure()}, {}});
  page.raw_json = R"({"name": "</script><script>alert(2)</script>", "steps": [1, 2]})";
  return page;
}

}  // namespace halomesh::test
