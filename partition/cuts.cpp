// SPDX-License-Identifier: Apache-2.0
// The cut of one layer's output: see cuts.hpp.
#include "partition/cuts.hpp"

#include <algorithm>
#include <charconv>

#include "error.hpp"

namespace halomesh {
namespace {

// Reads the "4x2" of "conv4:4x2".
bool read_product(const std::string& text, std::int64_t& blocks, std::int64_t& groups) {
  const char *at = text.data(), *const end = at + text.size();
  const auto [times, error] = std::from_chars(at, end, blocks);
  if (error != std::errc{} || times == end || *times != 'x') return false;
  const auto [stop, second_error] = std::from_chars(times + 1, end, groups);
  return second_error == std::errc{} && stop == end && blocks > 0 && groups > 0;
}

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> found;
  for (std::int64_t d = n; d > 0; --d)
    if (n % d == 0) found.push_back(d);
  return found;
}

}  // namespace

std::string to_string(const TensorCut& cut) {
  return fmt::format("{}x{}", cut.space.count(), cut.groups);
}

Box cut_box(const Shape& shape, const PartGrid& grid, const TensorCut& cut, std::int64_t part) {
  const Spatial at = grid.coordinates(part), parts{grid.d, grid.h, grid.w};
  const Spatial blocks{cut.space.d, cut.space.h, cut.space.w}, extents = shape.spatial();
  Box box = Box::whole(shape);
  std::int64_t group = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t sharing = parts[a] / blocks[a];
    const Range planes = block_range(extents[a], blocks[a], at[a] / sharing);
    box.lo[a + 1] = planes.lo;
    box.hi[a + 1] = planes.hi;
    group = group * sharing + at[a] % sharing;
  }
  // With fewer blocks than parts, the first part of each block owns it.
  if (cut.groups == 1 && group > 0) return {};
  const std::int64_t vectors = (shape.c + kChannelVector - 1) / kChannelVector;
  const Range own = cut.groups == 1 ? Range{0, vectors} : block_range(vectors, cut.groups, group);
  box.lo[kC] = std::min(own.lo * kChannelVector, shape.c);
  box.hi[kC] = std::min(own.hi * kChannelVector, shape.c);
  return box.normalized();
}

Partition cut_partition(const Shape& shape, const PartGrid& grid, const TensorCut& cut) {
  Partition partition;
  for (std::int64_t part = 0; part < grid.count(); ++part)
    partition.push_back(cut_box(shape, grid, cut, part));
  return partition;
}

std::vector<TensorCut> all_cuts(const PartGrid& grid) {
  std::vector<TensorCut> cuts;
  for (const std::int64_t d : divisors(grid.d))
    for (const std::int64_t h : divisors(grid.h))
      for (const std::int64_t w : divisors(grid.w))
        cuts.push_back({{d, h, w}, grid.count() / (d * h * w)});
  std::stable_sort(cuts.begin(), cuts.end(),
                   [](const TensorCut& a, const TensorCut& b) { return a.groups < b.groups; });
  return cuts;
}

CutSetting parse_cuts(const std::string& text) {
  using Kind = CutSetting::Kind;
  if (text == "auto") return {Kind::kAuto};
  if (text == "space") return {Kind::kSpace};
  if (text == "channels") return {Kind::kChannels};
  CutSetting setting{Kind::kList};
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const std::size_t colon = item.find(':');
    CutSetting::Entry entry{item.substr(0, colon)};
    if (colon == std::string::npos || colon == 0 ||
        !read_product(item.substr(colon + 1), entry.blocks, entry.groups))
      throw UsageError(fmt::format("--cuts {}: '{}' cannot be read", text, item),
                       "give auto, space, channels, or layers with blocks of space x groups of "
                       "channels, e.g. conv4:4x2,conv5:1x8");
    for (const CutSetting::Entry& other : setting.list)
      if (other.layer == entry.layer)
        throw UsageError(fmt::format("--cuts {} names {} twice", text, entry.layer),
                         "give it once");
    setting.list.push_back(entry);
    begin = end + 1;
  }
  return setting;
}

}  // namespace halomesh
