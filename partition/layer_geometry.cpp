// SPDX-License-Identifier: Apache-2.0
// The boxes of a layer on one part: see layer_geometry.hpp.
#include "partition/layer_geometry.hpp"

#include <algorithm>
#include <utility>

namespace halomesh {

LayerBoxes boxes_of(const LayerGeometry& layer, std::span<const Shape> src,
                    std::vector<Box> src_local, const Box& dst_owned) {
  LayerBoxes boxes{{}, dst_owned, dst_owned, std::move(src_local)};
  if (layer.splits_over_input()) {
    boxes.src_needed = boxes.src_local;
    const bool has_input = std::any_of(boxes.src_local.begin(), boxes.src_local.end(),
                                       [](const Box& box) { return !box.empty(); });
    boxes.dst_produced = has_input ? layer.contributes(boxes.src_local, src) : Box{};
  } else {
    for (std::size_t i = 0; i < src.size(); ++i)
      boxes.src_needed.push_back(dst_owned.empty() ? Box{} : layer.needs(dst_owned, i, src));
  }
  return boxes;
}

Box needed_by(const LayerGeometry& layer, const LayerBoxes& boxes, std::span<const Shape> src,
              const Box& dst, std::size_t input) {
  return layer.splits_over_input() ? boxes.src_needed[input] : layer.needs(dst, input, src);
}

}  // namespace halomesh
