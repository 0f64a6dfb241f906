// SPDX-License-Identifier: Apache-2.0
// Cuts a layer over parts: see layer_cut.hpp.
#include "test/harness/layer_cut.hpp"

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

LayerContext context_of(const Layer& layer, const CutRequest& request, const LayerCut& cut,
                        const Shape& dst_shape, LayerBoxes boxes, std::size_t part) {
  LayerContext context;
  context.src_shapes = request.src_shapes;
  context.dst_shape = dst_shape;
  context.src_types = request.src_types;
  if (context.src_types.empty())
    context.src_types.assign(context.src_shapes.size(), DataType::kFloat32);
  context.dst_type = layer.dst_type(context.src_types);
  context.batch = request.batch;
  context.training = request.training;
  context.count_scales = request.count_scales;
  context.src_diff_wanted.assign(request.src_shapes.size(), request.src_diff_wanted);
  for (std::size_t i = 0; i < request.src_shapes.size(); ++i)
    context.src_spans.push_back(widened(hull(cut.src_owned[i][part], boxes.src_needed[i]),
                                        request.src_margin, request.src_shapes[i]));
  context.dst_span =
      widened(hull(boxes.dst_produced, boxes.dst_owned), request.dst_margin, dst_shape);
  if (request.dst_spans_all_channels && !context.dst_span.empty()) {
    context.dst_span.lo[kC] = 0;
    context.dst_span.hi[kC] = dst_shape.c;
  }
  context.boxes = std::move(boxes);
  return context;
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
    std::vector<Box> src_local;
    for (const Partition& owned : cut.src_owned) src_local.push_back(owned[part]);
    const LayerBoxes boxes =
        boxes_of(layer, request.src_shapes, std::move(src_local), dst_owned[part]);
    for (std::size_t i = 0; i < needed.size(); ++i) needed[i].push_back(boxes.src_needed[i]);
    produced.push_back(boxes.dst_produced);
    LayerContext context = context_of(layer, request, cut, dst_shape, boxes, part);
    std::vector<bool>& needs_remote = cut.chunk_needs_remote.emplace_back();
    for (const Chunk& chunk : order_chunks(layer, boxes, request.src_shapes)) {
      context.dst_chunks.push_back(chunk.dst);
      needs_remote.push_back(chunk.needs_remote);
    }
    cut.contexts.push_back(std::move(context));
  }
  for (std::size_t i = 0; i < needed.size(); ++i)
    cut.src_plans.push_back(plan_transfers(cut.src_owned[i], needed[i]));
  if (layer.splits_over_input()) cut.partial_sums = plan_transfers(dst_owned, produced);
  return cut;
}

}  // namespace halomesh
