// SPDX-License-Identifier: Apache-2.0
// The layers of a network on one part: see model_on_part.hpp.
#include "src/nn/model_on_part.hpp"

#include <algorithm>

#include "narrow.hpp"

namespace halomesh {

std::vector<bool> tensors_with_diff(const Model& model, const ModelGeometry& geometry,
                                    std::size_t first) {
  std::vector<bool> wanted{false};
  for (std::size_t l = 0; l < model.layers().size(); ++l) {
    const ModelLayer& entry = model.layers()[l];
    const bool trained =
        l >= first && !entry.layer->parameters(geometry.layers()[l].src_shapes).empty();
    wanted.push_back(trained || std::any_of(entry.inputs.begin(), entry.inputs.end(),
                                            [&](std::size_t i) { return wanted[i]; }));
  }
  return wanted;
}

std::vector<Chunk> chunks_of(const Model& model, const ModelGeometry& geometry, std::size_t layer,
                             std::size_t part) {
  constexpr std::int64_t kMaxSlabs = 4, kMinSlabPlanes = 4;
  const LayerPlacement& placement = geometry.layers()[layer];
  const TensorGeometry& dst = geometry.tensors()[layer + 1];
  std::vector<Chunk> chunks =
      order_chunks(*model.layers()[layer].layer, placement.boxes[part], placement.src_shapes);
  const auto& transfers = dst.distribute.transfers();
  const bool sends = std::any_of(transfers.begin(), transfers.end(), [&](const Transfer& t) {
    return t.src == static_cast<std::int64_t>(part);
  });
  if (!sends || dst.partial_sums || chunks.empty() || chunks[0].needs_remote) return chunks;
  const Box local = chunks[0].dst;
  const std::int64_t planes = local.extent(kD);
  const std::int64_t slabs = std::clamp<std::int64_t>(planes / kMinSlabPlanes, 1, kMaxSlabs);
  chunks.erase(chunks.begin());
  for (std::int64_t s = slabs; s-- > 0;)
    chunks.insert(chunks.begin(), {with_d_range(local, local.lo[kD] + s * planes / slabs,
                                                local.lo[kD] + (s + 1) * planes / slabs),
                                   false});
  return chunks;
}

std::vector<TransferPlan> rounds_of(const Model& model, const ModelGeometry& geometry,
                                    std::size_t tensor) {
  const TensorGeometry& g = geometry.tensors()[tensor];
  if (g.consumers.size() != 1 || g.distribute.empty()) return {g.distribute};
  const std::size_t l = g.consumers[0];
  const auto& inputs = model.layers()[l].inputs;
  const auto input = std::find(inputs.begin(), inputs.end(), tensor) - inputs.begin();
  return split_into_rounds(g.distribute, *model.layers()[l].layer, geometry.layers()[l],
                           static_cast<std::size_t>(input));
}

LayerContext layer_context(const Model& model, const ModelGeometry& geometry, std::size_t layer,
                           std::size_t part, std::int64_t batch, bool training) {
  const LayerPlacement& placement = geometry.layers()[layer];
  const TensorGeometry& dst = geometry.tensors()[layer + 1];
  const std::vector<DataType> types = model.types();
  const std::vector<bool> with_diff = tensors_with_diff(model, geometry);
  LayerContext context;
  context.index = narrow<std::uint32_t>(layer);
  context.src_shapes = placement.src_shapes;
  context.dst_shape = dst.shape;
  context.boxes = placement.boxes[part];
  context.dst_span = dst.span[part];
  context.dst_type = types[layer + 1];
  context.batch = batch;
  context.training = training;
  context.count_scales = model.count_scales();
  for (const std::size_t i : model.layers()[layer].inputs) {
    context.src_types.push_back(types[i]);
    context.src_spans.push_back(geometry.tensors()[i].span[part]);
    context.src_diff_wanted.push_back(training && with_diff[i]);
  }
  for (const Chunk& chunk : chunks_of(model, geometry, layer, part))
    context.dst_chunks.push_back(chunk.dst);
  return context;
}

}  // namespace halomesh
