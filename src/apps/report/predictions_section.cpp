// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "src/apps/report/figure_parts.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {
namespace {

constexpr std::size_t kMostPoints = 500;  // of a figure, equally spaced over the samples
constexpr std::size_t kMostOutputs = 8;

Figure scatter(const PredictionFile& file, std::size_t output, std::size_t number) {
  Figure figure =
      new_figure(fmt::format("predictions-{}-{}", number, output),
                 fmt::format("{}: output {}", file.name, output), {"target"}, {"prediction"},
                 file.target[output].size() > kMostPoints
                     ? fmt::format("{} of {} samples. The line is a perfect prediction.",
                                   kMostPoints, file.target[output].size())
                     : std::string("All samples. The line is a perfect prediction."));
  Series series = new_series("samples", Mark::kPoints);
  const std::size_t samples = file.target[output].size();
  const std::size_t shown_samples = std::min(samples, kMostPoints);
  for (std::size_t i = 0; i < shown_samples; ++i) {
    const std::size_t sample = i * samples / shown_samples;
    series.data.push_back(point(file.target[output][sample], file.predicted[output][sample],
                                fmt::format("sample {}", sample)));
  }
  add_series(figure, std::move(series));
  figure.levels.push_back({"perfect", 1, 1});
  return figure;
}

}  // namespace

Section predictions_section(const ReportInput& input) {
  Section section{"predictions", "Predictions", {}, {}, {}};
  Table table = new_table(
      "prediction-errors", "Errors of the predictions",
      {"file", "output", "samples", "mean absolute error", "root mean square", "bias",
       "correlation", "mean absolute error of the targets' mean"},
      "<>>>>>>>", "Bias: mean of prediction - target. The last column is what a constant reaches.");
  for (std::size_t f = 0; f < input.predictions.size(); ++f) {
    const PredictionFile& file = input.predictions[f];
    double mae = 0;
    for (std::size_t output = 0; output < file.target.size(); ++output) {
      if (output < kMostOutputs) section.figures.push_back(scatter(file, output, f + 1));
      const PredictionErrors errors = errors_of(file.predicted[output], file.target[output]);
      const std::vector<double> constant(file.target[output].size(),
                                         statistics_of(file.target[output]).mean);
      mae += errors.mae / static_cast<double>(file.target.size());
      table.rows.push_back({file.name, std::to_string(output),
                            std::to_string(file.target[output].size()), shown(errors.mae),
                            shown(errors.rmse), shown(errors.bias),
                            fmt::format("{:.4f}", errors.correlation),
                            shown(errors_of(constant, file.target[output]).mae)});
    }
    section.paragraphs.push_back(
        fmt::format("{}: mean absolute error of all outputs {:.5f}.", file.name, mae));
  }
  if (!table.rows.empty()) section.tables.push_back(std::move(table));
  return section;
}

}  // namespace halomesh
