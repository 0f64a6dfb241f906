// SPDX-License-Identifier: Apache-2.0
// See crops.hpp.
#include "partition/samples/crops.hpp"

#include <algorithm>

#include "rng.hpp"

namespace halomesh {
namespace {

/// The finalizer of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014).
std::uint64_t hash_of(const Voxel& v) {
  std::uint64_t z = (std::uint64_t{v.d} << 32) | (std::uint64_t{v.h} << 16) | v.w;
  z += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

/// One of 0 .. count-1, from a number in [0, 1).
std::int64_t one_of(std::int64_t count, double uniform) {
  return std::min(count - 1, static_cast<std::int64_t>(uniform * static_cast<double>(count)));
}

}  // namespace

void ForegroundSearch::take(const Box& box, const std::uint8_t* labels) {
  const std::uint8_t* label = labels;
  for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
    for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
      for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w, ++label) {
        if (*label == 0 || *label >= kept_.size()) continue;
        take(*label, {static_cast<std::uint16_t>(d), static_cast<std::uint16_t>(h),
                      static_cast<std::uint16_t>(w)});
      }
}

void ForegroundSearch::take(std::size_t label, const Voxel& voxel) {
  std::vector<Candidate>& heap = kept_.at(label);
  const Candidate made{hash_of(voxel), voxel};
  if (heap.size() == kKept) {
    if (heap.front() < made) return;
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
  }
  heap.push_back(made);
  std::push_heap(heap.begin(), heap.end());
}

std::vector<std::vector<Voxel>> ForegroundSearch::found_by_class() const {
  std::vector<std::vector<Voxel>> all;
  for (const std::vector<Candidate>& heap : kept_) {
    std::vector<Voxel>& voxels = all.emplace_back();
    for (const Candidate& each : heap) voxels.push_back(each.voxel);
    std::sort(voxels.begin(), voxels.end());
  }
  return all;
}

Foreground ForegroundSearch::found() const {
  Foreground all = found_by_class();
  std::erase_if(all, [](const std::vector<Voxel>& voxels) { return voxels.empty(); });
  return all;
}

Spatial centred_origin(const Spatial& sample, const Spatial& crop) {
  Spatial origin{};
  for (std::size_t axis = 0; axis < 3; ++axis)
    origin[axis] = crop[axis] > sample[axis] ? -((crop[axis] - sample[axis]) / 2)
                                             : (sample[axis] - crop[axis]) / 2;
  return origin;
}

Spatial CropDraw::operator()(std::int64_t epoch, std::int64_t sample, const Spatial& extents,
                             const Foreground& foreground) const {
  const CounterRng rng(seed_, RandomUse::kCrop, static_cast<std::uint32_t>(epoch));
  const auto draw = [&](std::uint64_t number) {
    return rng.uniform_double(static_cast<std::uint64_t>(sample) * 8 + number);
  };
  Spatial origin = centred_origin(extents, crop_), least{}, most{};
  for (std::size_t axis = 0; axis < 3; ++axis) most[axis] = extents[axis] - crop_[axis];
  if (!foreground.empty() && draw(0) < foreground_) {
    const auto& voxels =
        foreground[static_cast<std::size_t>(one_of(std::ssize(foreground), draw(1)))];
    const Voxel& v = voxels[static_cast<std::size_t>(one_of(std::ssize(voxels), draw(2)))];
    const Spatial place{v.d, v.h, v.w};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      least[axis] = std::max<std::int64_t>(0, place[axis] - crop_[axis] + 1);
      most[axis] = std::min(most[axis], place[axis]);
    }
  }
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (extents[axis] > crop_[axis])
      origin[axis] = least[axis] + one_of(most[axis] - least[axis] + 1, draw(3 + axis));
  return origin;
}

}  // namespace halomesh
