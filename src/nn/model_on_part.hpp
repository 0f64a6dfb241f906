// SPDX-License-Identifier: Apache-2.0
// The contexts of a network's layers on one part of a cut and the order in which they compute, on
// which a training step, its forecast and the timing of single layers must agree. All calls are
// local.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "partition/step_program.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

/// Whether training computes the gradient of each tensor, because one of its producers has
/// parameters and is not below layer number `first`.
std::vector<bool> tensors_with_diff(const Model& model, const ModelGeometry& geometry,
                                    std::size_t first = 0);

/// The chunks in which `part` computes layer number `layer`. The chunk that needs nothing remote is
/// split where other parts need some of the layer's output, so that this can leave before the rest
/// is computed; it then comes first or last, as Model::chunk_order() says.
std::vector<Chunk> chunks_of(const Model& model, const ModelGeometry& geometry, std::size_t layer,
                             std::size_t part);

/// Indexed by tensor: the plan that brings it to all parts that need it, in rounds in the order in
/// which the chunks of its only consumer need them, or undivided where it has several consumers; no
/// rounds where nothing moves. With `part`, only the transfers from and to that part.
using HaloRounds = std::vector<std::vector<TransferPlan>>;
HaloRounds halo_rounds(const Model& model, const ModelGeometry& geometry,
                       std::optional<std::int64_t> part = {});

/// The transfers of an exchange, with those of halos from `rounds`. With `part`, only the transfers
/// from and to that part.
TransferPlan plan_of(const StepExchange& exchange, const ModelGeometry& geometry,
                     const HaloRounds& rounds, std::optional<std::int64_t> part = {});

/// The context that prepares layer number `layer` on `part` for `batch` samples.
LayerContext layer_context(const Model& model, const ModelGeometry& geometry, std::size_t layer,
                           std::size_t part, std::int64_t batch, bool training);

/// The tensors, passes and exchanges of a step on `part`, whose transfers `rounds` contains.
/// Backward, the halo's gradients are computed before the gradients of parameters, so that they
/// travel meanwhile, unless no part sends any and the layer's input can make room for its gradient.
/// Where outputs are recomputed, the gradients of parameters always come first.
StepGraph step_graph(const Model& model, const ModelGeometry& geometry, const HaloRounds& rounds,
                     std::size_t part, std::int64_t batch, bool training,
                     MemoryUse use = MemoryUse::kShared);

/// The channels of `dst`, a block of the output, that come from this input, for a layer that can
/// repeat its forward pass input by input.
Box block_of_input(const LayerPlacement& layer, const Box& dst, std::size_t input);

}  // namespace halomesh
