// SPDX-License-Identifier: Apache-2.0
// Small networks with every kind of connection that a mesh must handle, and bounds on how their
// layers scale numbers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/nn/kernels/convolution_block.hpp"
#include "src/nn/layers/add.hpp"
#include "src/nn/layers/concat.hpp"
#include "src/nn/layers/convolution.hpp"
#include "src/nn/layers/dense.hpp"
#include "src/nn/layers/dropout.hpp"
#include "src/nn/layers/elementwise.hpp"
#include "src/nn/layers/pooling.hpp"
#include "src/nn/layers/transposed_convolution.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

/// A network; all factors in its layers are powers of two, so that small integers stay exact.
struct SmallNetwork {
  std::string name;
  Model model;
  /// Binary digits after the point that its layers without parameters add along any path.
  int fraction_bits = 0;
  /// Bound on how these layers enlarge the largest value forward and the sum of values backward.
  double growth = 1;
};

/// Builds a SmallNetwork layer by layer; each function returns the tensor that it makes.
class SmallNetworkBuilder {
 public:
  SmallNetworkBuilder(std::string name, const Shape& input)
      : network_{std::move(name), Model(input), 0, 1} {}

  std::size_t convolution(std::int64_t filters, const WindowOptions& window, std::size_t src) {
    return add("conv", std::make_unique<Convolution>(ConvolutionOptions{filters, window}), {src});
  }
  std::size_t convolution(std::int64_t filters, std::int64_t kernel, std::size_t src) {
    return convolution(filters, WindowOptions::cube(kernel, 1, PaddingKind::kSame), src);
  }
  /// Pooled by two.
  std::size_t block(std::int64_t filters, std::size_t src, std::int64_t kernel = 2) {
    network_.fraction_bits += 1;
    ConvolutionBlockOptions options{filters, WindowOptions::cube(kernel, 1, PaddingKind::kSame)};
    options.slope = 0.5F;
    return add("block", std::make_unique<ConvolutionBlock>(options), {src});
  }
  std::size_t dense(std::int64_t out, std::size_t src) {
    return add("fc", std::make_unique<Dense>(out), {src});
  }
  std::size_t max_pooling(std::int64_t kernel, std::int64_t stride, std::size_t src) {
    const WindowOptions window = WindowOptions::cube(kernel, stride, PaddingKind::kSame);
    return add("pool", std::make_unique<MaxPooling>(window), {src});
  }
  /// Mean of 2x2x2 elements.
  std::size_t average_pooling(std::size_t src) {
    network_.fraction_bits += 3;
    const WindowOptions window = WindowOptions::cube(2, 2, PaddingKind::kValid);
    return add("mean", std::make_unique<AveragePooling>(window), {src});
  }
  std::size_t leaky_relu(std::size_t src) {
    network_.fraction_bits += 1;
    return add("act", std::make_unique<Elementwise>(ElementFunction::leaky_relu(0.5F)), {src});
  }
  std::size_t dropout(std::size_t src) {
    network_.growth *= 2;
    return add("dropout", std::make_unique<Dropout>(0.5), {src});
  }
  std::size_t sum(std::size_t a, std::size_t b) {
    network_.growth *= 2;
    return add("sum", std::make_unique<Add>(), {a, b});
  }
  std::size_t concat(std::size_t a, std::size_t b) {
    return add("concat", std::make_unique<Concat>(), {a, b});
  }
  /// Extents times two, of a tensor of `channels`: each output is a sum over them.
  std::size_t transposed(std::int64_t filters, std::int64_t channels, std::size_t src) {
    network_.growth *= static_cast<double>(channels);
    const WindowOptions window = WindowOptions::cube(2, 2, PaddingKind::kValid);
    return add(
        "up",
        std::make_unique<TransposedConvolution>(TransposedConvolutionOptions{filters, window}),
        {src});
  }
  /// Says that the gradient of a tensor is a sum over two consumers.
  void fork() { network_.growth *= 2; }
  SmallNetwork take() { return std::move(network_); }

 private:
  std::size_t add(const std::string& name, std::unique_ptr<Layer> layer,
                  std::vector<std::size_t> inputs) {
    const std::string number = std::to_string(network_.model.layers().size());
    return network_.model.add(name + number, std::move(layer), std::move(inputs));
  }
  SmallNetwork network_;
};

inline SmallNetwork chain_network() {
  SmallNetworkBuilder b("convolutions in a row, dense layers", {2, 7, 6, 5});
  const auto conv = b.convolution(3, 2, b.convolution(3, 3, 0));
  b.dense(3, b.dropout(b.leaky_relu(b.dense(5, b.leaky_relu(conv)))));
  return b.take();
}

inline SmallNetwork skip_network() {
  SmallNetworkBuilder b("skip around a convolution", {2, 6, 7, 5});
  const auto trunk = b.leaky_relu(b.convolution(3, 2, 0));
  b.convolution(2, 2, b.sum(trunk, b.convolution(3, 3, trunk)));
  return b.take();
}

// One tensor with readers of different halos, one of which needs none and one not even all of it.
inline SmallNetwork branches_network() {
  SmallNetworkBuilder b("branches that read different halos", {2, 8, 6, 6});
  const auto trunk = b.convolution(2, 2, 0);
  const auto thin = b.convolution(2, WindowOptions::cube(1, 2, PaddingKind::kValid), trunk);
  const auto wide = b.convolution(2, WindowOptions::cube(5, 2, PaddingKind::kSame), trunk);
  b.sum(b.sum(thin, wide), b.max_pooling(2, 2, trunk));
  return b.take();
}

inline SmallNetwork strided_network() {
  SmallNetworkBuilder b("strided and dilated convolutions", {2, 11, 9, 8});
  const auto first = b.convolution(3, WindowOptions::cube(3, 2, PaddingKind::kSame), 0);
  const WindowOptions dilated{{2, 2, 2}, {1, 1, 1}, {2, 2, 1}, PaddingKind::kSame, {}, {}};
  const auto second = b.convolution(2, dilated, first);
  b.dense(4, b.convolution(2, WindowOptions::cube(4, 3, PaddingKind::kSame), second));
  return b.take();
}

inline SmallNetwork pooling_network() {
  SmallNetworkBuilder b("overlapping and average pooling", {2, 12, 8, 9});
  const auto pooled = b.max_pooling(3, 2, b.convolution(3, 2, 0));
  b.convolution(2, 3, b.average_pooling(pooled));
  return b.take();
}

// Fewer planes than parts soon: the last parts of a long cut own nothing.
inline SmallNetwork few_planes_network() {
  SmallNetworkBuilder b("fewer planes than parts", {2, 5, 4, 4});
  const auto first = b.max_pooling(2, 2, b.leaky_relu(b.convolution(3, 2, 0)));
  const auto second = b.max_pooling(2, 2, b.convolution(3, 3, first));
  b.dense(3, b.dense(4, b.convolution(2, 2, second)));
  return b.take();
}

inline SmallNetwork dense_network() {
  SmallNetworkBuilder b("dense layers with a skip", {3, 4, 3, 2});
  const auto first = b.leaky_relu(b.dense(5, 0));
  b.dense(2, b.sum(first, b.dropout(b.dense(5, first))));
  return b.take();
}

// Layers before the first parameters need no gradient, but their output may.
inline SmallNetwork pooled_input_network() {
  SmallNetworkBuilder b("pooled input, read twice", {2, 10, 8, 6});
  const auto pooled = b.max_pooling(2, 2, 0);
  const auto strided = b.convolution(2, WindowOptions::cube(2, 2, PaddingKind::kSame), 0);
  b.dense(3, b.sum(b.sum(pooled, strided), b.convolution(2, 2, pooled)));
  return b.take();
}

// The last two blocks are cut by channels on up to 4 and 6 parts, and the dense layer with them.
inline SmallNetwork late_channels_network() {
  SmallNetworkBuilder b("late blocks cut by channels", {2, 12, 8, 9});
  b.dense(3, b.block(96, b.block(64, b.block(4, 0))));
  return b.take();
}

// Blocks of kernel 2 and 3 that may be cut in any blocks of space and groups of channels, with
// blocks and groups that are not equal, and a dense layer of what they make.
inline SmallNetwork mixed_cuts_network(const std::string& cuts) {
  SmallNetworkBuilder b("blocks cut " + cuts, {2, 28, 20, 16});
  b.dense(3, b.block(96, b.block(64, b.block(4, 0), 3)));
  SmallNetwork network = b.take();
  network.model.set_cuts(parse_cuts(cuts));
  return network;
}

// One level of a U-Net: parts of the lower one are larger, and cut elsewhere.
inline SmallNetwork u_network() {
  SmallNetworkBuilder b("down, up and across", {2, 10, 6, 4});
  const auto across = b.convolution(2, 2, 0);
  const auto down = b.convolution(2, WindowOptions::cube(2, 2, PaddingKind::kValid), across);
  b.fork();
  b.convolution(1, 2, b.concat(b.transposed(2, 2, down), across));
  return b.take();
}

inline std::vector<SmallNetwork (*)()> small_networks() {
  return {&chain_network,         &skip_network,       &branches_network, &strided_network,
          &pooling_network,       &few_planes_network, &dense_network,    &pooled_input_network,
          &late_channels_network, &u_network};
}

}  // namespace halomesh
