// SPDX-License-Identifier: Apache-2.0
// The best interval of each class: see value_intervals.hpp.
#include "src/baseline/value_intervals.hpp"

#include <algorithm>
#include <utility>

namespace halomesh {

void widen(std::span<const float> values, std::span<ValueRange> ranges) {
  for (std::size_t i = 0; i < values.size();)
    for (ValueRange& range : ranges) {
      range.low = std::min(range.low, values[i]);
      range.high = std::max(range.high, values[i++]);
    }
}

ValueIntervals::ValueIntervals(std::vector<ValueRange> ranges, std::int64_t classes)
    : ranges_(std::move(ranges)),
      classes_(classes),
      counts_(static_cast<std::size_t>(channels() * classes * kBins)),
      intervals_(static_cast<std::size_t>(classes)) {}

std::int64_t ValueIntervals::bin_of(std::int64_t channel, float value) const {
  const ValueRange& range = ranges_[static_cast<std::size_t>(channel)];
  const double width = static_cast<double>(range.high) - static_cast<double>(range.low);
  if (width <= 0) return 0;
  const double share = (static_cast<double>(value) - static_cast<double>(range.low)) / width;
  return static_cast<std::int64_t>(std::clamp(share * kBins, 0.0, static_cast<double>(kBins - 1)));
}

std::span<const double> ValueIntervals::counts_of(std::int64_t channel, std::int64_t label) const {
  return std::span(counts_).subspan(static_cast<std::size_t>((channel * classes_ + label) * kBins),
                                    static_cast<std::size_t>(kBins));
}

void ValueIntervals::add(std::span<const float> values, std::span<const std::uint8_t> labels) {
  const float* voxel = values.data();
  for (const std::uint8_t label : labels)
    for (std::int64_t c = 0; c < channels(); ++c, ++voxel)
      counts_[static_cast<std::size_t>((c * classes_ + label) * kBins + bin_of(c, *voxel))] += 1;
}

void ValueIntervals::fit() {
  std::vector<double> best(static_cast<std::size_t>(classes_), -1.0);
  std::vector<double> all(static_cast<std::size_t>(kBins));
  for (std::int64_t channel = 0; channel < channels(); ++channel) {
    std::fill(all.begin(), all.end(), 0.0);
    for (std::int64_t label = 0; label < classes_; ++label)
      for (std::size_t bin = 0; bin < all.size(); ++bin) all[bin] += counts_of(channel, label)[bin];
    for (std::int64_t label = 0; label < classes_; ++label) {
      const std::span<const double> own = counts_of(channel, label);
      double voxels = 0;
      for (const double count : own) voxels += count;
      for (std::size_t first = 0; first < all.size(); ++first) {
        // Among equally good intervals, take the shortest.
        if (own[first] == 0 && voxels > 0) continue;
        double correct = 0, predicted = 0;
        for (std::size_t last = first; last < all.size(); ++last) {
          correct += own[last];
          predicted += all[last];
          const double dice = voxels + predicted == 0 ? 0 : 2 * correct / (voxels + predicted);
          if (dice <= best[static_cast<std::size_t>(label)]) continue;
          best[static_cast<std::size_t>(label)] = dice;
          intervals_[static_cast<std::size_t>(label)] = {channel, static_cast<std::int64_t>(first),
                                                         static_cast<std::int64_t>(last)};
        }
      }
    }
  }
}

}  // namespace halomesh
