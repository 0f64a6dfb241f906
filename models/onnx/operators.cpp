// SPDX-License-Identifier: Apache-2.0
// The operators of ONNX that networks may have: one function and one entry of the table each. A
// function throws Error for what its layer cannot compute; importers of files list these.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "error.hpp"
#include "joined.hpp"
#include "models/onnx/folding.hpp"
#include "models/onnx/graph.hpp"
#include "src/nn/kernels/moments.hpp"
#include "src/nn/layers/add.hpp"
#include "src/nn/layers/affine.hpp"
#include "src/nn/layers/binary.hpp"
#include "src/nn/layers/channel_normalize.hpp"
#include "src/nn/layers/concat.hpp"
#include "src/nn/layers/convolution.hpp"
#include "src/nn/layers/crop.hpp"
#include "src/nn/layers/dense.hpp"
#include "src/nn/layers/depthwise_convolution.hpp"
#include "src/nn/layers/dropout.hpp"
#include "src/nn/layers/elementwise.hpp"
#include "src/nn/layers/global_average.hpp"
#include "src/nn/layers/normalize.hpp"
#include "src/nn/layers/pad.hpp"
#include "src/nn/layers/pooling.hpp"
#include "src/nn/layers/prelu.hpp"
#include "src/nn/layers/resize.hpp"
#include "src/nn/layers/sample_average.hpp"
#include "src/nn/layers/tile.hpp"
#include "src/nn/layers/transposed_convolution.hpp"

namespace halomesh {
namespace {

using Results = std::vector<OnnxValue>;
using Variant = OnnxVariant;
constexpr auto kTorch = InitialValues::Kind::kFanInUniform;

Results result(OnnxValue value) {
  Results results;
  results.push_back(std::move(value));
  return results;
}

Results constant_result(OnnxConstant constant) {
  OnnxValue value;
  value.dims = constant.dims();
  value.constant = std::move(constant);
  return result(std::move(value));
}

Results unchanged(OperatorCall& call) { return result(call.value(0)); }

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
                        std::function<std::unique_ptr<Layer>(const Variant&)> make,
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

Results conv(OperatorCall& call) {
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
  const auto make = [=, filters = w[0]](const Variant& v) -> std::unique_ptr<Layer> {
    if (depthwise)
      return std::make_unique<DepthwiseConvolution>(
          DepthwiseOptions{window, v.bias, compute, kTorch});
    return std::make_unique<Convolution>(
        ConvolutionOptions{filters, window, groups, v.bias, compute, kTorch, v.writes_fp32});
  };
  return result(add_with_bias(call, make, {call.parameter(1, w), call.parameter(2, {w[0]})}));
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

Results conv_transpose(OperatorCall& call) {
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
  const auto make = [options, depthwise](const Variant& v) -> std::unique_ptr<Layer> {
    if (depthwise)
      return std::make_unique<DepthwiseConvolution>(DepthwiseOptions{
          options.window, v.bias, options.compute, kTorch, true, options.output_padding});
    TransposedConvolutionOptions own = options;
    own.bias = v.bias;
    own.writes_fp32 = v.writes_fp32;
    return std::make_unique<TransposedConvolution>(own);
  };
  return result(
      add_with_bias(call, make, {call.parameter(1, w), call.parameter(2, {options.filters})}));
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
Results global_max_pool(OperatorCall& call) {
  OnnxValue value = call.plain(0);
  for (const WindowOptions& window : global_max_windows(call.shape(0).spatial()))
    value = call.add(std::make_unique<MaxPooling>(window, call.type(0)), {*value.tensor});
  return result(std::move(value));
}

Results max_pool(OperatorCall& call) {
  require(call.node().proto().output_size() < 2 || call.node().proto().output(1).empty(),
          "the places of its maxima are read", "use pooling without return_indices");
  const WindowOptions window = pooling_window(call);
  const Spatial extents = call.shape(0).spatial();
  // Exporters write a maximum over all of space as one window, which may be larger than a layer's.
  if (window.kernel == extents && window.padding == PaddingKind::kExplicit &&
      window.pad_before == Spatial{} && window.pad_after == Spatial{})
    return global_max_pool(call);
  return result(
      call.add(std::make_unique<MaxPooling>(window, call.type(0)), {*call.tensor(0).tensor}));
}

Results average_pool(OperatorCall& call) {
  const auto count = call.node().integer("count_include_pad", 0) != 0 ? PaddingCount::kInclude
                                                                      : PaddingCount::kExclude;
  return result(
      call.add(std::make_unique<AveragePooling>(pooling_window(call), count, call.type(0)),
               {*call.tensor(0).tensor}));
}

Results global_average_pool(OperatorCall& call) {
  return result(call.add(std::make_unique<GlobalAverage>(call.type(0)), {*call.plain(0).tensor}));
}

/// The value of a tensor of one voxel without its axes of extent 1, as keepdims = 0 writes it.
OnnxValue flat(OnnxValue value) {
  value.form = OnnxForm::kFlat;
  value.dims = {value.dims[0], OnnxConstant::volume_of(value.dims) / value.dims[0]};
  return value;
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
Results reduce(OperatorCall& call) {
  call.plain(0);
  require(reduces_space(call), "a reduction of other axes than those of space",
          "reduce all axes of space");
  const Results reduced = kPool(call);
  return call.node().integer("keepdims", 1) != 0 ? reduced : result(flat(reduced.front()));
}

/// Moments, for batch norms their mean over samples, and the normalization.
OnnxValue normalization(OperatorCall& call, std::int64_t groups, std::int64_t samples,
                        OnnxParameters parameters) {
  const OnnxValue& src = call.tensor(0);
  const DataType type = call.type(0);
  const auto serving = [&](const char* suffix, std::size_t steps, std::unique_ptr<Layer> layer,
                           std::size_t input) {
    OnnxStep step;
    step.suffix = suffix;
    step.serves = steps;
    step.layer = std::move(layer);
    step.inputs = {input};
    return *call.add(std::move(step)).tensor;
  };
  std::size_t moments = serving("_moments", samples > 0 ? 2 : 1,
                                std::make_unique<Moments>(groups, type), *src.tensor);
  if (samples > 0) moments = serving("_mean", 1, std::make_unique<SampleAverage>(samples), moments);
  OnnxStep step;
  step.inputs = {*src.tensor, moments};
  step.parameters = std::move(parameters);
  step.variant.weight = step.variant.bias = !step.parameters.empty();
  const float epsilon = call.node().number("epsilon", 1e-5F);
  const float kept =
      call.node().number("momentum", 0.9F);  // the share of an average that stays in a step
  step.make = [=](const Variant& v) {
    return std::make_unique<Normalize>(epsilon, type, samples, v.slope, v.weight || v.bias,
                                       1 - kept);
  };
  const std::size_t tensor = *call.add(std::move(step)).tensor;
  return call.in_form_of(0, tensor);
}

Results batch_normalization(OperatorCall& call) {
  const OnnxNode& node = call.node();
  const float kept = node.number("momentum", 0.9F);
  require(
      kept >= 0 && kept < 1, text("a momentum of {:g}", kept),
      "use a momentum in PyTorch, which a file has as 1 - momentum: cumulative averages are not "
      "supported");
  const OnnxDims channels{call.plain(0).dims[1]};
  OnnxParameters parameters;
  for (const std::size_t input : std::initializer_list<std::size_t>{1, 2, 3, 4})
    parameters.push_back(call.parameter(input, channels));
  return result(normalization(call, 0, call.graph().settings().batch_norm, std::move(parameters)));
}

/// Whether a norm's scale or offset does nothing. One without values is a parameter of another
/// layer, with which an exporter merged it.
bool is_neutral(const OnnxConstant& constant, double value) {
  const onnx::TensorProto* const tensor = constant.tensor();
  return (tensor != nullptr && OnnxFile::is_empty(*tensor)) || constant.is_all(value);
}
/// Whether the file has it as a number that an exporter computed, and not as a parameter.
bool is_computed(const OnnxConstant& constant) {
  const onnx::TensorProto* const tensor = constant.tensor();
  return constant.dims().size() == 1 &&
         (tensor == nullptr || tensor->name().empty() || tensor->name().starts_with("val_"));
}

Results instance_normalization(OperatorCall& call) {
  const OnnxConstant& scale = call.node().required(1, "scale");
  const OnnxConstant& offset = call.node().required(2, "offset");
  const OnnxValue& src = call.tensor(0);
  if (src.form == OnnxForm::kGroups) {
    require(is_neutral(scale, 1) && is_neutral(offset, 0),
            "a norm of groups with a scale for each group",
            "use a group norm with one per channel");
    return result(normalization(call, src.dims[1] == call.shape(0).c ? 0 : src.dims[1], 0, {}));
  }
  const OnnxDims channels{call.plain(0).dims[1]};
  if (is_computed(scale) && is_neutral(scale, 1) && is_computed(offset) && is_neutral(offset, 0))
    return result(normalization(call, 0, 0, {}));
  return result(
      normalization(call, 0, 0, {call.parameter(1, channels), call.parameter(2, channels)}));
}

Results group_normalization(OperatorCall& call) {
  const OnnxDims channels{call.plain(0).dims[1]};
  const std::int64_t groups = call.node().integer("num_groups", 1);
  require(groups >= 1 && channels[0] % groups == 0,
          text("{} groups of {} channels", groups, channels[0]));
  return result(normalization(call, groups == channels[0] ? 0 : groups, 0,
                              {call.parameter(1, channels), call.parameter(2, channels)}));
}

OnnxValue element(OperatorCall& call, std::size_t input, const ElementFunction& function) {
  const std::size_t src = *call.tensor(input).tensor;
  auto layer = std::make_unique<Elementwise>(function, call.graph().type(src));
  return call.in_form_of(input, *call.add(std::move(layer), {src}).tensor);
}

/// A leaky rectifier, which a normalization before it computes as well.
Results rectifier(OperatorCall& call, float slope) {
  const OnnxValue& src = call.tensor(0);
  OnnxStep* const before = call.graph().producer(src);
  if (before == nullptr || src.shared || before->variant.slope != 1 ||
      dynamic_cast<Normalize*>(before->layer.get()) == nullptr)
    return result(element(call, 0, ElementFunction::leaky_relu(slope)));
  Variant variant = before->variant;
  variant.slope = slope;
  call.graph().change(*before, variant);
  before->operators += " + " + call.node().proto().op_type();
  return result(src);
}

Results relu(OperatorCall& call) { return rectifier(call, 0); }
Results leaky_relu(OperatorCall& call) {
  return rectifier(call, call.node().number("alpha", 0.01F));
}

using ElementKind = ElementFunction::Kind;

/// A function without numbers of its own.
template <ElementKind kKind>
Results function_of(OperatorCall& call) {
  return result(element(call, 0, {kKind}));
}

/// A function whose output later nodes may recognize.
OnnxValue with_pattern(OperatorCall& call, OnnxValue value, const char* name, double number = 0) {
  value.pattern = {name, *call.tensor(0).tensor, number};
  return value;
}

Results elu(OperatorCall& call) {
  return result(element(call, 0, ElementFunction::elu(call.node().number("alpha", 1))));
}
Results celu(OperatorCall& call) {
  return result(element(call, 0, ElementFunction::celu(call.node().number("alpha", 1))));
}
Results selu(OperatorCall& call) {
  const OnnxNode& node = call.node();
  return result(element(call, 0,
                        {ElementKind::kElu, node.number("alpha", 1.67326324F),
                         node.number("gamma", 1.05070099F), 1}));
}
Results swish(OperatorCall& call) {
  return result(element(call, 0, {ElementKind::kSilu, call.node().number("alpha", 1)}));
}
Results hard_sigmoid(OperatorCall& call) {
  const OnnxNode& node = call.node();
  return result(element(
      call, 0, {ElementKind::kHardSigmoid, node.number("alpha", 0.2F), node.number("beta", 0.5F)}));
}
Results tanh_of(OperatorCall& call) {
  return result(element(call, 0, ElementFunction::scaled_tanh(1)));
}
Results gelu(OperatorCall& call) {
  const bool exact = call.node().word("approximate", "none") == "none";
  return result(element(call, 0, {exact ? ElementKind::kGelu : ElementKind::kGeluTanh}));
}
Results softplus(OperatorCall& call) {
  return result(with_pattern(call, element(call, 0, {ElementKind::kSoftplus}), "softplus"));
}
Results negative(OperatorCall& call) {
  return result(element(call, 0, ElementFunction::linear(-1, 0)));
}
Results reciprocal(OperatorCall& call) {
  return result(element(call, 0, ElementFunction::power(-1)));
}
Results power(OperatorCall& call) {
  const OnnxConstant& exponent = call.node().required(1, "exponent");
  require(exponent.volume() == 1, "a power with several exponents", "use one number");
  return result(element(call, 0, ElementFunction::power(static_cast<float>(exponent.at(0)))));
}

/// Part of a GELU: erf(x / sqrt(2)).
Results erf_of(OperatorCall& call) {
  OnnxValue value = element(call, 0, {ElementKind::kErf});
  const OnnxPattern& before = call.tensor(0).pattern;
  if (before.name == "scaled" && std::abs(before.number - std::sqrt(0.5)) < 1e-6)
    value.pattern = {"erf", before.of, 0};
  return result(std::move(value));
}

/// The bounds of a Clip, which older versions have as attributes.
Results clip(OperatorCall& call) {
  const OnnxNode& node = call.node();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float low = node.has(1) ? static_cast<float>(node.required(1, "min").at(0))
                                : node.number("min", -kInfinity);
  const float high = node.has(2) ? static_cast<float>(node.required(2, "max").at(0))
                                 : node.number("max", kInfinity);
  OnnxValue value = call.value(0);
  if (value.pattern.name == "norm" && high == kInfinity) {
    value.pattern.number = static_cast<double>(low);
    return result(std::move(value));
  }
  return result(element(call, 0, ElementFunction::clip(low, high)));
}

Results prelu(OperatorCall& call) {
  const OnnxConstant& slope = call.node().required(1, "slope");
  const std::int64_t channels = call.shape(0).c, count = slope.volume();
  require(
      call.tensor(0).form == OnnxForm::kPlain && (count == 1 || count == channels) &&
          (slope.dims().size() == 1 || count == 1 || slope.dims() == OnnxDims{channels, 1, 1, 1} ||
           slope.dims() == OnnxDims{1, channels, 1, 1, 1}) &&
          (count == 1 || slope.dims().size() > 1),
      text("slopes of {}", joined(slope.dims(), "x")), "use one, or one for each channel");
  auto layer = std::make_unique<PRelu>(count > 1, call.type(0));
  return result(call.add(std::move(layer), {*call.tensor(0).tensor}, {call.parameter(1, {count})}));
}

/// A normalization of each voxel's channels.
Results channel_normalization(OperatorCall& call, ChannelNormalizeOptions::Kind kind, float epsilon,
                              OnnxParameters parameters) {
  OnnxStep step;
  step.inputs = {*call.tensor(0).tensor};
  step.variant.weight = !parameters.empty();
  step.variant.bias = parameters.size() > 1;
  step.parameters = std::move(parameters);
  step.make = [=, type = call.type(0)](const Variant& v) {
    return std::make_unique<ChannelNormalize>(
        ChannelNormalizeOptions{kind, epsilon > 0 ? epsilon : 1e-12F, v.weight, v.bias, type});
  };
  return result(call.in_form_of(0, *call.add(std::move(step)).tensor));
}

/// Throws Error unless the node normalizes channels alone, by its axis.
void require_channel_axis(OperatorCall& call) {
  const OnnxValue& src = call.tensor(0);
  const std::size_t axis = onnx_axis(call.node().integer("axis", -1), src.dims.size());
  require(
      axis == src.channel_axis() && src.form != OnnxForm::kGroups &&
          (axis > 1 || src.dims.size() == 2 || call.node().proto().op_type() == "LpNormalization"),
      text("a normalization of axis {} of {}", axis, joined(src.dims, "x")),
      "normalize the channels of N,D,H,W,C");
}

Results layer_normalization(OperatorCall& call) {
  require_channel_axis(call);
  const OnnxDims channels{call.shape(0).c};
  OnnxParameters parameters{call.parameter(1, channels)};
  if (auto bias = call.parameter(2, channels)) parameters.push_back(std::move(bias));
  const bool rms = call.node().proto().op_type() == "RMSNormalization";
  using Kind = ChannelNormalizeOptions::Kind;
  return channel_normalization(call, rms ? Kind::kRootMeanSquare : Kind::kLayer,
                               call.node().number("epsilon", 1e-5F), std::move(parameters));
}

Results lp_normalization(OperatorCall& call) {
  require_channel_axis(call);
  require(call.node().integer("p", 2) == 2, "a norm other than the Euclidean", "use p = 2");
  return channel_normalization(call, ChannelNormalizeOptions::Kind::kNorm, 0, {});
}

/// The norm of each voxel's channels, by which only a quotient is supported.
Results reduce_l2(OperatorCall& call) {
  const OnnxValue& src = call.tensor(0);
  const OnnxDims axes = call.node().integers("axes", 1).value_or(OnnxDims{});
  require(axes.size() == 1 && onnx_axis(axes[0], src.dims.size()) == src.channel_axis() &&
              call.node().integer("keepdims", 1) != 0,
          "a norm over other axes than the channels", "use torch.nn.functional.normalize");
  OnnxValue value;
  value.pattern = {"norm", *src.tensor, 0};
  value.dims = src.dims;
  value.dims[src.channel_axis()] = 1;
  return result(std::move(value));
}

/// A constant as one number per channel of a tensor; none if it is broadcast otherwise.
std::optional<OnnxConstant> per_channel(const OnnxConstant& constant, const OnnxValue& like,
                                        std::int64_t channels) {
  const OnnxDims& dims = constant.dims();
  if (dims.empty() || dims.size() > like.dims.size() || like.form == OnnxForm::kGroups) return {};
  const std::size_t shift = like.dims.size() - dims.size();
  for (std::size_t a = 0; a < dims.size(); ++a)
    if (dims[a] != 1 && (a + shift != like.channel_axis() || dims[a] != channels)) return {};
  if (constant.volume() != channels || constant.tensor() == nullptr) return {};
  return constant.reshaped({channels});
}

/// The constant beside a tensor: its only value where it has one.
std::optional<double> scalar(const OnnxConstant& constant) {
  if (constant.tensor() != nullptr && OnnxFile::is_empty(*constant.tensor())) return {};
  if (constant.volume() < 1 || !constant.is_all(constant.at(0))) return {};
  return constant.at(0);
}

/// A tensor times, or plus, one number per channel: a parameter of the layer before it, or of one
/// of its own. Empty if the constant is no such parameter.
std::optional<OnnxValue> affine(OperatorCall& call, std::size_t input, const OnnxConstant& constant,
                                bool scales) {
  const OnnxValue& src = call.tensor(input);
  const auto parameter = per_channel(constant, src, call.shape(input).c);
  if (!parameter) return {};
  OnnxStep* const before = src.shared ? nullptr : call.graph().producer(src);
  if (before != nullptr && before->make && before->variant.slope == 1 && !before->variant.bias &&
      !(scales && before->variant.weight)) {
    Variant variant = before->variant;
    (scales ? variant.weight : variant.bias) = true;
    call.graph().change(*before, variant);
    const bool is_norm = dynamic_cast<Normalize*>(before->layer.get()) != nullptr;
    const std::size_t number = scales || !(variant.weight || is_norm) ? 0 : 1;
    before->parameters.resize(std::max(before->parameters.size(), is_norm ? 2 : number + 1));
    before->parameters[number] = parameter;
    before->operators += " + " + call.node().proto().op_type();
    return src;
  }
  OnnxStep step;
  step.inputs = {*src.tensor};
  step.parameters = {parameter};
  step.variant.weight = scales;
  step.variant.bias = !scales;
  step.make = [type = call.type(input)](const Variant& v) {
    return std::make_unique<Affine>(type, v.weight, v.bias);
  };
  return call.in_form_of(input, *call.add(std::move(step)).tensor);
}

/// scale * x + shift.
OnnxValue linear(OperatorCall& call, std::size_t input, double scale, double shift) {
  if (scale == 1 && shift == 0) return call.tensor(input);
  return element(call, input,
                 ElementFunction::linear(static_cast<float>(scale), static_cast<float>(shift)));
}

/// scale times the tensor of a value that is no input of the node.
OnnxValue linear_of(OperatorCall& call, const OnnxValue& value, double scale) {
  const auto function = ElementFunction::linear(static_cast<float>(scale), 0);
  OnnxValue out = value;
  out.tensor = call.add(std::make_unique<Elementwise>(function, call.graph().type(*value.tensor)),
                        {*value.tensor})
                   .tensor;
  return out;
}

/// An input times a number, which a GELU before it may complete.
OnnxValue scaled(OperatorCall& call, std::size_t input, double scale) {
  const OnnxValue& src = call.tensor(input);
  if (src.pattern.name == "2 gelu" && scale == 0.5) {
    OnnxValue value = src;  // the GELU itself, which the doubling reads
    value.tensor = call.graph().producer(src)->inputs[0];
    value.pattern = {};
    return value;
  }
  OnnxValue value = linear(call, input, scale, 0);
  if (scale != 1) value.pattern = {"scaled", *src.tensor, scale};
  return value;
}

/// A dropout that an exporter wrote as random numbers below the share that is kept.
OnnxValue masked(OperatorCall& call, const OnnxValue& src, const OnnxPattern& mask) {
  const double own = call.graph().settings().dropout;
  const double p = own >= 0 ? own : 1 - mask.number;
  if (p == 0) return src;
  const DataType type = call.graph().type(*src.tensor);
  OnnxValue value = src;
  value.tensor = call.add(std::make_unique<Dropout>(p, type, mask.of == 1), {*src.tensor}).tensor;
  value.shared = false;
  return value;
}

/// Each voxel's channels divided by their norm, or by epsilon where it is larger.
Results channel_norm(OperatorCall& call, double epsilon) {
  return channel_normalization(call, ChannelNormalizeOptions::Kind::kNorm,
                               static_cast<float>(epsilon), {});
}

/// A function of two tensors, of which either may be repeated along axes of extent 1.
OnnxValue binary(OperatorCall& call, BinaryKind kind, const OnnxValue& a, const OnnxValue& b) {
  require(a.form == b.form && (a.form == OnnxForm::kPlain || a.dims == b.dims),
          text("tensors of {} and {}", joined(a.dims, "x"), joined(b.dims, "x")),
          "give them as N,C,D,H,W");
  const std::vector<std::size_t> inputs = call.in_one_type({*a.tensor, *b.tensor});
  const DataType type = call.graph().type(inputs.front());
  const bool sum = kind == BinaryKind::kAdd && a.dims == b.dims;
  OnnxValue value = sum ? call.add(std::make_unique<Add>(type), inputs)
                        : call.add(std::make_unique<Binary>(kind, type), inputs);
  if (a.form == OnnxForm::kPlain) return value;
  value.form = a.form;
  value.dims = a.dims;
  return value;
}

/// The input that is a constant; none if both are tensors.
std::optional<std::size_t> constant_input(const OperatorCall& call) {
  for (const std::size_t input : std::initializer_list<std::size_t>{1, 0})
    if (call.value(input).constant) return input;
  return {};
}

Results add_tensors(OperatorCall& call) {
  const auto c = constant_input(call);
  if (!c) return result(binary(call, BinaryKind::kAdd, call.tensor(0), call.tensor(1)));
  const OnnxConstant& constant = *call.value(*c).constant;
  if (auto value = affine(call, 1 - *c, constant, false)) return result(std::move(*value));
  const auto shift = scalar(constant);
  require(shift.has_value(), text("a constant of {} added", joined(constant.dims(), "x")),
          "add one number, or one for each channel");
  OnnxValue value = linear(call, 1 - *c, 1, *shift);
  if (const OnnxPattern& before = call.tensor(1 - *c).pattern; before.name == "erf" && *shift == 1)
    value.pattern = {"erf + 1", before.of, 0};
  return result(std::move(value));
}

/// Products that spell a function: x * sigmoid(x), and the parts of a GELU.
std::optional<OnnxValue> spelled_product(OperatorCall& call, const OnnxValue& a,
                                         const OnnxValue& b) {
  const auto of = [&](std::size_t tensor, ElementKind kind) {
    auto layer = std::make_unique<Elementwise>(
        kind == ElementKind::kSilu ? ElementFunction::silu() : ElementFunction{kind},
        call.graph().type(tensor));
    OnnxValue value = call.add(std::move(layer), {tensor});
    value.form = a.form;
    value.dims = a.dims;
    return value;
  };
  const OnnxPattern& p = b.pattern;
  if (p.name == "sigmoid" && a.tensor == p.of) return of(p.of, ElementKind::kSilu);
  if (p.name == "erf + 1" && a.pattern.name == "scaled" && a.pattern.of == p.of &&
      a.pattern.number == 0.5)
    return of(p.of, ElementKind::kGelu);
  if (p.name == "erf + 1" && a.tensor == p.of) {
    OnnxValue value = of(p.of, ElementKind::kGelu);
    OnnxStep* const step = call.graph().producer(value);
    step->operators.clear();
    value = linear_of(call, value, 2);
    value.pattern = {"2 gelu", p.of, 0};
    return value;
  }
  if (p.name == "mask") return masked(call, a, p);
  return {};
}

Results multiply(OperatorCall& call) {
  const auto c = constant_input(call);
  if (!c) {
    const OnnxValue &a = call.value(0), &b = call.value(1);
    if (auto value = spelled_product(call, a, b)) return result(std::move(*value));
    if (auto value = spelled_product(call, b, a)) return result(std::move(*value));
    return result(binary(call, BinaryKind::kMultiply, call.tensor(0), call.tensor(1)));
  }
  const OnnxConstant& constant = *call.value(*c).constant;
  if (auto value = affine(call, 1 - *c, constant, true)) return result(std::move(*value));
  const auto scale = scalar(constant);
  require(scale.has_value(), text("a constant of {} multiplied", joined(constant.dims(), "x")),
          "multiply by one number, or one for each channel");
  return result(scaled(call, 1 - *c, *scale));
}

Results subtract(OperatorCall& call) {
  const auto c = constant_input(call);
  if (!c) return result(binary(call, BinaryKind::kSubtract, call.tensor(0), call.tensor(1)));
  const auto number = scalar(*call.value(*c).constant);
  require(number.has_value(), "a difference to several numbers", "subtract one number");
  return result(*c == 1 ? linear(call, 0, 1, -*number) : linear(call, 1, -1, *number));
}

Results divide(OperatorCall& call) {
  const OnnxPattern& below = call.value(1).pattern;
  if (below.name == "norm" && call.tensor(0).tensor == below.of)
    return channel_norm(call, below.number);
  const auto c = constant_input(call);
  if (!c) return result(binary(call, BinaryKind::kDivide, call.tensor(0), call.tensor(1)));
  const auto number = scalar(*call.value(*c).constant);
  require(number.has_value(), "a quotient with several numbers", "divide by one number");
  if (call.value(0).pattern.name == "mask") return unchanged(call);  // the scale of a dropout
  if (*c == 1) return result(scaled(call, 0, 1 / *number));
  OnnxValue inverse = element(call, 1, ElementFunction::power(-1));
  return result(*number == 1 ? inverse : linear_of(call, inverse, *number));
}

template <BinaryKind kKind>
Results extreme(OperatorCall& call) {
  OnnxValue value = call.tensor(0);
  for (std::size_t i = 1; i < call.inputs(); ++i)
    value = binary(call, kKind, value, call.tensor(i));
  return result(std::move(value));
}

Results concat(OperatorCall& call) {
  std::vector<std::size_t> inputs;
  for (std::size_t i = 0; i < call.inputs(); ++i) inputs.push_back(*call.plain(i).tensor);
  const std::size_t axis = onnx_axis(call.node().integer("axis", 1), 5);
  require(axis > 0, "a concatenation of samples", "concatenate channels, or along space");
  if (inputs.size() == 1) return unchanged(call);
  inputs = call.in_one_type(std::move(inputs));
  constexpr std::array<Axis, 4> kAxes{kC, kD, kH, kW};
  return result(call.add(
      std::make_unique<Concat>(call.graph().type(inputs.front()), kAxes[axis - 1]), inputs));
}

Results tile(OperatorCall& call) {
  const OnnxDims repeats = call.node().required(1, "repeats").integers();
  const OnnxValue& src = call.plain(0);
  require(repeats.size() == 5 && repeats[0] == 1, text("repeats {}", joined(repeats, "x")));
  if (OnnxConstant::volume_of(repeats) == 1) return unchanged(call);
  if (call.shape(0).spatial() == Spatial{1, 1, 1} && repeats[1] == 1)
    return result(
        call.add(std::make_unique<Tile>(Spatial{repeats[2], repeats[3], repeats[4]}, call.type(0)),
                 {*src.tensor}));
  require(OnnxConstant::volume_of(repeats) == repeats[1] && repeats[1] <= 4096,
          text("repeats {}", joined(repeats, "x")), "repeat channels, or one voxel");
  return result(
      call.add(std::make_unique<Concat>(call.type(0)),
               std::vector<std::size_t>(static_cast<std::size_t>(repeats[1]), *src.tensor)));
}

Results expand(OperatorCall& call) {
  const OnnxValue& src = call.value(0);
  const OnnxDims wanted = broadcast_dims(src.dims, call.node().required(1, "shape").integers());
  if (src.dims == wanted || !src.tensor) return result(src);
  call.plain(0);
  require(wanted.size() == 5 && call.shape(0).spatial() == Spatial{1, 1, 1} &&
              wanted[0] == src.dims[0] && wanted[1] == src.dims[1],
          text("{} expanded to {}", joined(src.dims, "x"), joined(wanted, "x")),
          "only one voxel can be repeated");
  return result(
      call.add(std::make_unique<Tile>(Spatial{wanted[2], wanted[3], wanted[4]}, call.type(0)),
               {*src.tensor}));
}

Results reshape(OperatorCall& call) {
  const OnnxValue& src = call.tensor(0);
  const OnnxNode& node = call.node();
  const OnnxDims dims = reshaped_dims(src.dims, node.required(1, "shape").integers(),
                                      node.integer("allowzero", 0) != 0);
  require(src.form != OnnxForm::kChannelsLast, "channels last, reshaped", "reshape N,C,D,H,W");
  OnnxValue value = call.graph().value_of(*src.tensor);
  value.shared = src.shared;
  value.pattern = src.pattern;
  const std::int64_t batch = call.graph().batch(), channels = value.dims[1];
  require(!dims.empty() && dims[0] == batch,
          text("samples of a batch mixed by a reshape to {}", joined(dims, "x")),
          "keep the first axis");
  if (dims == value.dims) return result(value);
  value.dims = dims;
  value.form = OnnxForm::kFlat;
  if (dims.size() == 2 && dims[1] == OnnxConstant::volume_of(dims) / batch) return result(value);
  require(dims.size() == 3 && channels % dims[1] == 0, text("a reshape to {}", joined(dims, "x")),
          "reshape to groups of channels, or to one axis");
  value.form = OnnxForm::kGroups;
  return result(value);
}

Results flatten(OperatorCall& call) {
  const std::int64_t axis = call.node().integer("axis", 1);
  const OnnxValue& src = call.tensor(0);
  require(axis == 1 || axis == 1 - std::ssize(src.dims), text("a flattening from axis {}", axis),
          "flatten from axis 1");
  OnnxValue value = flat(call.graph().value_of(*src.tensor));
  value.shared = src.shared;
  return result(value);
}

/// The value of a tensor of one voxel with these dimensions: N,C and axes of extent 1 behind them.
Results of_one_voxel(OperatorCall& call, const OnnxDims& dims) {
  const OnnxValue& src = call.tensor(0);
  OnnxValue value = call.graph().value_of(*src.tensor);
  require(src.form != OnnxForm::kChannelsLast && call.shape(0).spatial() == Spatial{1, 1, 1} &&
              dims.size() >= 2 && dims.size() <= 5 && dims[0] == value.dims[0] &&
              dims[1] == value.dims[1],
          text("axes of {} changed to {}", joined(src.dims, "x"), joined(dims, "x")),
          "only those of one voxel can be");
  value.shared = src.shared;
  if (dims.size() == 5) return result(value);
  value.form = OnnxForm::kFlat;
  value.dims = dims;
  return result(value);
}

Results squeeze(OperatorCall& call) {
  const OnnxDims& src = call.tensor(0).dims;
  const auto axes = call.node().integers("axes", 1);
  std::vector<bool> goes(src.size());
  for (std::size_t a = 0; a < src.size(); ++a) goes[a] = !axes && src[a] == 1;
  for (const std::int64_t axis : axes.value_or(OnnxDims{}))
    goes[onnx_axis(axis, src.size())] = true;
  OnnxDims dims;
  for (std::size_t a = 0; a < src.size(); ++a)
    if (!goes[a]) dims.push_back(src[a]);
  return of_one_voxel(call, dims);
}

Results unsqueeze(OperatorCall& call) {
  const OnnxDims& src = call.tensor(0).dims;
  const OnnxDims axes = call.node().integers("axes", 1).value();
  OnnxDims dims(src.size() + axes.size(), 0);
  for (const std::int64_t axis : axes) dims[onnx_axis(axis, dims.size())] = 1;
  auto next = src.begin();
  for (std::int64_t& dim : dims)
    if (dim == 0 && next != src.end()) dim = *next++;
  return of_one_voxel(call, dims);
}

Results transpose(OperatorCall& call) {
  const OnnxValue& src = call.tensor(0);
  const OnnxDims order = call.node().integers("perm");
  OnnxValue value = src;
  if (src.form == OnnxForm::kPlain && order == OnnxDims{0, 2, 3, 4, 1}) {
    value.form = OnnxForm::kChannelsLast;
    value.dims = {src.dims[0], src.dims[2], src.dims[3], src.dims[4], src.dims[1]};
  } else if (src.form == OnnxForm::kChannelsLast && order == OnnxDims{0, 4, 1, 2, 3}) {
    value = call.graph().value_of(*src.tensor);
    value.shared = src.shared;
    value.pattern = src.pattern;
  } else {
    throw Error(fmt::format("a transposition by {}", joined(order, ",")),
                "only channels may move, to the end and back");
  }
  return result(value);
}

/// A matrix product of each voxel's channels with a weight of `rows` x `columns`, which its view
/// `weight` has as outputs x inputs.
Results product(OperatorCall& call, const OnnxConstant& weight,
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
    const auto make = [=](const Variant& v) -> std::unique_ptr<Layer> {
      return std::make_unique<Convolution>(
          ConvolutionOptions{out, window, 1, v.bias, compute, kTorch, v.writes_fp32});
    };
    const Spatial& k = window.kernel;
    OnnxValue value = add_with_bias(
        call, make, {with_axes({out, pointwise ? in : shape.c, k[0], k[1], k[2]}), bias});
    if (src.form != OnnxForm::kChannelsLast) return result(flat(value));
    value.form = src.form;
    value.dims = src.dims;
    value.dims.back() = out;
    return result(value);
  }
  // The program's dense layer has its inputs in the order d,h,w,c.
  const auto columns =
      with_axes({out, shape.c, shape.d, shape.h, shape.w})->transposed({0, 2, 3, 4, 1});
  return result(
      flat(call.add(std::make_unique<Dense>(out, false, InitialValues{kTorch}),
                    {call.graph().in_type(*src.tensor, DataType::kFloat32)}, {columns, bias})));
}

Results gemm(OperatorCall& call) {
  const OnnxNode& node = call.node();
  require(
      node.integer("transA", 0) == 0 && node.number("alpha", 1) == 1 && node.number("beta", 1) == 1,
      "a product with transA, alpha or beta", "use torch.nn.Linear");
  OnnxConstant weight = node.required(1, "weight");
  require(weight.dims().size() == 2, "a weight that is no matrix", "use torch.nn.Linear");
  if (node.integer("transB", 0) == 0) weight = weight.transposed({1, 0});
  return product(call, weight, call.parameter(2, {weight.dims()[0]}));
}

Results matmul(OperatorCall& call) {
  const OnnxConstant& weight = call.node().required(1, "weight");
  require(weight.dims().size() == 2, "a product of tensors", "multiply by a matrix of weights");
  return product(call, weight.transposed({1, 0}), {});
}

Results dropout(OperatorCall& call) {
  const OnnxNode& node = call.node();
  const double own = call.graph().settings().dropout;
  const double ratio = node.has(1) ? node.required(1, "ratio").at(0)
                                   : static_cast<double>(node.number("ratio", 0.5F));
  const double p = own >= 0 ? own : ratio;
  if (p == 0) return unchanged(call);
  auto layer = std::make_unique<Dropout>(p, call.type(0));
  return result(call.in_form_of(0, *call.add(std::move(layer), {*call.tensor(0).tensor}).tensor));
}

/// Random numbers, of which only dropouts are made: one for each channel or element.
Results random_numbers(OperatorCall& call) {
  OnnxValue value;
  value.dims = call.value(0).dims;
  value.pattern.name = "random";
  const bool channels =
      value.dims.size() == 5 && value.dims[2] * value.dims[3] * value.dims[4] == 1;
  value.pattern.of = channels ? 1 : 0;
  return result(std::move(value));
}

Results less(OperatorCall& call) {
  OnnxValue value = call.value(0);
  require(value.pattern.name == "random", "a comparison", "only that of a dropout is supported");
  value.pattern = {"mask", value.pattern.of, call.node().required(1, "share").at(0)};
  return result(std::move(value));
}

/// The parts of a softplus that is the identity for large numbers.
Results greater(OperatorCall& call) {
  OnnxValue value;
  value.dims = call.tensor(0).dims;
  value.pattern = {"greater", *call.tensor(0).tensor, call.node().required(1, "threshold").at(0)};
  return result(std::move(value));
}
Results where(OperatorCall& call) {
  const OnnxPattern &condition = call.value(0).pattern, &other = call.value(2).pattern;
  require(condition.name == "greater" && other.name == "softplus" && condition.of == other.of &&
              call.value(1).tensor == other.of && condition.number >= 20,
          "a choice between tensors", "only that of a softplus is supported");
  return result(call.value(2));
}

ResizeCoordinates resize_coordinates(const std::string& name) {
  const std::map<std::string_view, ResizeCoordinates> known{
      {"half_pixel", ResizeCoordinates::kHalfPixel},
      {"pytorch_half_pixel", ResizeCoordinates::kPytorchHalfPixel},
      {"align_corners", ResizeCoordinates::kAlignCorners},
      {"asymmetric", ResizeCoordinates::kAsymmetric}};
  const auto found = known.find(name);
  require(found != known.end(), text("the coordinates {}", name), "use those of torch.nn.Upsample");
  return found->second;
}

Results resize(OperatorCall& call) {
  const OnnxNode& node = call.node();
  const bool old = node.opset() < 11 || node.proto().op_type() == "Upsample";
  const std::string mode = node.word("mode", "nearest");
  const std::string rounding = node.word("nearest_mode", old ? "floor" : "round_prefer_floor");
  require((mode == "nearest" || mode == "linear" || mode == "trilinear") &&
              node.integer("antialias", 0) == 0 && node.integer("exclude_outside", 0) == 0 &&
              node.word("keep_aspect_ratio_policy", "stretch") == "stretch",
          text("the mode {}", mode), "use nearest or trilinear");
  ResizeOptions options;
  options.type = call.type(0);
  options.mode = mode == "nearest" ? ResizeMode::kNearest : ResizeMode::kLinear;
  options.coordinates = resize_coordinates(
      node.word("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel"));
  options.rounding = rounding == "floor"               ? ResizeRounding::kFloor
                     : rounding == "ceil"              ? ResizeRounding::kCeil
                     : rounding == "round_prefer_ceil" ? ResizeRounding::kPreferCeil
                                                       : ResizeRounding::kPreferFloor;
  const OnnxValue& src = call.plain(0);
  const std::size_t at = old ? 1 : 2;
  std::vector<double> scales;
  if (node.has(at)) scales = node.required(at, "scales").values();
  if (const onnx::Attribute* const given = node.attribute("scales"))
    scales.assign(given->floats().begin(), given->floats().end());
  OnnxDims sizes;
  if (scales.empty()) sizes = node.required(3, "sizes").integers();
  if (node.attribute("axes") != nullptr) {  // only of these axes
    const OnnxDims axes = node.integers("axes");
    std::vector<double> all_scales(5, 1);
    OnnxDims all_sizes = src.dims;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const std::size_t axis = onnx_axis(axes[i], 5);
      if (i < scales.size()) all_scales[axis] = scales[i];
      if (i < sizes.size()) all_sizes[axis] = sizes[i];
    }
    if (!scales.empty()) scales = all_scales;
    if (!sizes.empty()) sizes = all_sizes;
  }
  require((scales.size() == 5 && scales[0] == 1 && scales[1] == 1) ||
              (sizes.size() == 5 && sizes[0] == src.dims[0] && sizes[1] == src.dims[1]),
          "a change of samples or channels", "resize space alone");
  for (std::size_t a = 0; a < 3; ++a) {
    if (!scales.empty()) options.scales[a] = scales[a + 2];
    if (!sizes.empty()) options.extents[a] = sizes[a + 2];
  }
  return result(call.add(std::make_unique<Resize>(options), {*src.tensor}));
}

using Planes = Crop::Planes;

/// Along c, d, h, w: what each axis of N,C,D,H,W that a node names is given.
Planes of_axes(const OnnxDims& values, const OnnxDims& axes) {
  Planes planes{};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = onnx_axis(axes[i], 5);
    require(axis > 0 || values[i] == 0, "samples of a batch cut or padded", "keep the first axis");
    if (axis > 0) planes[axis - 1] = values[i];
  }
  return planes;
}

OnnxValue cropped(OperatorCall& call, const Planes& before, const Planes& after) {
  const OnnxValue& src = call.plain(0);
  if (before == Planes{} && after == Planes{}) return src;
  return call.add(std::make_unique<Crop>(before, after, call.type(0)), {*src.tensor});
}

Results slice(OperatorCall& call) {
  const OnnxNode& node = call.node();
  const OnnxValue& src = call.plain(0);
  const OnnxDims starts = node.integers("starts", 1).value(),
                 ends = node.integers("ends", 2).value();
  OnnxDims axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = node.integers("axes", 3).value_or(axes);
  const OnnxDims steps = node.integers("steps", 4).value_or(OnnxDims(starts.size(), 1));
  require(ends.size() == starts.size() && axes.size() == starts.size() &&
              std::all_of(steps.begin(), steps.end(), [](auto step) { return step == 1; }),
          "a slice with steps", "slice without steps");
  OnnxDims before(axes.size()), after(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t extent = src.dims[onnx_axis(axes[i], 5)];
    const auto place = [&](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + extent : at, 0, extent);
    };
    before[i] = place(starts[i]);
    after[i] = extent - place(ends[i]);
  }
  return result(cropped(call, of_axes(before, axes), of_axes(after, axes)));
}

Results split(OperatorCall& call) {
  const OnnxNode& node = call.node();
  const OnnxValue& src = call.plain(0);
  const std::size_t axis = onnx_axis(node.integer("axis", 0), 5);
  const std::int64_t extent = src.dims[axis], outputs = node.proto().output_size();
  OnnxDims sizes = node.integers("split", 1).value_or(OnnxDims{});
  if (sizes.empty()) {
    const std::int64_t size = (extent + outputs - 1) / outputs;
    for (std::int64_t at = 0; at < extent; at += size) sizes.push_back(std::min(size, extent - at));
  }
  Results results;
  std::int64_t at = 0;
  const OnnxDims axes{static_cast<std::int64_t>(axis)};
  for (const std::int64_t size : sizes) {
    require(size > 0 && size <= extent - at,
            text("a split of {} into {}", extent, joined(sizes, ",")));
    results.push_back(cropped(call, of_axes({at}, axes), of_axes({extent - at - size}, axes)));
    at += size;
  }
  return results;
}

Results pad(OperatorCall& call) {
  const OnnxNode& node = call.node();
  call.plain(0);
  const OnnxDims pads = node.integers("pads", 1).value();
  OnnxDims axes{0, 1, 2, 3, 4};
  if (node.has(3)) axes = node.required(3, "axes").integers();
  require(pads.size() == 2 * axes.size(), text("pads {}", joined(pads, ",")));
  const auto half = pads.begin() + std::ssize(axes);
  const Planes before = of_axes({pads.begin(), half}, axes),
               after = of_axes({half, pads.end()}, axes);
  const auto either = [](const Planes& planes, bool adds) {
    Planes part{};
    for (std::size_t a = 0; a < 4; ++a)
      part[a] = std::max<std::int64_t>(adds ? planes[a] : -planes[a], 0);
    return part;
  };
  const OnnxValue value = cropped(call, either(before, false), either(after, false));
  const Planes more = either(before, true), behind = either(after, true);
  require(more[0] == 0 && behind[0] == 0, "channels added by a pad", "concatenate zeros instead");
  if (more == Planes{} && behind == Planes{}) return result(value);
  const std::map<std::string_view, PadMode> modes{{"constant", PadMode::kConstant},
                                                  {"edge", PadMode::kEdge},
                                                  {"reflect", PadMode::kReflect},
                                                  {"wrap", PadMode::kWrap}};
  const auto mode = modes.find(node.word("mode", "constant"));
  require(mode != modes.end(), text("the mode {}", node.word("mode", "")),
          "use another padding mode");
  PadOptions options;
  options.before = {more[1], more[2], more[3]};
  options.after = {behind[1], behind[2], behind[3]};
  options.mode = mode->second;
  options.value =
      node.has(2) ? static_cast<float>(node.required(2, "value").at(0)) : node.number("value", 0);
  options.type = call.graph().type(*value.tensor);
  return result(call.add(std::make_unique<Pad>(options), {*value.tensor}));
}

Results shape(OperatorCall& call) {
  return constant_result(shape_of(call.node(), call.tensor(0).dims));
}

Results cast_like(OperatorCall& call) {
  return call.value(0).constant ? constant_result(*call.value(0).constant) : unchanged(call);
}

/// Whether a softmax or sigmoid ends a network whose loss applies it.
bool is_left_to_loss(OperatorCall& call, bool of_samples) {
  const std::string& name = call.node().proto().op_type();
  const bool ends = call.graph().is_output(call.node().proto().output(0));
  const bool is_vector = call.shape(0).spatial() == Spatial{1, 1, 1};
  if (!ends || !(is_vector ? of_samples : call.graph().settings().ends_in_scores)) return false;
  call.graph().note(fmt::format("{} at the end is left to the loss", name));
  return true;
}
Results softmax(OperatorCall& call) {
  const OnnxNode& node = call.node();
  const OnnxValue& src = call.tensor(0);
  const std::int64_t axis = node.integer("axis", node.opset() < 13 ? 1 : -1);
  const bool has_channels =
      src.form != OnnxForm::kGroups &&
      (src.form != OnnxForm::kFlat || call.shape(0).spatial() == Spatial{1, 1, 1});
  // Older versions take all axes from this one on together.
  require(has_channels && (node.opset() >= 13 || src.dims.size() == 2) &&
              onnx_axis(axis, src.dims.size()) == src.channel_axis(),
          text("a softmax over axis {} in opset {}", axis, node.opset()),
          "take it over the channels, in opset 13 or later");
  if (is_left_to_loss(call, call.graph().settings().ends_in_softmax)) return unchanged(call);
  using Kind = ChannelNormalizeOptions::Kind;
  const Kind kind = node.proto().op_type() == "Softmax" ? Kind::kSoftmax : Kind::kLogSoftmax;
  auto layer = std::make_unique<ChannelNormalize>(
      ChannelNormalizeOptions{kind, 1e-5F, false, false, call.type(0)});
  return result(call.in_form_of(0, *call.add(std::move(layer), {*src.tensor}).tensor));
}
Results sigmoid(OperatorCall& call) {
  if (is_left_to_loss(call, call.graph().settings().ends_in_sigmoid)) return unchanged(call);
  return result(with_pattern(call, element(call, 0, {ElementKind::kSigmoid}), "sigmoid"));
}

const std::map<std::string_view, OnnxOperator>& operators() {
  static const std::map<std::string_view, OnnxOperator> kOperators{
      {"Abs", function_of<ElementKind::kAbs>},
      {"Add", add_tensors},
      {"AveragePool", average_pool},
      {"BatchNormalization", batch_normalization},
      {"Cast", unchanged},
      {"CastLike", cast_like},
      {"Celu", celu},
      {"Clip", clip},
      {"Concat", concat},
      {"Conv", conv},
      {"ConvTranspose", conv_transpose},
      {"Div", divide},
      {"Dropout", dropout},
      {"Elu", elu},
      {"Erf", erf_of},
      {"Exp", function_of<ElementKind::kExp>},
      {"Expand", expand},
      {"Flatten", flatten},
      {"Gelu", gelu},
      {"Gemm", gemm},
      {"GlobalAveragePool", global_average_pool},
      {"GlobalMaxPool", global_max_pool},
      {"Greater", greater},
      {"GroupNormalization", group_normalization},
      {"HardSigmoid", hard_sigmoid},
      {"HardSwish", function_of<ElementKind::kHardSwish>},
      {"Identity", unchanged},
      {"InstanceNormalization", instance_normalization},
      {"LayerNormalization", layer_normalization},
      {"LeakyRelu", leaky_relu},
      {"Less", less},
      {"Log", function_of<ElementKind::kLog>},
      {"LogSoftmax", softmax},
      {"LpNormalization", lp_normalization},
      {"MatMul", matmul},
      {"Max", extreme<BinaryKind::kMaximum>},
      {"MaxPool", max_pool},
      {"Min", extreme<BinaryKind::kMinimum>},
      {"Mish", function_of<ElementKind::kMish>},
      {"Mul", multiply},
      {"Neg", negative},
      {"PRelu", prelu},
      {"Pad", pad},
      {"Pow", power},
      {"RMSNormalization", layer_normalization},
      {"RandomUniformLike", random_numbers},
      {"Reciprocal", reciprocal},
      {"ReduceL2", reduce_l2},
      {"ReduceMax", reduce<global_max_pool>},
      {"ReduceMean", reduce<global_average_pool>},
      {"Relu", relu},
      {"Reshape", reshape},
      {"Resize", resize},
      {"Selu", selu},
      {"Shape", shape},
      {"Sigmoid", sigmoid},
      {"Slice", slice},
      {"Softmax", softmax},
      {"Softplus", softplus},
      {"Split", split},
      {"Sqrt", function_of<ElementKind::kSqrt>},
      {"Squeeze", squeeze},
      {"Sub", subtract},
      {"Swish", swish},
      {"Tanh", tanh_of},
      {"Tile", tile},
      {"Transpose", transpose},
      {"Unsqueeze", unsqueeze},
      {"Upsample", resize},
      {"Where", where}};
  return kOperators;
}

}  // namespace

OnnxOperator onnx_operator(const std::string& name) {
  const auto found = operators().find(name);
  return found == operators().end() ? nullptr : found->second;
}

}  // namespace halomesh
