// SPDX-License-Identifier: Apache-2.0
// The quality of predicted classes of samples, from the probabilities of all samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace halomesh {

/// Counts of samples: a row per true class, a column per predicted one.
using ConfusionMatrix = std::vector<std::vector<std::int64_t>>;

/// The quality of the predictions of labels over samples.
struct ClassScores {
  double accuracy = 0;           ///< share of labels that are predicted
  double balanced_accuracy = 0;  ///< mean over classes that occur of the share that is predicted
  double auc = 0;  ///< see area_under_curve(); the mean over classes, each against the
                   ///< rest; NaN if no class has both
  std::vector<ConfusionMatrix> confusion{};  ///< one for each label

  /// True if all samples are predicted to be of one class.
  bool is_constant() const;
};

/// The area under the receiver operating characteristic: the share of pairs of a positive and a
/// negative sample in which the positive one has the higher score; a tie is half a pair. NaN
/// without such a pair, and for scores that are not numbers.
double area_under_curve(std::span<const double> scores, std::span<const std::uint8_t> positive);

/// Judges samples with `labels.size() / samples` labels each, of `classes` classes:
/// `probabilities` has those of all classes of each label of each sample. The predicted class is
/// the most probable; ties go to the lowest. With several labels, the scores are means over them.
ClassScores class_scores(std::span<const double> probabilities,
                         std::span<const std::int64_t> labels, std::size_t samples,
                         std::size_t classes);

}  // namespace halomesh
