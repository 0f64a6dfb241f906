// SPDX-License-Identifier: Apache-2.0
// Operators of ONNX: convolutions, poolings and products: what goes over windows of voxels. See
// operators.hpp.
#include <algorithm>
#include <utility>

#include "error.hpp"
#include "joined.hpp"
#include "models/onnx/operators.hpp"
#include "src/nn/layers/convolution.hpp"
#include "src/nn/layers/dense.hpp"
#include "src/nn/layers/depthwise_convolution.hpp"
#include "src/nn/layers/global_average.hpp"
#include "src/nn/layers/pooling.hpp"
#include "src/nn/layers/transposed_convolution.hpp"

namespace halomesh {
namespace {

constexpr auto kTorch = InitialValues::Kind::kFanInUniform;

Spatial spatial(const OnnxDims& dims, const char* what) {
  require(dims.size() == 3, text("{} of {} axes", what, dims.size()), "3-D networks have 3");
  return {dims[0], dims[1], dims[2]};
}

Spatial spatial_attribute(const OnnxNode& node, const char* name, std::int64_t fallback) {
  OnnxDims dims = node.integers(name);
  if (dims.empty()) dims = {fallback, fallback, fallback};
  for (const std::int64_t dim : dims)
    require(dim >= 0 && dim <= 65536, text("{} {}", name, joined(dims, "x")), "use smaller ones");
  return spatial(dims, name);
}

/// The window of a convolution or pooling of an input with these extents.
WindowOptions window_of(const OnnxNode& node, const Spatial& kernel, const Spatial& src) {
  WindowOptions window;
  window.kernel = kernel;
  window.stride = spatial_attribute(node, "strides", 1);
  window.dilation = spatial_attribute(node, "dilations", 1);
  const std::string automatic = node.word("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER") return window;
  window.padding = PaddingKind::kExplicit;
  if (automatic == "SAME_LOWER") {  // the larger half comes first
    const Window same = [&] {
      WindowOptions upper = window;
      upper.padding = PaddingKind::kSame;
      return upper.resolve(src);
    }();
    for (std::size_t a = 0; a < 3; ++a) {
      window.pad_before[a] = same[a].pad_after;
      window.pad_after[a] = same[a].pad_before;
    }
    return window;
  }
  const OnnxDims pads = node.integers("pads");
  if (pads.empty() || automatic == "VALID") return window;
  require(pads.size() == 6 &&
              std::all_of(pads.begin(), pads.end(), [](auto p) { return p >= 0 && p <= 65536; }),
          text("pads {}", joined(pads, ",")), "3-D networks have 6, none negative");
  std::copy_n(pads.begin(), 3, window.pad_before.begin());
  std::copy_n(pads.begin() + 3, 3, window.pad_after.begin());
  return window;
}

/// Adds a layer that is made with or without a bias.
OnnxValue add_with_bias(OperatorCall& call,
                        std::function<std::unique_ptr<Layer>(const OnnxVariant&)> make,
                        OnnxParameters parameters) {
  OnnxStep step;
  step.inputs = {*call.tensor(0).tensor};
  step.variant.weight = true;
  step.variant.bias = parameters.back().has_value();
  if (!step.variant.bias) parameters.pop_back();
  step.parameters = std::move(parameters);
  step.make = std::move(make);
  return call.add(std::move(step));
}

OnnxResults conv(OperatorCall& call) {
  const OnnxNode& node = call.node();
  const OnnxValue& src = call.plain(0);
  const OnnxDims& w = node.required(1, "weight").dims();
  require(w.size() == 5, text("a weight of {} dimensions", w.size()), "3-D convolutions have 5");
  const std::int64_t groups = node.integer("group", 1), channels = src.dims[1];
  require(groups >= 1 && w[0] >= 1 && w[0] % groups == 0 && w[1] * groups == channels,
          text("a weight of {} in {} groups for {} channels", joined(w, "x"), groups, channels),
          "export the network again");
  const WindowOptions window = window_of(node, {w[2], w[3], w[4]}, call.shape(0).spatial());
  const DataType compute = call.graph().settings().precision;
  const bool depthwise = groups > 1 && groups == channels && w[0] == channels;
  const auto make = [=, filters = w[0]](const OnnxVariant& v) -> std::unique_ptr<Layer> {
    if (depthwise)
      return std::make_unique<DepthwiseConvolution>(
          DepthwiseOptions{window, v.bias, compute, kTorch});
    return std::make_unique<Convolution>(
        ConvolutionOptions{filters, window, groups, v.bias, compute, kTorch, v.writes_fp32});
  };
  return add_with_bias(call, make, {call.parameter(1, w), call.parameter(2, {w[0]})});
}

/// The padding of a transposed convolution that is said by the extents of its output.
void fit_output(const OnnxNode& node, const Spatial& src, TransposedConvolutionOptions& options) {
  const std::string automatic = node.word("auto_pad", "NOTSET");
  OnnxDims wanted = node.integers("output_shape");
  if (wanted.size() == 5) wanted.erase(wanted.begin(), wanted.begin() + 2);
  WindowOptions& w = options.window;
  if (wanted.empty() && automatic.starts_with("SAME"))
    for (std::size_t a = 0; a < 3; ++a) wanted.push_back(src[a] * w.stride[a]);
  if (wanted.empty()) return;
  const Spatial extents = spatial(wanted, "output_shape");
  w.padding = PaddingKind::kExplicit;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t excess = w.stride[a] * (src[a] - 1) + options.output_padding[a] +
                                (w.kernel[a] - 1) * w.dilation[a] + 1 - extents[a];
    const std::int64_t total = std::max<std::int64_t>(excess, 0);
    options.output_padding[a] += total - excess;  // planes that no input reaches
    w.pad_before[a] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.pad_after[a] = total - w.pad_before[a];
  }
}

OnnxResults conv_transpose(OperatorCall& call) {
  const OnnxNode& node = call.node();
  const OnnxValue& src = call.plain(0);
  const OnnxDims& w = node.required(1, "weight").dims();
  require(w.size() == 5 && w[0] == src.dims[1],
          text("a weight of {} for {} channels", joined(w, "x"), src.dims[1]),
          "export the network again");
  const std::int64_t groups = node.integer("group", 1);
  const bool depthwise = groups > 1 && groups == w[0] && w[1] == 1;
  require(groups == 1 || depthwise, "a transposed convolution in groups of several channels",
          "use one group, or one for each channel");
  TransposedConvolutionOptions options;
  options.filters = w[1] * groups;
  options.window = window_of(node, {w[2], w[3], w[4]}, call.shape(0).spatial());
  options.output_padding = spatial_attribute(node, "output_padding", 0);
  options.compute = call.graph().settings().precision;
  options.initial = kTorch;
  fit_output(node, call.shape(0).spatial(), options);
  const auto make = [options, depthwise](const OnnxVariant& v) -> std::unique_ptr<Layer> {
    if (depthwise)
      return std::make_unique<DepthwiseConvolution>(DepthwiseOptions{
          options.window, v.bias, options.compute, kTorch, true, options.output_padding});
    TransposedConvolutionOptions own = options;
    own.bias = v.bias;
    own.writes_fp32 = v.writes_fp32;
    return std::make_unique<TransposedConvolution>(own);
  };
  return add_with_bias(call, make, {call.parameter(1, w), call.parameter(2, {options.filters})});
}

WindowOptions pooling_window(OperatorCall& call) {
  const OnnxNode& node = call.node();
  WindowOptions window =
      window_of(node, spatial_attribute(node, "kernel_shape", 1), call.shape(0).spatial());
  call.plain(0);
  window.ceil = node.integer("ceil_mode", 0) != 0 && window.padding != PaddingKind::kSame;
  return window;
}

/// The maximum over space, by one pooling after another.
OnnxResults global_max_pool(OperatorCall& call) {
  OnnxValue value = call.plain(0);
  for (const WindowOptions& window : global_max_windows(call.shape(0).spatial()))
    value = call.add(std::make_unique<MaxPooling>(window, call.type(0)), {*value.tensor});
  return value;
}

OnnxResults max_pool(OperatorCall& call) {
  require(call.node().proto().output_size() < 2 || call.node().proto().output(1).empty(),
          "the places of its maxima are read", "use pooling without return_indices");
  const WindowOptions window = pooling_window(call);
  const Spatial extents = call.shape(0).spatial();
  // Exporters write a maximum over all of space as one window, which may be larger than a layer's.
  if (window.kernel == extents && window.padding == PaddingKind::kExplicit &&
      window.pad_before == Spatial{} && window.pad_after == Spatial{})
    return global_max_pool(call);
  return call.add(std::make_unique<MaxPooling>(window, call.type(0)));
}

OnnxResults average_pool(OperatorCall& call) {
  const auto count = call.node().integer("count_include_pad", 0) != 0 ? PaddingCount::kInclude
                                                                      : PaddingCount::kExclude;
  return call.add(std::make_unique<AveragePooling>(pooling_window(call), count, call.type(0)));
}

OnnxResults global_average_pool(OperatorCall& call) {
  call.plain(0);
  return call.add(std::make_unique<GlobalAverage>(call.type(0)));
}

/// Whether the node reduces exactly the axes of space.
bool reduces_space(const OperatorCall& call) {
  OnnxDims axes = call.node().integers("axes", 1).value_or(OnnxDims{});
  for (std::int64_t& axis : axes)
    if (axis < 0) axis += 5;
  std::sort(axes.begin(), axes.end());
  return axes == OnnxDims{2, 3, 4};
}

/// A pooling over all of space, with or without the axes of extent 1.
template <OnnxOperator kPool>
OnnxResults reduce(OperatorCall& call) {
  call.plain(0);
  require(reduces_space(call), "a reduction of other axes than those of space",
          "reduce all axes of space");
  const OnnxResults reduced = kPool(call);
  return call.node().integer("keepdims", 1) != 0 ? reduced
                                                 : OnnxResults(flat_value(reduced.front()));
}

/// A matrix product of each voxel's channels with a weight of `rows` x `columns`, which its view
/// `weight` has as outputs x inputs.
OnnxResults product(OperatorCall& call, const OnnxConstant& weight,
                    const std::optional<OnnxConstant>& bias) {
  const OnnxValue& src = call.tensor(0);
  const std::int64_t out = weight.dims()[0], in = weight.dims()[1];
  const Shape shape = call.shape(0);
  const bool pointwise = src.form == OnnxForm::kChannelsLast || shape.spatial() == Spatial{1, 1, 1};
  require(weight.tensor() != nullptr, "a weight that is computed",
          "export it with the values themselves");
  require(src.form != OnnxForm::kPlain && src.form != OnnxForm::kGroups &&
              in == (pointwise ? shape.c : shape.volume()),
          text("a product of {} with {}x{}", joined(src.dims, "x"), out, in),
          "multiply channels, or flattened samples");
  const DataType compute = call.graph().settings().precision;
  const auto with_axes = [&](const OnnxDims& dims) {
    auto view = weight.reshaped(dims);
    require(view.has_value(), "a weight that is a view", "export it with the values themselves");
    return view;
  };
  if (pointwise || !bias) {
    // Without a bias, a flattened sample is multiplied by a window as large as it.
    const WindowOptions window{pointwise ? Spatial{1, 1, 1} : shape.spatial(),
                               {1, 1, 1},
                               {1, 1, 1},
                               PaddingKind::kValid,
                               {},
                               {}};
    const auto make = [=](const OnnxVariant& v) -> std::unique_ptr<Layer> {
      return std::make_unique<Convolution>(
          ConvolutionOptions{out, window, 1, v.bias, compute, kTorch, v.writes_fp32});
    };
    const Spatial& k = window.kernel;
    OnnxValue value = add_with_bias(
        call, make, {with_axes({out, pointwise ? in : shape.c, k[0], k[1], k[2]}), bias});
    if (src.form != OnnxForm::kChannelsLast) return flat_value(value);
    value.form = src.form;
    value.dims = src.dims;
    value.dims.back() = out;
    return value;
  }
  // The program's dense layer has its inputs in the order d,h,w,c.
  const auto columns =
      with_axes({out, shape.c, shape.d, shape.h, shape.w})->transposed({0, 2, 3, 4, 1});
  return flat_value(call.add(std::make_unique<Dense>(out, false, InitialValues{kTorch}),
                             {call.graph().in_type(*src.tensor, DataType::kFloat32)},
                             {columns, bias}));
}

OnnxResults gemm(OperatorCall& call) {
  const OnnxNode& node = call.node();
  require(
      node.integer("transA", 0) == 0 && node.number("alpha", 1) == 1 && node.number("beta", 1) == 1,
      "a product with transA, alpha or beta", "use torch.nn.Linear");
  OnnxConstant weight = node.required(1, "weight");
  require(weight.dims().size() == 2, "a weight that is no matrix", "use torch.nn.Linear");
  if (node.integer("transB", 0) == 0) weight = weight.transposed({1, 0});
  return product(call, weight, call.parameter(2, {weight.dims()[0]}));
}

OnnxResults matmul(OperatorCall& call) {
  const OnnxConstant& weight = call.node().required(1, "weight");
  require(weight.dims().size() == 2, "a product of tensors", "multiply by a matrix of weights");
  return product(call, weight.transposed({1, 0}), {});
}

}  // namespace

OnnxOperatorTable window_operators() {
  return {{"AveragePool", average_pool},
          {"Conv", conv},
          {"ConvTranspose", conv_transpose},
          {"Gemm", gemm},
          {"GlobalAveragePool", global_average_pool},
          {"GlobalMaxPool", global_max_pool},
          {"MatMul", matmul},
          {"MaxPool", max_pool},
          {"ReduceMax", reduce<global_max_pool>},
          {"ReduceMean", reduce<global_average_pool>}};
}

}  // namespace halomesh
