// SPDX-License-Identifier: Apache-2.0
// What the layers of a network on one part of a cut are given and in which order they compute: what
// a training step, its forecast and the timing of single layers must agree on. All calls are local.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/overlap.hpp"
#include "partition/step_memory.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

/// Per tensor: whether training computes its gradient, as one of its producers has parameters and
/// is not below layer number `first`.
std::vector<bool> tensors_with_diff(const Model& model, const ModelGeometry& geometry,
                                    std::size_t first = 0);

/// The chunks in which `part` computes layer number `layer`. The one that needs nothing remote is
/// split where other parts need some of the layer's output, so that it can leave before the rest
/// is computed; there it comes first or last, as Model::chunk_order() says.
std::vector<Chunk> chunks_of(const Model& model, const ModelGeometry& geometry, std::size_t layer,
                             std::size_t part);

/// The plan that brings tensor number `tensor` to all parts that need it, in the order in which the
/// chunks of its only consumer do; undivided where it has several.
std::vector<TransferPlan> rounds_of(const Model& model, const ModelGeometry& geometry,
                                    std::size_t tensor);
/// The same of some of that plan's transfers.
std::vector<TransferPlan> rounds_of(const Model& model, const ModelGeometry& geometry,
                                    std::size_t tensor, const TransferPlan& distribute);

/// What layer number `layer` is prepared with on `part`, for `batch` samples.
LayerContext layer_context(const Model& model, const ModelGeometry& geometry, std::size_t layer,
                           std::size_t part, std::int64_t batch, bool training);

/// What a step keeps in memory on `part`, and which pass of a layer reads it. Backward, the halo's
/// gradients are computed before those of parameters, so that they travel meanwhile, unless no part
/// sends any and the layer's input can make room for its gradient. Where outputs are recomputed,
/// those of parameters always come first.
StepGraph step_graph(const Model& model, const ModelGeometry& geometry, std::size_t part,
                     std::int64_t batch, bool training, MemoryUse use = MemoryUse::kShared);

/// The channels of `dst`, a block of the output, that a layer that can repeat its forward pass
/// input by input makes of this one.
Box block_of_input(const LayerPlacement& layer, const Box& dst, std::size_t input);

}  // namespace halomesh
