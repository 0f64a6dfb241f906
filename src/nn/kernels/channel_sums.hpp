// SPDX-License-Identifier: Apache-2.0
// Sums over the pixels of a box, per channel, in double: for gradients of scales and shifts, and
// for means.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "box.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// Adds up in an order that depends on the box alone: any number of threads gives the same bits.
/// Allocates only in the constructor.
class ChannelSums {
 public:
  ChannelSums() = default;
  /// `kinds` sums for each of `channels` channels.
  ChannelSums(std::int64_t channels, std::int64_t kinds)
      : size_(channels * kinds), partial_(kChunks * size_) {}

  /// Calls add(n, d, h, w, sums) for each pixel of `box` in `samples` samples from `first` on, in
  /// parallel. It adds the pixel's terms to sums[kind * channels + c]. Returns the totals, in the
  /// same order; they are valid until the next call.
  template <class Add>
  std::span<const double> over(const Box& box, std::int64_t first, std::int64_t samples,
                               const Add& add) {
    const std::int64_t depth = box.extent(kD), height = box.extent(kH);
    const std::int64_t rows = box.empty() ? 0 : samples * depth * height;
    const std::int64_t chunks = std::clamp<std::int64_t>(rows, 1, kChunks);
#pragma omp parallel for schedule(static) if (rows * box.extent(kW) * size_ > 16384)
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      double* const sums = partial_.data() + chunk * size_;
      std::fill_n(sums, size_, 0.0);
      for (std::int64_t row = chunk * rows / chunks; row < (chunk + 1) * rows / chunks; ++row)
        for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
          add(first + row / (depth * height), box.lo[kD] + row / height % depth,
              box.lo[kH] + row % height, w, sums);
    }
    double* const totals = partial_.data();
    for (std::int64_t chunk = 1; chunk < chunks; ++chunk)
      for (std::int64_t i = 0; i < size_; ++i) totals[i] += totals[chunk * size_ + i];
    return partial_.span().first(static_cast<std::size_t>(size_));
  }

 private:
  static constexpr std::int64_t kChunks = 64;
  std::int64_t size_ = 0;
  AlignedBuffer<double> partial_;
};

}  // namespace halomesh
