// SPDX-License-Identifier: Apache-2.0
// The quality of predicted classes: see class_scores.hpp.
#include "src/nn/class_scores.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace halomesh {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The mean of what is a number; NaN if nothing is.
class MeanOfNumbers {
 public:
  void add(double value) {
    if (std::isnan(value)) return;
    sum_ += value;
    ++count_;
  }
  double value() const { return count_ == 0 ? kNaN : sum_ / static_cast<double>(count_); }

 private:
  double sum_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace

bool ClassScores::is_constant() const {
  return std::all_of(confusion.begin(), confusion.end(), [](const ConfusionMatrix& matrix) {
    std::size_t predicted = 0;
    for (std::size_t c = 0; c < matrix.size(); ++c)
      if (std::any_of(matrix.begin(), matrix.end(), [c](const auto& row) { return row[c] > 0; }))
        ++predicted;
    return predicted < 2;
  });
}

double area_under_curve(std::span<const double> scores, std::span<const std::uint8_t> positive) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (std::any_of(scores.begin(), scores.end(), [](double s) { return std::isnan(s); }))
    return kNaN;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  // Counts of halves of pairs are exact.
  double positives = 0, negatives = 0, halves = 0;
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    double equal_positives = 0, equal_negatives = 0;
    for (; end < order.size() && scores[order[end]] == scores[order[first]]; ++end)
      (positive[order[end]] != 0 ? equal_positives : equal_negatives) += 1;
    halves += equal_positives * (2 * negatives + equal_negatives);
    positives += equal_positives;
    negatives += equal_negatives;
    first = end;
  }
  return positives * negatives == 0 ? kNaN : halves / (2 * positives * negatives);
}

ClassScores class_scores(std::span<const double> probabilities,
                         std::span<const std::int64_t> labels, std::size_t samples,
                         std::size_t classes) {
  const std::size_t width = labels.size() / samples;  // labels of a sample
  ClassScores all;
  MeanOfNumbers recalls, areas;
  double correct = 0;
  std::vector<double> scores(samples);
  std::vector<std::uint8_t> positive(samples);
  for (std::size_t l = 0; l < width; ++l) {
    ConfusionMatrix matrix(classes, std::vector<std::int64_t>(classes));
    for (std::size_t n = 0; n < samples; ++n) {
      const auto of_label = probabilities.subspan((n * width + l) * classes, classes);
      const auto best = std::max_element(of_label.begin(), of_label.end()) - of_label.begin();
      const auto truth = static_cast<std::size_t>(labels[n * width + l]);
      ++matrix[truth][static_cast<std::size_t>(best)];
    }
    for (std::size_t c = 0; c < classes; ++c) {
      const auto of_class =
          static_cast<double>(std::accumulate(matrix[c].begin(), matrix[c].end(), std::int64_t{0}));
      const auto found = static_cast<double>(matrix[c][c]);
      correct += found;
      recalls.add(of_class == 0 ? kNaN : found / of_class);
      for (std::size_t n = 0; n < samples; ++n) {
        scores[n] = probabilities[(n * width + l) * classes + c];
        positive[n] = labels[n * width + l] == static_cast<std::int64_t>(c) ? 1 : 0;
      }
      areas.add(area_under_curve(scores, positive));
    }
    all.confusion.push_back(std::move(matrix));
  }
  all.accuracy = correct / static_cast<double>(labels.size());
  all.balanced_accuracy = recalls.value();
  all.auc = areas.value();
  return all;
}

}  // namespace halomesh
