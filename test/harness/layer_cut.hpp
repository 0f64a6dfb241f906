// SPDX-License-Identifier: Apache-2.0
// A layer cut over parts: the boxes of each part and the plans between them, from geometry alone.
// Holds no data; used by both the in-process check and the one over MPI.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/mesh_shape.hpp"
#include "partition/partition.hpp"
#include "partition/transfer_plan.hpp"
#include "src/nn/layer.hpp"

namespace halomesh {

/// How to cut a layer. Margins widen a span beyond the layer's needs (clamped to the tensor), as if
/// a neighbouring layer needed a halo of that tensor.
struct CutRequest {
  std::vector<Shape> src_shapes;
  std::vector<DataType> src_types;  ///< one per input; if empty: all kFloat32
  PartGrid grid;
  std::int64_t batch = 1;
  Spatial src_margin{}, dst_margin{};
  bool dst_spans_all_channels = false;  ///< as if the next layer gathered the channels
  bool training = true;
  std::vector<ChannelScale> count_scales{};
  bool src_diff_wanted = true;
  std::vector<Partition> src_owned;  ///< one per input; if empty: block_partition of each input
  Partition dst_owned;               ///< if empty: block_partition of the output
};

/// All parts of a layer, indexed by part, and the transfers between them.
struct LayerCut {
  std::vector<LayerContext> contexts;
  std::vector<std::vector<bool>> chunk_needs_remote;  ///< per part, per dst chunk
  std::vector<Partition> src_owned;                   ///< per input
  std::vector<TransferPlan> src_plans;                ///< per input: owned -> needed
  /// The transfers from the owner of dst to parts that make a partial sum of it. Forward adds along
  /// the reversed plan, backward copies along it. Empty unless the layer splits over its input.
  TransferPlan partial_sums;
};

/// Cuts `layer`. The chunks of dst are those of order_chunks().
LayerCut cut_layer(const Layer& layer, const CutRequest& request);

}  // namespace halomesh
