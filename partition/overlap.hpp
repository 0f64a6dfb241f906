// SPDX-License-Identifier: Apache-2.0
// The order in which a part computes its output so that computation hides the exchange: chunks of
// D-planes whose inputs are all owned come first, then the others in the order in which their halos
// arrive; values that neighbours need are sent before the rest is computed.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "box.hpp"
#include "partition/model_geometry.hpp"
#include "partition/transfer_plan.hpp"

namespace halomesh {

/// A block of D-planes of a layer's output and whether it needs data of other parts.
struct Chunk {
  Box dst;
  bool needs_remote = false;
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

/// The planes that a part computes first if some of a layer's planes need only owned data: those
/// planes, while the halo arrives, or the others, to send early what neighbours need.
enum class ChunkOrder : std::uint8_t { kLocalFirst, kBoundaryFirst };

/// Splits `dst` along D into the planes that need only owned data (one chunk, first) and those
/// before and after them. Where every plane needs remote data (cuts along H or W), makes up to four
/// chunks, so that only the first must wait for its halo. `is_local(box)` says whether everything
/// that a dst box needs is owned. The chunks are disjoint and cover `dst`; none when dst is empty.
std::vector<Chunk> order_chunks(const Box& dst, const std::function<bool(const Box&)>& is_local);

/// The chunks in which a part with these boxes computes what it produces.
std::vector<Chunk> order_chunks(const LayerGeometry& layer, const LayerBoxes& boxes,
                                std::span<const Shape> src);

/// Cuts a plan along D into plans to be carried out in order: the k-th brings each part the data
/// that its k-th box of `needed` (indexed by part; lengths may differ) needs beyond the earlier
/// ones. Data that no box needs comes first. Returns at least one plan; some may be empty.
std::vector<TransferPlan> split_into_rounds(const TransferPlan& plan,
                                            const std::vector<std::vector<Box>>& needed);

/// Cuts the plan that brings all parts the data that they need of input `input` of a layer, in the
/// order in which the layer's chunks need it.
std::vector<TransferPlan> split_into_rounds(const TransferPlan& plan, const LayerGeometry& layer,
                                            const LayerPlacement& placement, std::size_t input);

/// For each of `rounds`, the number of `chunks`, computed in this order by `part`, after which all
/// that it sends in that round is computed; 0 if it sends nothing.
std::vector<std::size_t> chunks_before_sends(const std::vector<TransferPlan>& rounds,
                                             const std::vector<Chunk>& chunks, std::int64_t part);

}  // namespace halomesh
