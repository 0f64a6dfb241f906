// SPDX-License-Identifier: Apache-2.0
// A normalization over groups of channels and its gradients by the textbook formulas, in naive
// double loops over whole samples.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "test/harness/reference.hpp"

namespace halomesh {

struct NormReference {
  Estimate y, dx, dweight, dbias;
  Estimate mean, variance;  ///< per channel: averages over the batch, the variance unbiased
};

/// y = w (x - mean) r + b with r = 1 / sqrt(variance + epsilon), mean and biased variance over
/// space, the channels of a group and `samples` consecutive samples, in two passes; dx = r (w dy -
/// S1 - x^ S2), where x^ = (x - mean) r, and S1, S2 are the means of w dy and of w dy x^ over the
/// same set (Ioffe & Szegedy, arXiv:1502.03167, section 3, for one group per channel and sample).
inline NormReference norm_reference(const GlobalTensor& x, const GlobalTensor& dy,
                                    std::int64_t groups, const std::vector<double>& weight,
                                    const std::vector<double>& bias, double epsilon,
                                    std::int64_t samples = 1) {
  const auto channels = static_cast<std::size_t>(x.shape.c);
  const auto volume = static_cast<std::size_t>(x.shape.volume());
  NormReference out{Estimate(x.values.size()), Estimate(x.values.size()), Estimate(channels),
                    Estimate(channels),        Estimate(channels),        Estimate(channels)};
  const std::size_t size = channels / static_cast<std::size_t>(groups);
  const std::size_t block = static_cast<std::size_t>(samples) * volume;
  const std::size_t elements = block / channels * size;
  const auto count = static_cast<double>(elements);
  // Calls visit(element, channel) for all of group g in the n-th set of samples.
  const auto each = [&](std::size_t n, std::size_t g, const auto& visit) {
    for (std::size_t i = n * block; i < (n + 1) * block; ++i)
      if (i % channels / size == g) visit(i, i % channels);
  };
  const auto blocks = static_cast<std::size_t>(x.batch / samples);
  for (std::size_t n = 0; n < blocks; ++n)
    for (std::size_t g = 0; g < static_cast<std::size_t>(groups); ++g) {
      double mean = 0, variance = 0;
      each(n, g, [&](std::size_t i, std::size_t) { mean += x.values[i] / count; });
      each(n, g, [&](std::size_t i, std::size_t) {
        variance += (x.values[i] - mean) * (x.values[i] - mean) / count;
      });
      const double r = 1 / std::sqrt(variance + epsilon), part = 1 / static_cast<double>(blocks);
      for (std::size_t c = g * size; c < (g + 1) * size; ++c) {
        out.mean.add(c, mean, part);
        out.variance.add(c, variance, part * count / (count - 1));
      }
      double s1 = 0, s2 = 0, all1 = 0, all2 = 0;  // all1 and all2 sum absolute values
      each(n, g, [&](std::size_t i, std::size_t c) {
        const double normal = (x.values[i] - mean) * r, term = weight[c] * dy.values[i] / count;
        out.y.add(i, weight[c], normal);
        out.y.add(i, bias[c]);
        out.dweight.add(c, dy.values[i], normal);
        out.dbias.add(c, dy.values[i]);
        s1 += term;
        s2 += term * normal;
        all1 += std::abs(term);
        all2 += std::abs(term * normal);
      });
      each(n, g, [&](std::size_t i, std::size_t c) {
        const double normal = (x.values[i] - mean) * r, term = weight[c] * dy.values[i];
        out.dx.values[i] = r * (term - s1 - normal * s2);
        out.dx.magnitudes[i] = r * (std::abs(term) + all1 + std::abs(normal) * all2);
      });
    }
  return out;
}

}  // namespace halomesh
