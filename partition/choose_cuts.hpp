// SPDX-License-Identifier: Apache-2.0
// Chooses the cuts of all layers of a network that together cost the parts of a sample least time
// on the interconnect. Pure arithmetic of boxes: each rank finds the same cuts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "partition/cost/network_cost.hpp"
#include "partition/cuts.hpp"
#include "partition/layer_geometry.hpp"

namespace halomesh {

/// Bytes that arrive for one layer in a training step of one sample of 4-byte floats, at the part
/// that receives most.
struct CutBytes {
  std::int64_t exchanged = 0;  ///< halo and gathered input, and in backward as many gradients
  std::int64_t summed = 0;     ///< both halves of summing its gradients over the parts that share
                               ///< a slice: 2 (s - 1) / s of the slice on s parts
  std::int64_t total() const { return exchanged + summed; }
};

/// One layer's cut and the bytes that other cuts would move, with the layers before it cut as
/// chosen.
struct LayerChoice {
  TensorCut cut;
  CutBytes bytes;
  bool may_split = false;  ///< over channels: otherwise the cut is always in space
  std::optional<CutBytes> in_space, by_channels;  ///< none: not possible, or for other layers
};

/// The network that costs are computed for: one rank per node on the Tofu interconnect D of Fugaku,
/// 6.35 GB/s per put and 3 us per round of a collective (Ajima et al., The Tofu Interconnect D,
/// IEEE CLUSTER 2018, for the rate). Constants, so that every rank, every machine and `plan` choose
/// alike; only the product of latency and rate, 19 kB, matters.
NetworkCost cut_network();

/// Chooses the cut of each layer; the result is indexed by layer. `shapes` holds the shapes of all
/// tensors, the input first.
///
/// A layer that splits_over_channels() may be cut by any all_cuts() that leaves each group
/// kChannelVector channels or more, since kernels would waste what a finer cut saves; unless it
/// reads the network's input, which comes with its halo in blocks of space and is never gathered.
/// Every other layer is cut in space. A layer of I input elements and W parameters on p parts in s
/// blocks of space moves 2 I (1/s - 1/p) + 2 (W s/p) (1 - 1/s) elements to each part, and halos:
/// least near s = sqrt(I p / W).
///
/// Each layer costs the exchange of its input, forward and back (one latency each way, since its
/// messages are in flight together), and sum_seconds() of fastest_sum() of its gradients over the
/// parts that share a slice. Sums over replicas and overlap with computation are left out. In a
/// chain, where each layer reads only the one before, the sum over layers is least of all choices
/// (Viterbi, IEEE Trans. Inf. Theory 13, 1967, 260-269); in other networks each layer, in order,
/// gets the cut that costs it least after those that it reads. At equal costs more blocks of space
/// win. On grids of more than 4 parts along an axis, costs are the largest of a sample of parts:
/// the first two, the middle one and the last of the axis.
///
/// Throws UsageError for a setting that names a layer or a cut that is not possible, and lists the
/// possible ones.
std::vector<LayerChoice> choose_cuts(const std::vector<GraphNode>& nodes,
                                     const std::vector<Shape>& shapes, const PartGrid& grid,
                                     const CutSetting& setting);

}  // namespace halomesh
