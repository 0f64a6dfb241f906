// SPDX-License-Identifier: Apache-2.0
// The geometry of a whole network on a part grid: for every tensor, the boxes that each part owns,
// produces and needs, and the resulting transfers; for every parameter, the slices that parts hold.
// Each rank derives it alone from the layers' declarations, with equal results.
#pragma once

#include <string>
#include <vector>

#include "partition/choose_cuts.hpp"
#include "partition/cuts.hpp"
#include "partition/layer_geometry.hpp"
#include "partition/partition.hpp"
#include "partition/transfer_plan.hpp"

namespace halomesh {

/// One tensor of the network. Vectors are indexed by part; boxes are in global coordinates.
struct TensorGeometry {
  std::string name;  ///< name of the layer that produces it, or "input"
  Shape shape;
  std::vector<std::size_t> consumers;  ///< layers that read it
  Partition owned;
  std::vector<Box> produced;  ///< owned, or the box to which the part's partial sums contribute
  std::vector<Box> needed;    ///< hull of the boxes that the consumers read on this part
  std::vector<Box> span;      ///< hull of all three: the box that memory is allocated for
  /// Whether the last consumer, which is the first to write the gradient in backward, reads
  /// everything owned or needed, so that the gradient need not be cleared before.
  std::vector<bool> gradient_starts_whole;
  bool partial_sums = false;
  /// Forward: copy along it (halos, gathers). Backward: add along its reverse.
  TransferPlan distribute;
  /// Backward: add along distribute reversed, unless the consumer has whole gradients: then copy
  /// along `return_diff`, from the parts that compute them to the owners.
  bool whole_diffs = false;
  TransferPlan return_diff;
  /// Backward, where the producer has whole gradients: copy along it the blocks that its parts
  /// need.
  TransferPlan gather_diff;
  /// Owner -> producers of partial sums. Forward: add along its reverse. Backward: copy along it.
  TransferPlan broadcast;
};

/// One layer on the grid.
struct LayerPlacement {
  std::string name;
  std::vector<Shape> src_shapes;
  std::vector<LayerBoxes> boxes;  ///< indexed by part
};

/// The parts that hold one slice of a parameter; its gradient is summed over them and over all
/// replicas.
struct SliceHolders {
  ParameterSlice slice;
  std::vector<std::int64_t> parts;  ///< ascending
};

/// One parameter of one layer: the slices that the parts hold.
struct ParameterPlacement {
  std::size_t layer = 0;   ///< index of the layer
  std::size_t number = 0;  ///< position among the layer's parameters
  std::string layer_name;
  ParameterGeometry geometry;
  std::vector<ParameterSlice> slices;  ///< indexed by part; empty where the part holds nothing
  std::vector<SliceHolders> holders;

  std::int64_t slice_volume(std::int64_t part) const {
    return slices[static_cast<std::size_t>(part)].volume();
  }
};

/// The geometry of the whole network. Owned boxes follow one rule: the network's output and every
/// tensor whose consumers need overlapping boxes is cut in blocks with remainder; a tensor whose
/// only consumer needs disjoint boxes that cover it (2x2x2 pooling, activations) is cut along just
/// those, so that nothing has to move, unless that would leave a part without work that would
/// otherwise have a block.
///
/// The output of a layer that choose_cuts() cuts in groups of channels is an exception: it belongs
/// to the parts of its cut (cut_box()). All gathers and the holders of parameters follow from the
/// boxes.
class ModelGeometry {
 public:
  /// Throws Error, naming the layer, where shapes do not fit or slices overlap in part, and
  /// UsageError for cuts that are not possible.
  ModelGeometry(const Shape& input, const std::vector<GraphNode>& nodes, const PartGrid& grid,
                const CutSetting& cuts = {});

  const PartGrid& grid() const { return grid_; }
  const std::vector<TensorGeometry>& tensors() const { return tensors_; }
  const std::vector<LayerPlacement>& layers() const { return layers_; }
  const std::vector<ParameterPlacement>& parameters() const { return parameters_; }
  /// How each layer's output is cut, indexed by layer.
  const std::vector<LayerChoice>& cuts() const { return cuts_; }
  /// Logical number of trainable parameters of the network, independent of the grid.
  std::int64_t parameter_count() const;
  /// Parameters that `part` holds, moving averages included.
  std::int64_t parameter_count(std::int64_t part) const;

 private:
  void derive_shapes(const Shape& input, const std::vector<GraphNode>& nodes);
  void derive_owners(const std::vector<GraphNode>& nodes);
  void derive_needs(const std::vector<GraphNode>& nodes);
  void derive_whole_gradients(const std::vector<GraphNode>& nodes);
  void derive_transfers();
  void derive_parameters(const std::vector<GraphNode>& nodes);

  PartGrid grid_;
  std::vector<LayerChoice> cuts_;
  std::vector<TensorGeometry> tensors_;
  std::vector<LayerPlacement> layers_;
  std::vector<ParameterPlacement> parameters_;
};

}  // namespace halomesh
