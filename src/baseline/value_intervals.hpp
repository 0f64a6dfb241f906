// SPDX-License-Identifier: Apache-2.0
// A baseline of thresholds for labels: for each class, the interval of one channel's values that
// fits it best.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace halomesh {

/// The least and largest value of a channel.
struct ValueRange {
  float low = 0, high = 0;
};

/// Widens `ranges`, one per channel, to the values of a sample in the order d,h,w,c.
void widen(std::span<const float> values, std::span<ValueRange> ranges);

/// Counts how often the values of each channel occur in each class, in kBins equal bins, and finds
/// for each class the channel and the interval of bins whose voxels have the highest Dice
/// coefficient with it. Each class is judged alone, so that a voxel may be in two classes or none:
/// no set of thresholds for disjoint classes reaches a higher coefficient. Local.
class ValueIntervals {
 public:
  static constexpr std::int64_t kBins = 256;

  /// `ranges` holds the values of each channel over all samples that are counted.
  ValueIntervals(std::vector<ValueRange> ranges, std::int64_t classes);

  /// Counts the voxels of a sample: `values` in the order d,h,w,c, `labels` in the order d,h,w.
  void add(std::span<const float> values, std::span<const std::uint8_t> labels);
  /// All counts, to be added up over ranks before fit().
  std::span<double> counts() { return counts_; }
  void fit();

  /// Whether a voxel with these values, one per channel, is in the interval of the class.
  bool contains(std::int64_t label, const float* voxel) const {
    const Interval& interval = intervals_[static_cast<std::size_t>(label)];
    const std::int64_t bin = bin_of(interval.channel, voxel[interval.channel]);
    return bin >= interval.first && bin <= interval.last;
  }

 private:
  struct Interval {
    std::int64_t channel = 0, first = 0, last = kBins - 1;  // bins
  };
  std::int64_t channels() const { return std::ssize(ranges_); }
  std::int64_t bin_of(std::int64_t channel, float value) const;
  std::span<const double> counts_of(std::int64_t channel, std::int64_t label) const;

  std::vector<ValueRange> ranges_;
  std::int64_t classes_;
  std::vector<double> counts_;  // channel, class, bin
  std::vector<Interval> intervals_;
};

}  // namespace halomesh
