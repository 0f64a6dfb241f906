// Cutting a layer over parts: see layer_cut.hpp.
#include "test/harness/layer_cut.hpp"

#include <algorithm>
#include <utility>

#include "partition/overlap.hpp"

namespace halomesh {
namespace {

Box widened(Box box, const Spatial& margin, const Shape& shape) {
  if (box.empty()) return box;
  for (std::size_t a = 0; a < 3; ++a) {
    box.lo[a + 1] -= margin[a];
    box.hi[a + 1] += margin[a];
  }
  return intersect(box, Box::whole(shape));
}

std::vector<Box> needed_of(const Layer& layer, const Box& dst, std::span<const Shape> src) {
  std::vector<Box> needed;
  for (std::size_t i = 0; i < src.size(); ++i) needed.push_back(layer.needs(dst, i, src));
  return needed;
}

LayerBoxes boxes_of(const Layer& layer, const CutRequest& request, const LayerCut& cut,
                    const Shape& dst_shape, const Partition& dst_owned, std::size_t part) {
  LayerBoxes boxes;
  boxes.dst_owned = dst_owned[part];
  if (layer.splits_over_input()) {
    for (const Partition& owned : cut.src_owned) boxes.src_needed.push_back(owned[part]);
    const bool has_src = std::any_of(boxes.src_needed.begin(), boxes.src_needed.end(),
                                     [](const Box& b) { return !b.empty(); });
    boxes.dst_produced = has_src ? Box::whole(dst_shape) : Box{};
  } else {
    boxes.dst_produced = dst_owned[part];
    boxes.src_needed = needed_of(layer, boxes.dst_produced, request.src_shapes);
  }
  return boxes;
}

void add_chunks(const Layer& layer, const LayerCut& cut, std::size_t part, LayerPlace& place,
                std::vector<bool>& needs_remote) {
  const auto is_local = [&](const Box& dst) {
    if (layer.splits_over_input()) return true;
    const std::vector<Box> needed = needed_of(layer, dst, place.src_shapes);
    for (std::size_t i = 0; i < needed.size(); ++i)
      if (!cut.src_owned[i][part].contains(needed[i])) return false;
    return true;
  };
  for (const Chunk& chunk : order_chunks(place.boxes.dst_produced, is_local)) {
    place.dst_chunks.push_back(chunk.dst);
    needs_remote.push_back(chunk.needs_remote);
  }
}

LayerPlace place_of(const Layer& layer, const CutRequest& request, const LayerCut& cut,
                    const Shape& dst_shape, LayerBoxes boxes, std::size_t part) {
  LayerPlace place;
  place.src_shapes = request.src_shapes;
  place.dst_shape = dst_shape;
  place.src_types = request.src_types;
  if (place.src_types.empty()) place.src_types.assign(place.src_shapes.size(), DataType::kFloat32);
  place.dst_type = layer.dst_type(place.src_types);
  place.batch = request.batch;
  place.training = request.training;
  place.src_diff_wanted.assign(request.src_shapes.size(), request.src_diff_wanted);
  for (std::size_t i = 0; i < request.src_shapes.size(); ++i)
    place.src_spans.push_back(widened(hull(cut.src_owned[i][part], boxes.src_needed[i]),
                                      request.src_margin, request.src_shapes[i]));
  place.dst_span =
      widened(hull(boxes.dst_produced, boxes.dst_owned), request.dst_margin, dst_shape);
  if (request.dst_spans_all_channels && !place.dst_span.empty()) {
    place.dst_span.lo[kC] = 0;
    place.dst_span.hi[kC] = dst_shape.c;
  }
  place.boxes = std::move(boxes);
  return place;
}

}  // namespace

LayerCut cut_layer(const Layer& layer, const CutRequest& request) {
  LayerCut cut;
  const Shape dst_shape = layer.dst_shape(request.src_shapes);
  cut.src_owned = request.src_owned;
  if (cut.src_owned.empty())
    for (const Shape& shape : request.src_shapes)
      cut.src_owned.push_back(block_partition(shape, request.grid));
  const Partition dst_owned =
      request.dst_owned.empty() ? block_partition(dst_shape, request.grid) : request.dst_owned;
  std::vector<std::vector<Box>> needed(request.src_shapes.size());
  std::vector<Box> produced;
  for (std::size_t part = 0; part < dst_owned.size(); ++part) {
    const LayerBoxes boxes = boxes_of(layer, request, cut, dst_shape, dst_owned, part);
    for (std::size_t i = 0; i < needed.size(); ++i) needed[i].push_back(boxes.src_needed[i]);
    produced.push_back(boxes.dst_produced);
    LayerPlace place = place_of(layer, request, cut, dst_shape, boxes, part);
    add_chunks(layer, cut, part, place, cut.chunk_needs_remote.emplace_back());
    cut.places.push_back(std::move(place));
  }
  for (std::size_t i = 0; i < needed.size(); ++i)
    cut.src_plans.push_back(plan_transfers(cut.src_owned[i], needed[i]));
  if (layer.splits_over_input()) cut.partial_sums = plan_transfers(dst_owned, produced);
  return cut;
}

}  // namespace halomesh
