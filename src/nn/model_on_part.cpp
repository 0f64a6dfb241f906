// SPDX-License-Identifier: Apache-2.0
// The layers of a network on one part: see model_on_part.hpp.
#include "src/nn/model_on_part.hpp"

#include <algorithm>
#include <optional>

#include "narrow.hpp"
#include "partition/part_messages.hpp"

namespace halomesh {
namespace {

// The place of the gradient of `src` within that of `dst`, where the layer can compute it in place.
std::optional<std::int64_t> place_in(const Box& src, const Box& dst, DataType type,
                                     std::int64_t batch) {
  if (src == dst) return 0;
  const AnyConstView view(nullptr, type, dst, batch);
  if (src.empty() || batch > 1 || !view.is_dense(src)) return {};
  return size_of(type) * TensorView<const char>{nullptr, dst, 1}.offset(0, src.lo[kC], src.lo[kD],
                                                                        src.lo[kH], src.lo[kW]);
}

// The input of the layer whose gradient may take the place of the output's, if there is one.
std::optional<LayerPasses::InPlace> in_place(const Model& model, const ModelGeometry& geometry,
                                             std::size_t layer, std::size_t part,
                                             std::int64_t batch, const std::vector<DataType>& types,
                                             const std::vector<bool>& with_diff) {
  const ModelLayer& entry = model.layers()[layer];
  for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
    const std::size_t t = entry.inputs[i];
    const TensorGeometry& src = geometry.tensors()[t];
    if (!entry.layer->backward_in_place(i) || !with_diff[t] || types[t] != types[layer + 1] ||
        !src.gradient_starts_whole[part])
      continue;
    if (const auto offset =
            place_in(src.span[part], geometry.tensors()[layer + 1].span[part], types[t], batch))
      return LayerPasses::InPlace{i, *offset};
  }
  return {};
}

// Whether recomputing an element of the output takes less time than most layers need to use it: an
// element of a convolution of 32 channels takes 1728 operations.
bool is_cheap(const Layer& layer, const std::vector<Shape>& src, const Shape& dst) {
  constexpr std::int64_t kMostFlops = 640;  // per element
  return layer.repeats_forward() && layer.forward_flops(src) <= kMostFlops * dst.volume();
}

// Whether each input alone determines a block of the output's channels.
bool repeats_by_input(const Layer& layer, const LayerPlacement& placement, const Shape& dst) {
  const std::vector<Shape>& src = placement.src_shapes;
  std::int64_t channels = 0;
  for (const Shape& shape : src) channels += shape.c;
  if (src.size() < 2 || channels != dst.c) return false;
  for (std::size_t i = 0; i < src.size(); ++i) {
    const Box block = block_of_input(placement, Box::whole(dst), i);
    for (std::size_t j = 0; j < src.size(); ++j)
      if (layer.needs(block, j, src).empty() != (j != i)) return false;
  }
  return true;
}

// Lists the exchanges of tensor number `t`, equally on all parts.
void add_exchanges(StepGraph& graph, std::size_t t, const TensorGeometry& g, bool gathers) {
  using Kind = StepExchange::Kind;
  const auto add = [&](bool moves, Kind kind, std::size_t round = 0) {
    if (moves) graph.exchanges.push_back({kind, t, round});
  };
  const bool halo = !g.distribute.empty(), sums = !g.broadcast.empty();
  for (std::size_t k = 0; k < graph.tensors[t].chunks_before_sends.size(); ++k)
    add(halo, Kind::kHalo, k);
  add(halo, Kind::kHaloAgain);
  add(sums, Kind::kPartialSums);
  const bool diff = graph.training && graph.tensors[t].diff_wanted;
  add(diff && (g.whole_diffs ? !g.return_diff.empty() : halo), Kind::kReturnDiff);
  add(diff && sums, Kind::kBroadcastDiff);
  add(diff && gathers && !g.gather_diff.empty(), Kind::kGatherDiff);
  add(diff && gathers && !g.gather_diff.empty(), Kind::kGatherState);
}

}  // namespace

Box block_of_input(const LayerPlacement& layer, const Box& dst, std::size_t input) {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < input; ++i) first += layer.src_shapes[i].c;
  Box box = dst;
  box.lo[kC] = std::max(dst.lo[kC], first);
  box.hi[kC] = std::min(dst.hi[kC], first + layer.src_shapes[input].c);
  return box.normalized();
}

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
  if (model.chunk_order() == ChunkOrder::kBoundaryFirst)
    std::stable_partition(chunks.begin(), chunks.end(),
                          [](const Chunk& c) { return c.needs_remote; });
  return chunks;
}

HaloRounds halo_rounds(const Model& model, const ModelGeometry& geometry,
                       std::optional<std::int64_t> part) {
  HaloRounds rounds(geometry.tensors().size());
  for (std::size_t t = 1; t < rounds.size(); ++t) {
    const TensorGeometry& g = geometry.tensors()[t];
    if (g.distribute.empty()) continue;
    const TransferPlan distribute = part ? plan_of_part(g.distribute, *part) : g.distribute;
    if (g.consumers.size() != 1) {
      rounds[t] = {distribute};
      continue;
    }
    const std::size_t l = g.consumers[0];
    const auto& inputs = model.layers()[l].inputs;
    const auto input = std::find(inputs.begin(), inputs.end(), t) - inputs.begin();
    rounds[t] = split_into_rounds(distribute, *model.layers()[l].layer, geometry.layers()[l],
                                  static_cast<std::size_t>(input));
  }
  return rounds;
}

TransferPlan plan_of(const StepExchange& exchange, const ModelGeometry& geometry,
                     const HaloRounds& rounds, std::optional<std::int64_t> part) {
  using Kind = StepExchange::Kind;
  const TensorGeometry& g = geometry.tensors()[exchange.tensor];
  const auto of = [&](const TransferPlan& plan) { return part ? plan_of_part(plan, *part) : plan; };
  switch (exchange.kind) {
    case Kind::kHalo:
      return rounds[exchange.tensor][exchange.round];
    case Kind::kHaloAgain:
      return of(g.distribute);
    case Kind::kPartialSums:
      return of(g.broadcast).reversed();
    case Kind::kReturnDiff:
      return g.whole_diffs ? of(g.return_diff) : of(g.distribute).reversed();
    case Kind::kBroadcastDiff:
      return of(g.broadcast);
    default:
      return of(g.gather_diff);
  }
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

StepGraph step_graph(const Model& model, const ModelGeometry& geometry, const HaloRounds& rounds,
                     std::size_t part, std::int64_t batch, bool training, MemoryUse use) {
  const std::vector<DataType> types = model.types();
  const std::vector<bool> with_diff = tensors_with_diff(model, geometry);
  StepGraph graph;
  graph.training = training;
  graph.use = use;
  for (std::size_t l = 0; l < model.layers().size(); ++l) {
    const ModelLayer& entry = model.layers()[l];
    LayerPasses passes;
    passes.inputs = entry.inputs;
    passes.has_parameters = !entry.layer->parameters(geometry.layers()[l].src_shapes).empty();
    passes.reads_src = entry.layer->backward_reads_src();
    passes.reads_dst = entry.layer->backward_reads_dst();
    passes.adds = entry.layer->backward_adds();
    const bool sends = std::any_of(entry.inputs.begin(), entry.inputs.end(), [&](std::size_t t) {
      return with_diff[t] && !geometry.tensors()[t].distribute.empty();
    });
    passes.parameters_first = entry.layer->whole_gradients() != nullptr ||
                              (!passes.reads_src && (!sends || use == MemoryUse::kRecomputed));
    const LayerPlacement& placement = geometry.layers()[l];
    const Shape& dst = geometry.tensors()[l + 1].shape;
    passes.repeats =
        !entry.layer->splits_over_input() && is_cheap(*entry.layer, placement.src_shapes, dst);
    passes.repeats_by_input = repeats_by_input(*entry.layer, placement, dst);
    passes.sums_replicas = training && entry.layer->samples_together() > batch;
    passes.in_place = in_place(model, geometry, l, part, batch, types, with_diff);
    passes.chunks = chunks_of(model, geometry, l, part);
    graph.layers.push_back(std::move(passes));
  }
  for (std::size_t t = 0; t < types.size(); ++t) {
    const TensorGeometry& g = geometry.tensors()[t];
    StepTensor tensor{batch * g.span[part].volume() * size_of(types[t]), with_diff[t]};
    tensor.clears_sums = g.partial_sums && !g.produced[part].contains(g.owned[part]);
    tensor.clears_diff = !g.gradient_starts_whole[part];
    if (t > 0 && g.partial_sums)  // complete only with the whole layer
      tensor.chunks_before_sends.assign(rounds[t].size(), kAfterLayer);
    else if (t > 0)
      tensor.chunks_before_sends =
          chunks_before_sends(rounds[t], graph.layers[t - 1].chunks, narrow<std::int64_t>(part));
    graph.tensors.push_back(std::move(tensor));
    if (t > 0)
      add_exchanges(graph, t, g, model.layers()[t - 1].layer->whole_gradients() != nullptr);
  }
  return graph;
}

}  // namespace halomesh
