// SPDX-License-Identifier: Apache-2.0
// A network: an ordered list of layers, each naming its inputs. Owns the layers. Must not depend on
// ranks or on the memory of parameters.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "partition/model_geometry.hpp"
#include "partition/overlap.hpp"
#include "src/nn/layer.hpp"

namespace halomesh {

/// One layer with its place in the network.
struct ModelLayer {
  std::string name;
  std::unique_ptr<Layer> layer;
  std::vector<std::size_t> inputs;  ///< tensor numbers: 0 is the input, i + 1 the output of layer i
};

/// Layers in an order in which each comes after its inputs. The last layer's output is the
/// network's output.
class Model {
 public:
  /// `input_type` is the type of the samples, as the first layers read them.
  explicit Model(const Shape& input, DataType input_type = DataType::kFloat32)
      : input_(input), input_type_(input_type) {}

  /// Appends a layer that reads these tensors; returns the number of its output tensor.
  std::size_t add(std::string name, std::unique_ptr<Layer> layer, std::vector<std::size_t> inputs) {
    layers_.push_back({std::move(name), std::move(layer), std::move(inputs)});
    return layers_.size();
  }
  /// Appends a layer that reads the output of the one before it (or the input).
  std::size_t add(std::string name, std::unique_ptr<Layer> layer) {
    return add(std::move(name), std::move(layer), {layers_.size()});
  }

  /// Puts decorator(old layer), which must have the same geometry, in the place of each layer.
  template <class Decorator>
  void decorate(const Decorator& decorator) {
    for (ModelLayer& l : layers_) l.layer = decorator(std::move(l.layer));
  }

  const Shape& input() const { return input_; }
  DataType input_type() const { return input_type_; }
  /// The element type of every tensor: the input, then one per layer. Throws Error where a layer
  /// does not read the type of its input.
  std::vector<DataType> types() const {
    std::vector<DataType> types{input_type_};
    for (const ModelLayer& l : layers_) {
      std::vector<DataType> src;
      for (const std::size_t i : l.inputs) src.push_back(types[i]);
      types.push_back(l.layer->dst_type(src));
    }
    return types;
  }
  const std::vector<ModelLayer>& layers() const { return layers_; }

  /// Sets the scale of the input's counts for each channel; none: they stand for log(1+x). Must be
  /// called before the network is prepared. Throws Error unless the input has counts of so many
  /// channels.
  void scale_counts(std::vector<ChannelScale> scales) {
    require(scales.empty() || (input_type_ == DataType::kInt16 && std::ssize(scales) == input_.c),
            text("scales of {} channels for an input of {} {}", scales.size(), input_,
                 name_of(input_type_)));
    count_scales_ = std::move(scales);
  }
  const std::vector<ChannelScale>& count_scales() const { return count_scales_; }

  /// Sets the order in which parts compute the chunks of each layer.
  void set_chunk_order(ChunkOrder order) { chunk_order_ = order; }
  ChunkOrder chunk_order() const { return chunk_order_; }

  /// Sets the cuts of layers on every grid; by default those of least cost.
  void set_cuts(CutSetting cuts) { cuts_ = std::move(cuts); }
  /// The geometry of this network cut over `grid`. Throws UsageError where the cuts do not fit.
  ModelGeometry geometry(const PartGrid& grid) const {
    std::vector<GraphNode> nodes;
    for (const ModelLayer& l : layers_) nodes.push_back({l.name, l.layer.get(), l.inputs});
    return ModelGeometry(input_, nodes, grid, cuts_);
  }

 private:
  Shape input_;
  DataType input_type_;
  std::vector<ChannelScale> count_scales_;
  CutSetting cuts_;
  ChunkOrder chunk_order_ = ChunkOrder::kLocalFirst;
  std::vector<ModelLayer> layers_;
};

}  // namespace halomesh
