// SPDX-License-Identifier: Apache-2.0
// The geometry of a whole network on a part grid: see model_geometry.hpp.
#include "partition/model_geometry.hpp"

#include <algorithm>
#include <utility>

#include "error.hpp"

namespace halomesh {
namespace {

// The boxes of input `input` that `node` reads on each part, for these produced boxes.
std::vector<Box> needs_of(const GraphNode& node, std::size_t input,
                          const std::vector<Shape>& src_shapes, const std::vector<Box>& produced) {
  std::vector<Box> boxes;
  boxes.reserve(produced.size());
  for (const Box& dst : produced)
    boxes.push_back(dst.empty() ? Box{} : node.layer->needs(dst, input, src_shapes));
  return boxes;
}

// True when a part that has a block of `blocks` would own nothing of `aligned`: saving a transfer
// is not worth a part without work (a final pooling to one voxel would leave the whole network to a
// single part).
bool leaves_idle(const std::vector<Box>& aligned, const Partition& blocks) {
  for (std::size_t p = 0; p < blocks.size(); ++p)
    if (aligned[p].empty() && !blocks[p].empty()) return true;
  return false;
}

void add_holder(ParameterPlacement& placement, const ParameterSlice& slice, std::int64_t part) {
  for (SliceHolders& group : placement.holders) {
    if (group.slice == slice) {
      group.parts.push_back(part);
      return;
    }
    require(!overlap(group.slice, slice),
            text("layer {}: parts hold overlapping slices {} and {} of its {}",
                 placement.layer_name, group.slice, slice, placement.geometry.name),
            "a layer's parameter slices must be equal or disjoint");
  }
  placement.holders.push_back({slice, {part}});
}

}  // namespace

ModelGeometry::ModelGeometry(const Shape& input, const std::vector<GraphNode>& nodes,
                             const PartGrid& grid, const CutSetting& cuts)
    : grid_(grid) {
  derive_shapes(input, nodes);
  std::vector<Shape> shapes;
  for (const TensorGeometry& tensor : tensors_) shapes.push_back(tensor.shape);
  cuts_ = choose_cuts(nodes, shapes, grid, cuts);
  derive_owners(nodes);
  derive_needs(nodes);
  derive_whole_gradients(nodes);
  derive_transfers();
  derive_parameters(nodes);
}

void ModelGeometry::derive_shapes(const Shape& input, const std::vector<GraphNode>& nodes) {
  require(input.volume() > 0, text("the network's input {} has no elements", input),
          "give extents of at least 1, e.g. --input 128x128x128x4");
  tensors_.resize(nodes.size() + 1);
  tensors_[0].name = "input";
  tensors_[0].shape = input;
  for (std::size_t l = 0; l < nodes.size(); ++l) {
    LayerPlacement placement;
    placement.name = nodes[l].name;
    for (std::size_t t : nodes[l].inputs) {
      require(t <= l, text("layer {} reads tensor {} before it is made", nodes[l].name, t),
              "order the layers so that each comes after its inputs");
      placement.src_shapes.push_back(tensors_[t].shape);
      tensors_[t].consumers.push_back(l);
    }
    TensorGeometry& dst = tensors_[l + 1];
    dst.name = nodes[l].name;
    try {
      dst.shape = nodes[l].layer->dst_shape(placement.src_shapes);
    } catch (const Error& error) {
      throw Error(fmt::format("layer {}: {}", nodes[l].name, error.what()), error.hint());
    }
    dst.partial_sums = nodes[l].layer->splits_over_input();
    require(!dst.partial_sums || nodes[l].inputs.size() == 1,
            text("layer {} is split over its input but has several inputs", nodes[l].name),
            "only layers with one input can be split over it");
    layers_.push_back(std::move(placement));
  }
}

void ModelGeometry::derive_owners(const std::vector<GraphNode>& nodes) {
  for (std::size_t t = tensors_.size(); t-- > 0;) {
    TensorGeometry& tensor = tensors_[t];
    if (t > 0 &&
        (cuts_[t - 1].cut.groups > 1 || nodes[t - 1].layer->whole_gradients() != nullptr)) {
      tensor.owned = cut_partition(tensor.shape, grid_, cuts_[t - 1].cut);
      continue;
    }
    tensor.owned = block_partition(tensor.shape, grid_);
    if (tensor.consumers.size() != 1) continue;
    const std::size_t consumer = tensor.consumers.front();
    if (nodes[consumer].layer->splits_over_input()) continue;
    // Consumers come later in the order and this loop runs backwards, so their produced boxes are
    // already known.
    const auto& inputs = nodes[consumer].inputs;
    const auto input =
        static_cast<std::size_t>(std::find(inputs.begin(), inputs.end(), t) - inputs.begin());
    std::vector<Box> aligned = needs_of(nodes[consumer], input, layers_[consumer].src_shapes,
                                        tensors_[consumer + 1].owned);
    if (is_partition(aligned, tensor.shape) && !leaves_idle(aligned, tensor.owned))
      tensor.owned = std::move(aligned);
  }
}

void ModelGeometry::derive_needs(const std::vector<GraphNode>& nodes) {
  const auto parts = static_cast<std::size_t>(grid_.count());
  tensors_[0].produced = tensors_[0].owned;
  for (std::size_t l = 0; l < nodes.size(); ++l) {
    TensorGeometry& dst = tensors_[l + 1];
    for (std::size_t p = 0; p < parts; ++p) {
      std::vector<Box> src_local;
      for (const std::size_t t : nodes[l].inputs) src_local.push_back(tensors_[t].owned[p]);
      LayerBoxes boxes =
          boxes_of(*nodes[l].layer, layers_[l].src_shapes, std::move(src_local), dst.owned[p]);
      dst.produced.push_back(boxes.dst_produced);
      for (std::size_t i = 0; i < nodes[l].inputs.size(); ++i)
        if (nodes[l].inputs[i] == 0) boxes.src_local[i] = boxes.src_needed[i];
      layers_[l].boxes.push_back(std::move(boxes));
    }
  }
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    TensorGeometry& tensor = tensors_[t];
    tensor.needed.assign(parts, Box{});
    for (std::size_t l : tensor.consumers)
      for (std::size_t i = 0; i < nodes[l].inputs.size(); ++i)
        if (nodes[l].inputs[i] == t)
          for (std::size_t p = 0; p < parts; ++p)
            tensor.needed[p] = hull(tensor.needed[p], layers_[l].boxes[p].src_needed[i]);
    tensor.gradient_starts_whole.assign(parts, false);
    if (tensor.consumers.empty()) continue;
    const std::size_t last = tensor.consumers.back();
    const auto& inputs = nodes[last].inputs;
    const auto input =
        static_cast<std::size_t>(std::find(inputs.begin(), inputs.end(), t) - inputs.begin());
    for (std::size_t p = 0; p < parts; ++p)
      tensor.gradient_starts_whole[p] = layers_[last].boxes[p].src_needed[input].contains(
          hull(tensor.owned[p], tensor.needed[p]));
  }
}

// Where a layer has whole gradients, parts do not add up contributions: they gather the part of the
// output's gradient that they need and copy the gradients that they have computed to the owners.
void ModelGeometry::derive_whole_gradients(const std::vector<GraphNode>& nodes) {
  for (std::size_t l = 0; l < nodes.size(); ++l) {
    const WholeGradients* const whole = nodes[l].layer->whole_gradients();
    if (whole == nullptr) continue;
    const std::vector<std::size_t>& inputs = nodes[l].inputs;
    require(inputs.size() == 1 && tensors_[inputs[0]].consumers.size() == 1,
            text("layer {}: gradients that do not depend on the parts need an input of its own",
                 nodes[l].name),
            "let only this layer read its only input");
    if (inputs[0] == 0) continue;
    TensorGeometry& src = tensors_[inputs[0]];
    TensorGeometry& dst = tensors_[l + 1];
    std::vector<Box> computed, gathered;
    for (LayerBoxes& boxes : layers_[l].boxes) {
      if (!boxes.dst_owned.empty()) {
        boxes.diff_src = whole->gradient_box(boxes.dst_owned, layers_[l].src_shapes);
        boxes.diff_dst_needed = whole->gradient_needs(boxes.diff_src, layers_[l].src_shapes);
      }
      computed.push_back(boxes.diff_src);
      gathered.push_back(boxes.diff_dst_needed);
    }
    require(is_partition(computed, src.shape),
            text("layer {}: parts compute gradients of its input that do not make up a whole",
                 nodes[l].name));
    src.whole_diffs = true;
    src.return_diff = plan_transfers(computed, src.owned);
    src.gradient_starts_whole.assign(computed.size(), true);
    dst.gather_diff = plan_transfers(dst.owned, gathered);
  }
}

void ModelGeometry::derive_transfers() {
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    TensorGeometry& tensor = tensors_[t];
    for (std::size_t p = 0; p < tensor.owned.size(); ++p) {
      tensor.span.push_back(hull(hull(tensor.owned[p], tensor.produced[p]), tensor.needed[p]));
      if (t > 0) tensor.span[p] = hull(tensor.span[p], layers_[t - 1].boxes[p].diff_dst_needed);
      if (tensor.whole_diffs)
        tensor.span[p] = hull(tensor.span[p], layers_[tensor.consumers[0]].boxes[p].diff_src);
    }
    tensor.distribute = plan_transfers(tensor.owned, tensor.needed);
    if (tensor.partial_sums) tensor.broadcast = plan_transfers(tensor.owned, tensor.produced);
  }
}

void ModelGeometry::derive_parameters(const std::vector<GraphNode>& nodes) {
  for (std::size_t l = 0; l < nodes.size(); ++l) {
    const auto geometries = nodes[l].layer->parameters(layers_[l].src_shapes);
    for (std::size_t i = 0; i < geometries.size(); ++i) {
      ParameterPlacement placement{l, i, nodes[l].name, geometries[i], {}, {}};
      for (std::int64_t p = 0; p < grid_.count(); ++p) {
        const ParameterSlice slice = nodes[l].layer->parameter_slice(
            i, layers_[l].boxes[static_cast<std::size_t>(p)], layers_[l].src_shapes);
        placement.slices.push_back(slice);
        if (!slice.empty()) add_holder(placement, slice, p);
      }
      parameters_.push_back(std::move(placement));
    }
  }
}

std::int64_t ModelGeometry::parameter_count() const {
  std::int64_t count = 0;
  for (const ParameterPlacement& p : parameters_)
    if (p.geometry.moving_average == 0) count += p.geometry.volume();
  return count;
}

std::int64_t ModelGeometry::parameter_count(std::int64_t part) const {
  std::int64_t count = 0;
  for (const ParameterPlacement& p : parameters_) count += p.slice_volume(part);
  return count;
}

}  // namespace halomesh
