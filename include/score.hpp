// SPDX-License-Identifier: Apache-2.0
// The scores by which networks are judged on a data set, and the quality of single classes.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace halomesh {

enum class Score : std::uint8_t {
  kMae,      ///< mean absolute error of a regression; lower is better
  kDice,     ///< mean Dice coefficient of all classes of a segmentation but the first
  kIou,      ///< mean intersection over union of all classes of a segmentation
  kAccuracy  ///< share of labels of samples that are predicted
};

inline constexpr std::array kScores{Score::kMae, Score::kDice, Score::kIou, Score::kAccuracy};

/// "mae", "dice" and so on: the name in files.
constexpr const char* key_of(Score score) {
  return std::array{"mae", "dice", "iou", "accuracy"}.at(static_cast<std::size_t>(score));
}
/// "MAE", "Dice" and so on.
constexpr const char* title_of(Score score) {
  return std::array{"MAE", "Dice", "IoU", "accuracy"}.at(static_cast<std::size_t>(score));
}

constexpr bool higher_is_better(Score score) { return score != Score::kMae; }

/// Whether `a` is better than `b`, or `b` is not a number.
inline bool is_better(Score score, double a, double b) {
  if (std::isnan(b)) return !std::isnan(a);
  return higher_is_better(score) ? a > b : a < b;
}

/// Whether `value` is as good as `target`; a target of 0 means that there is none.
constexpr bool reaches(Score score, double value, double target) {
  return target > 0 && (higher_is_better(score) ? value >= target : value <= target);
}

/// The quality of one class of voxels: ratios of each whole sample, averaged over samples.
struct ClassQuality {
  double iou = 0;   ///< |A and B| / |A or B| for voxels A of the class and B predicted to be of it
  double dice = 0;  ///< 2 |A and B| / (|A| + |B|)
  double voxels = 0;  ///< |A|, over all samples
};

/// The quality in one sample, with `both` = |A| + |B|; 1 where both sets are empty.
constexpr ClassQuality class_quality(double correct, double both) {
  if (both == 0) return {1, 1, 0};
  return {correct / (both - correct), 2 * correct / both, 0};
}

}  // namespace halomesh
