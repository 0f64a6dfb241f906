// SPDX-License-Identifier: Apache-2.0
// The features of a sample that two-point statistics use: the power spectrum of each channel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/synth/fft3d.hpp"

namespace halomesh {

/// The power of cubic grids of one extent n in up to 13 bins of wave number, whose borders are the
/// whole parts of 14 numbers in geometric progression from 1 to n/2. The last bin reaches into the
/// corners of the cube; no bin contains the mean, k = 0.
class BinnedPower {
 public:
  /// Throws Error when n < 2.
  explicit BinnedPower(std::int64_t n);

  /// The least wave number of each bin, in units of the fundamental mode.
  std::span<const std::int64_t> borders() const { return borders_; }
  /// The mean of |F(k)|^2 over the modes of each bin that a transform of reals stores: those with
  /// k_w >= 0. Transforms the grid in place; F is not normalized.
  std::vector<double> of(SpectralGrid& grid) const;

 private:
  std::vector<std::int64_t> borders_;
  Fft3d transform_;
};

/// The features of samples of one shape: for each channel, the logarithm of the power of the
/// contrast, count / mean count - 1. Must not be shared between threads; OpenMP distributes the
/// work on one sample.
class SpectrumFeatures {
 public:
  /// Samples have n^3 x `channels` counts. Throws Error when n < 2.
  SpectrumFeatures(std::int64_t n, std::int64_t channels);

  /// The number of features of a sample: channels x bins.
  std::int64_t size() const { return channels_ * std::ssize(power_.borders()); }
  /// The features of `counts` in the order d, h, w, channel. A bin without power counts as one of
  /// 1e-30.
  std::vector<double> of(std::span<const std::int16_t> counts_dhwc);

 private:
  std::int64_t channels_;
  BinnedPower power_;
  SpectralGrid grid_;
};

}  // namespace halomesh
