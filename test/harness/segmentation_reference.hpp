// SPDX-License-Identifier: Apache-2.0
// The loss of a segmentation by the textbook formulas, in naive double loops over whole samples:
// see SegmentationLoss, with which it shares only the options.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "src/nn/losses/segmentation_loss.hpp"
#include "test/harness/reference.hpp"

namespace halomesh {

/// The loss of whole samples. `labels` has one per voxel, in the order n,d,h,w.
struct SegmentationReference {
  double loss = 0;
  std::vector<double> diff;  ///< in the order of the output
  std::vector<ClassQuality> classes;
};

inline SegmentationReference segmentation_reference(const GlobalTensor& z,
                                                    const std::vector<std::uint8_t>& labels,
                                                    const SegmentationOptions& options) {
  const auto classes = static_cast<std::size_t>(z.shape.c);
  const auto voxels = static_cast<std::size_t>(z.shape.volume()) / classes;
  const auto batch = static_cast<double>(z.batch);
  const std::size_t first = options.background ? 0 : 1;
  const auto dice_classes = static_cast<double>(classes - first);
  SegmentationReference out{0, std::vector<double>(z.values.size()),
                            std::vector<ClassQuality>(classes)};
  for (std::size_t n = 0; n < static_cast<std::size_t>(z.batch); ++n) {
    std::vector<double> p(voxels * classes), dp(classes);
    for (std::size_t v = 0; v < voxels; ++v) {
      double sum = 0;
      for (std::size_t c = 0; c < classes; ++c)
        sum += std::exp(z.values[(n * voxels + v) * classes + c]);
      for (std::size_t c = 0; c < classes; ++c)
        p[v * classes + c] = std::exp(z.values[(n * voxels + v) * classes + c]) / sum;
    }
    const auto label = [&](std::size_t v) { return labels[n * voxels + v]; };
    std::vector<double> overlap(classes), probability(classes), count(classes);
    std::vector<std::int64_t> both(classes), either(classes), total(classes);
    for (std::size_t v = 0; v < voxels; ++v) {
      const auto begin = p.begin() + static_cast<std::ptrdiff_t>(v * classes);
      const auto best = static_cast<std::size_t>(
          std::max_element(begin, begin + static_cast<std::ptrdiff_t>(classes)) - begin);
      for (std::size_t c = 0; c < classes; ++c) {
        const bool is = label(v) == c, found = best == c;
        probability[c] += p[v * classes + c];
        if (is) overlap[c] += p[v * classes + c], count[c] += 1;
        both[c] += is && found ? 1 : 0;
        either[c] += is || found ? 1 : 0;
        total[c] += (is ? 1 : 0) + (found ? 1 : 0);
      }
    }
    for (std::size_t c = 0; c < classes; ++c) {
      const bool absent = total[c] == 0;
      const auto of = [&](std::int64_t a, std::int64_t b) {
        return absent ? 1.0 : static_cast<double>(a) / static_cast<double>(b);
      };
      out.classes[c].iou += of(both[c], either[c]) / batch;
      out.classes[c].dice += of(2 * both[c], total[c]) / batch;
      if (c < first) continue;
      const double all = probability[c] + count[c] + options.smooth;
      out.loss +=
          options.dice / dice_classes / batch * (1 - (2 * overlap[c] + options.smooth) / all);
    }
    for (std::size_t v = 0; v < voxels; ++v) {
      const double weight = options.weights.empty() ? 1 : options.weights[label(v)];
      const double scale = options.cross_entropy * weight / (batch * static_cast<double>(voxels));
      out.loss -= scale * std::log(p[v * classes + label(v)]);
      double inner = 0;
      for (std::size_t c = 0; c < classes; ++c) {
        const double all = probability[c] + count[c] + options.smooth;
        const double g = label(v) == c ? 1 : 0;
        const double slope = (2 * g * all - (2 * overlap[c] + options.smooth)) / (all * all);
        dp[c] = c < first ? 0 : -options.dice / dice_classes / batch * slope;
        inner += p[v * classes + c] * dp[c];
      }
      for (std::size_t c = 0; c < classes; ++c)
        out.diff[(n * voxels + v) * classes + c] =
            scale * (p[v * classes + c] - (label(v) == c ? 1 : 0)) +
            p[v * classes + c] * (dp[c] - inner);
    }
  }
  return out;
}

}  // namespace halomesh
