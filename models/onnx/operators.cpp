// SPDX-License-Identifier: Apache-2.0
// The operators of ONNX that networks may have: one function and one entry of the table each. A
// function throws Error for what its layer cannot compute; importers of files list these.
#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "error.hpp"
#include "joined.hpp"
#include "models/onnx/graph.hpp"
#include "src/nn/kernels/moments.hpp"
#include "src/nn/layers/add.hpp"
#include "src/nn/layers/affine.hpp"
#include "src/nn/layers/concat.hpp"
#include "src/nn/layers/convolution.hpp"
#include "src/nn/layers/crop.hpp"
#include "src/nn/layers/dense.hpp"
#include "src/nn/layers/depthwise_convolution.hpp"
#include "src/nn/layers/dropout.hpp"
#include "src/nn/layers/global_average.hpp"
#include "src/nn/layers/leaky_relu.hpp"
#include "src/nn/layers/normalize.hpp"
#include "src/nn/layers/pooling.hpp"
#include "src/nn/layers/sample_average.hpp"
#include "src/nn/layers/scaled_tanh.hpp"
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

Results unchanged(OperatorCall& call) { return result(call.tensor(0)); }

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
    const std::int64_t total = w.stride[a] * (src[a] - 1) + options.output_padding[a] +
                               (w.kernel[a] - 1) * w.dilation[a] + 1 - extents[a];
    require(total >= 0, text("an output of {}", joined(wanted, "x")), "give it an output_padding");
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
  require(node.integer("group", 1) == 1, "a transposed convolution in groups", "use one group");
  TransposedConvolutionOptions options;
  options.filters = w[1];
  options.window = window_of(node, {w[2], w[3], w[4]}, call.shape(0).spatial());
  options.output_padding = spatial_attribute(node, "output_padding", 0);
  options.compute = call.graph().settings().precision;
  options.initial = kTorch;
  fit_output(node, call.shape(0).spatial(), options);
  const auto make = [options](const Variant& v) -> std::unique_ptr<Layer> {
    TransposedConvolutionOptions own = options;
    own.bias = v.bias;
    own.writes_fp32 = v.writes_fp32;
    return std::make_unique<TransposedConvolution>(own);
  };
  return result(add_with_bias(call, make, {call.parameter(1, w), call.parameter(2, {w[1]})}));
}

WindowOptions pooling_window(OperatorCall& call) {
  const OnnxNode& node = call.node();
  WindowOptions window =
      window_of(node, spatial_attribute(node, "kernel_shape", 1), call.shape(0).spatial());
  call.plain(0);
  window.ceil = node.integer("ceil_mode", 0) != 0 && window.padding != PaddingKind::kSame;
  return window;
}

Results max_pool(OperatorCall& call) {
  require(call.node().proto().output_size() < 2 || call.node().proto().output(1).empty(),
          "the places of its maxima are read", "use pooling without return_indices");
  return result(call.add(std::make_unique<MaxPooling>(pooling_window(call), call.type(0)),
                         {*call.tensor(0).tensor}));
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

Results reduce_mean(OperatorCall& call) {
  call.plain(0);
  require(reduces_space(call), "a mean over other axes than those of space", "average over space");
  const Results mean = global_average_pool(call);
  return call.node().integer("keepdims", 1) != 0 ? mean : result(flat(mean.front()));
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
  const float epsilon = call.node().number("epsilon", 1e-5F);
  step.make = [=](const Variant& v) {
    return std::make_unique<Normalize>(epsilon, type, samples, v.slope);
  };
  const std::size_t tensor = *call.add(std::move(step)).tensor;
  return call.in_form_of(0, tensor);
}

Results batch_normalization(OperatorCall& call) {
  const OnnxNode& node = call.node();
  require(std::abs(node.number("momentum", 0.9F) - 0.9F) < 1e-6F,
          text("a momentum of {:g}", node.number("momentum", 0.9F)),
          "only PyTorch's default of 0.1 is supported, which is 0.9 in a file");
  const OnnxDims channels{call.plain(0).dims[1]};
  OnnxParameters parameters;
  for (const std::size_t input : {1, 2, 3, 4})
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

/// A leaky rectifier, which a normalization before it computes as well.
Results rectifier(OperatorCall& call, float slope) {
  const OnnxValue& src = call.tensor(0);
  OnnxStep* const before = call.graph().producer(src);
  const std::string& name = call.node().proto().op_type();
  if (before != nullptr && !src.shared && before->make && before->variant.slope == 1 &&
      dynamic_cast<Normalize*>(before->layer.get()) != nullptr && src.pattern.name != "scaled") {
    Variant variant = before->variant;
    variant.slope = slope;
    call.graph().change(*before, variant);
    before->operators += " + " + name;
    OnnxValue value = src;
    value.pattern = {};
    return result(std::move(value));
  }
  return result(call.in_form_of(
      0, *call.add(std::make_unique<LeakyRelu>(slope, call.type(0)), {*src.tensor}).tensor));
}

Results relu(OperatorCall& call) { return rectifier(call, 0); }
Results leaky_relu(OperatorCall& call) {
  return rectifier(call, call.node().number("alpha", 0.01F));
}

Results tanh_of(OperatorCall& call) {
  return result(call.in_form_of(
      0, *call.add(std::make_unique<ScaledTanh>(1.0F), {*call.tensor(0).tensor}).tensor));
}

/// A constant as one number per channel of a tensor; none if it is broadcast otherwise.
std::optional<OnnxConstant> per_channel(const OnnxConstant& constant, const OnnxValue& like,
                                        std::int64_t channels) {
  const OnnxDims& dims = constant.dims();
  if (dims.size() > like.dims.size() || like.form == OnnxForm::kGroups) return {};
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

/// A tensor times, or plus, one number per channel, as part of the layer before it or as a layer.
Results affine(OperatorCall& call, std::size_t input, const OnnxConstant& constant, bool scales) {
  const OnnxValue& src = call.tensor(input);
  const std::int64_t channels = call.shape(input).c;
  const auto parameter = per_channel(constant, src, channels);
  OnnxStep* const before = src.shared ? nullptr : call.graph().producer(src);
  const std::size_t number = scales ? 0 : 1;
  if (parameter && before != nullptr && before->make) {
    const bool norm = dynamic_cast<Normalize*>(before->layer.get()) != nullptr;
    const bool open = norm ? before->variant.slope == 1 && before->parameters.size() == 2 &&
                                 !before->parameters[1] && !before->parameters[number]
                           : !scales && !before->variant.bias;
    if (open) {
      if (!norm) {
        Variant variant = before->variant;
        variant.bias = true;
        call.graph().change(*before, variant);
        before->parameters.resize(2);
      }
      before->parameters[number] = parameter;
      before->operators += " + " + call.node().proto().op_type();
      return result(src);
    }
  }
  if (const auto value = scalar(constant); value && *value == (scales ? 1.0 : 0.0))
    return result(src);
  throw Error("a constant that is not part of a norm or a convolution",
              "this form is not supported");
}

Results add_tensors(OperatorCall& call) {
  for (const std::size_t c : {0, 1})
    if (call.value(c).constant) return affine(call, 1 - c, *call.value(c).constant, false);
  require(call.shape(0) == call.shape(1) && call.tensor(0).form == call.tensor(1).form,
          text("a sum of {} and {}", call.shape(0), call.shape(1)), "sum tensors of one shape");
  return result(call.in_form_of(0, *call.add(std::make_unique<Add>(call.type(0)),
                                             {*call.tensor(0).tensor, *call.tensor(1).tensor})
                                        .tensor));
}

Results multiply(OperatorCall& call) {
  for (const std::size_t c : {0, 1})
    if (call.value(c).constant) return affine(call, 1 - c, *call.value(c).constant, true);
  throw Error("a product of two tensors", "this form is not supported");
}

Results divide(OperatorCall& call) {
  if (call.value(1).constant && scalar(*call.value(1).constant) == 1.0) return unchanged(call);
  throw Error("a quotient", "this form is not supported");
}

Results concat(OperatorCall& call) {
  std::vector<std::size_t> inputs;
  for (std::size_t i = 0; i < call.inputs(); ++i) inputs.push_back(*call.plain(i).tensor);
  const std::int64_t axis = call.node().integer("axis", 1);
  require(axis == 1 || axis == -4, text("a concatenation along axis {}", axis),
          "concatenate channels");
  if (inputs.size() == 1) return unchanged(call);
  return result(call.add(std::make_unique<Concat>(call.type(0)), inputs));
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
  const OnnxDims wanted = call.node().required(1, "shape").integers();
  if (call.value(0).dims == wanted || !call.value(0).tensor) return result(call.value(0));
  const OnnxValue& src = call.plain(0);
  require(
      wanted.size() == 5 && call.shape(0).spatial() == Spatial{1, 1, 1} && wanted[1] <= src.dims[1],
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

Results squeeze(OperatorCall& call) {
  const OnnxValue& src = call.tensor(0);
  require(src.form != OnnxForm::kChannelsLast && call.shape(0).spatial() == Spatial{1, 1, 1},
          text("axes of {} taken away", joined(src.dims, "x")),
          "only the axes of one voxel can be");
  return flatten(call);
}

Results unsqueeze(OperatorCall& call) {
  const OnnxValue& src = call.tensor(0);
  OnnxValue value = call.graph().value_of(*src.tensor);
  require(call.shape(0).spatial() == Spatial{1, 1, 1} && src.dims.size() == 2,
          text("axes added to {}", joined(src.dims, "x")), "only those of one voxel can be");
  value.shared = src.shared;
  return result(value);
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
Results product(OperatorCall& call, const OnnxConstant& weight, std::optional<OnnxConstant> bias) {
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
    const auto view = weight.reshaped(dims);
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
  return result(flat(call.add(std::make_unique<Dense>(out), {*src.tensor}, {columns, bias})));
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
  return result(
      call.in_form_of(0, *call.add(std::make_unique<Dropout>(p), {*call.tensor(0).tensor}).tensor));
}

Results shape_of(OperatorCall& call) {
  const OnnxDims& dims = call.tensor(0).dims;
  const auto rank = std::ssize(dims);
  const auto bound = [&](const char* name, std::int64_t fallback) {
    const std::int64_t at = call.node().integer(name, fallback);
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t first = bound("start", 0), last = std::max(bound("end", rank), first);
  return constant_result(
      OnnxConstant::computed({last - first}, {dims.begin() + first, dims.begin() + last}, true));
}

Results cast_like(OperatorCall& call) {
  return call.value(0).constant ? constant_result(*call.value(0).constant) : unchanged(call);
}

/// The last softmax or sigmoid of a network whose loss applies it.
Results scores(OperatorCall& call) {
  const std::string& name = call.node().proto().op_type();
  const bool ends = call.graph().is_output(call.node().proto().output(0));
  require(ends && call.graph().settings().ends_in_scores, "a softmax",
          "only one at the end is left out, where --loss is for classes");
  call.graph().note(fmt::format("{} at the end is left to the loss", name));
  return unchanged(call);
}

const std::map<std::string_view, OnnxOperator>& operators() {
  static const std::map<std::string_view, OnnxOperator> kOperators{
      {"Add", add_tensors},
      {"AveragePool", average_pool},
      {"BatchNormalization", batch_normalization},
      {"Cast", unchanged},
      {"CastLike", cast_like},
      {"Concat", concat},
      {"Conv", conv},
      {"ConvTranspose", conv_transpose},
      {"Div", divide},
      {"Dropout", dropout},
      {"Expand", expand},
      {"Flatten", flatten},
      {"Gemm", gemm},
      {"GlobalAveragePool", global_average_pool},
      {"GroupNormalization", group_normalization},
      {"Identity", unchanged},
      {"InstanceNormalization", instance_normalization},
      {"LeakyRelu", leaky_relu},
      {"LogSoftmax", scores},
      {"MatMul", matmul},
      {"MaxPool", max_pool},
      {"Mul", multiply},
      {"ReduceMean", reduce_mean},
      {"Relu", relu},
      {"Reshape", reshape},
      {"Shape", shape_of},
      {"Softmax", scores},
      {"Squeeze", squeeze},
      {"Tanh", tanh_of},
      {"Tile", tile},
      {"Transpose", transpose},
      {"Unsqueeze", unsqueeze}};
  return kOperators;
}

}  // namespace

OnnxOperator onnx_operator(const std::string& name) {
  const auto found = operators().find(name);
  return found == operators().end() ? nullptr : found->second;
}

}  // namespace halomesh
