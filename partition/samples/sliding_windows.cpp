// SPDX-License-Identifier: Apache-2.0
// See sliding_windows.hpp.
#include "partition/samples/sliding_windows.hpp"

#include <algorithm>
#include <cmath>

#include "error.hpp"

namespace halomesh {
namespace {

std::vector<std::int64_t> places(std::int64_t volume, std::int64_t window, double overlap,
                                 bool may_pad) {
  const auto step = std::max<std::int64_t>(
      1, window - static_cast<std::int64_t>(overlap * static_cast<double>(window)));
  const std::int64_t more = std::max<std::int64_t>(0, volume - window);
  const std::int64_t steps = (more + step - 1) / step;
  std::vector<std::int64_t> first;
  // Half of the windows' overhang beyond the volume lies before it.
  const std::int64_t before = may_pad ? (window + steps * step - volume) / 2 : 0;
  for (std::int64_t i = 0; i <= steps; ++i)
    first.push_back(may_pad ? i * step - before : std::min(i * step, more));
  return first;
}

std::vector<float> weights_of(std::int64_t window, bool gaussian) {
  std::vector<float> weights(static_cast<std::size_t>(window), 1.0F);
  if (!gaussian) return weights;
  const double centre = static_cast<double>(window - 1) / 2;
  const double deviation = static_cast<double>(window) / 8;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double r = (static_cast<double>(i) - centre) / deviation;
    weights[i] = static_cast<float>(std::exp(-r * r / 6));
  }
  return weights;
}

}  // namespace

SlidingWindows::SlidingWindows(const Spatial& volume, const Spatial& window,
                               const WindowPlacement& placement) {
  constexpr std::array kNames{"depth", "height", "width"};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    require(placement.may_pad || volume[axis] >= window[axis],
            text("volumes of {}x{}x{} are smaller than windows of {}x{}x{} in {}", volume[0],
                 volume[1], volume[2], window[0], window[1], window[2], kNames[axis]),
            "give --pad with the value of voxels outside, or smaller windows");
    Places& places_of = axes_[axis];
    places_of.first = places(volume[axis], window[axis], placement.overlap, placement.may_pad);
    places_of.weights = weights_of(window[axis], placement.gaussian);
    places_of.totals.assign(static_cast<std::size_t>(volume[axis]), 0.0F);
    for (const std::int64_t first : places_of.first)
      for (std::int64_t i = 0; i < window[axis]; ++i)
        if (first + i >= 0 && first + i < volume[axis])
          places_of.totals[static_cast<std::size_t>(first + i)] +=
              places_of.weights[static_cast<std::size_t>(i)];
  }
}

std::int64_t SlidingWindows::size() const {
  std::int64_t size = 1;
  for (const Places& axis : axes_) size *= std::ssize(axis.first);
  return size;
}

Spatial SlidingWindows::origin(std::int64_t index) const {
  Spatial origin{};
  for (std::size_t axis = 3; axis-- > 0;) {
    const std::int64_t count = std::ssize(axes_[axis].first);
    origin[axis] = axes_[axis].first[static_cast<std::size_t>(index % count)];
    index /= count;
  }
  return origin;
}

Box shifted(Box box, const Spatial& by) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    box.lo[kD + axis] += by[axis];
    box.hi[kD + axis] += by[axis];
  }
  return box;
}

Box shifted_back(Box box, const Spatial& by) { return shifted(box, {-by[0], -by[1], -by[2]}); }

}  // namespace halomesh
