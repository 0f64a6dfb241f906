// SPDX-License-Identifier: Apache-2.0
// Groups and buckets of parameters: see gradient_buckets.hpp.
#include "src/nn/gradient_buckets.hpp"

#include <algorithm>

namespace halomesh {

std::vector<HolderGroup> holder_groups(const ModelGeometry& geometry, std::int64_t part) {
  std::vector<HolderGroup> groups;
  const auto& placements = geometry.parameters();
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const ParameterSlice& slice = placements[i].slices[static_cast<std::size_t>(part)];
    if (slice.empty()) continue;
    const auto holders = std::find_if(placements[i].holders.begin(), placements[i].holders.end(),
                                      [&](const SliceHolders& h) { return h.slice == slice; });
    const bool average = placements[i].geometry.moving_average > 0;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const HolderGroup& g) {
      return g.parts == holders->parts && g.moving_averages == average;
    });
    if (group == groups.end())
      group = groups.insert(groups.end(), {holders->parts, 0, 0, {}, average});
    group->ranges.push_back({i, 0, placements[i].slice_volume(part)});
  }
  std::int64_t offset = 0;
  for (HolderGroup& group : groups) {
    group.offset = offset;
    for (ParameterRange& range : group.ranges) {
      range.offset = offset;
      offset += range.volume;
    }
    group.volume = offset - group.offset;
  }
  return groups;
}

// Backward completes layers from the last to the first, so buckets grow from the end.
std::vector<GradientBucket> gradient_buckets(const ModelGeometry& geometry,
                                             const HolderGroup& group, std::int64_t bucket_bytes) {
  std::vector<GradientBucket> buckets;
  bool open = false;
  for (std::size_t i = group.ranges.size(); i-- > group.frozen_ranges;) {
    const ParameterRange& range = group.ranges[i];
    if (!open) buckets.push_back({0, 0, range.placement, {}});
    GradientBucket& bucket = buckets.back();
    bucket.offset = range.offset;
    bucket.volume += range.volume;
    bucket.layers.push_back(geometry.parameters()[range.placement].layer);
    open = bucket.volume * std::int64_t{sizeof(float)} < bucket_bytes;
  }
  return buckets;
}

}  // namespace halomesh
