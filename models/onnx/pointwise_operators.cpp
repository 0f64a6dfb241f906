// SPDX-License-Identifier: Apache-2.0
// Operators of ONNX: normalizations, and functions of one tensor. See operators.hpp.
#include <cmath>
#include <limits>
#include <utility>

#include "error.hpp"
#include "joined.hpp"
#include "models/onnx/operators.hpp"
#include "src/nn/kernels/moments.hpp"
#include "src/nn/layers/normalize.hpp"
#include "src/nn/layers/prelu.hpp"
#include "src/nn/layers/sample_average.hpp"

namespace halomesh {
namespace {

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
  step.make = [=](const OnnxVariant& v) {
    return std::make_unique<Normalize>(epsilon, type, samples, v.slope, v.weight || v.bias,
                                       1 - kept);
  };
  const std::size_t tensor = *call.add(std::move(step)).tensor;
  return call.in_form_of(0, tensor);
}

OnnxResults batch_normalization(OperatorCall& call) {
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
  return normalization(call, 0, call.graph().settings().batch_norm, std::move(parameters));
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

OnnxResults instance_normalization(OperatorCall& call) {
  const OnnxConstant& scale = call.node().required(1, "scale");
  const OnnxConstant& offset = call.node().required(2, "offset");
  const OnnxValue& src = call.tensor(0);
  if (src.form == OnnxForm::kGroups) {
    require(is_neutral(scale, 1) && is_neutral(offset, 0),
            "a norm of groups with a scale for each group",
            "use a group norm with one per channel");
    return normalization(call, src.dims[1] == call.shape(0).c ? 0 : src.dims[1], 0, {});
  }
  const OnnxDims channels{call.plain(0).dims[1]};
  if (is_computed(scale) && is_neutral(scale, 1) && is_computed(offset) && is_neutral(offset, 0))
    return normalization(call, 0, 0, {});
  return normalization(call, 0, 0, {call.parameter(1, channels), call.parameter(2, channels)});
}

OnnxResults group_normalization(OperatorCall& call) {
  const OnnxDims channels{call.plain(0).dims[1]};
  const std::int64_t groups = call.node().integer("num_groups", 1);
  require(groups >= 1 && channels[0] % groups == 0,
          text("{} groups of {} channels", groups, channels[0]));
  return normalization(call, groups == channels[0] ? 0 : groups, 0,
                       {call.parameter(1, channels), call.parameter(2, channels)});
}

/// A leaky rectifier, which a normalization before it computes as well.
OnnxResults rectifier(OperatorCall& call, float slope) {
  const OnnxValue& src = call.tensor(0);
  OnnxStep* const before = call.graph().producer(src);
  if (before == nullptr || src.shared || before->variant.slope != 1 ||
      dynamic_cast<Normalize*>(before->layer.get()) == nullptr)
    return add_element(call, 0, ElementFunction::leaky_relu(slope));
  OnnxVariant variant = before->variant;
  variant.slope = slope;
  call.graph().change(*before, variant);
  before->operators += " + " + call.node().proto().op_type();
  return src;
}

OnnxResults relu(OperatorCall& call) { return rectifier(call, 0); }
OnnxResults leaky_relu(OperatorCall& call) {
  return rectifier(call, call.node().number("alpha", 0.01F));
}

/// A function without numbers of its own.
template <ElementKind kKind>
OnnxResults function_of(OperatorCall& call) {
  return add_element(call, 0, {kKind});
}

/// A function whose output later nodes may recognize.
OnnxValue with_pattern(OperatorCall& call, OnnxValue value, const char* name, double number = 0) {
  value.pattern = {name, *call.tensor(0).tensor, number};
  return value;
}

OnnxResults elu(OperatorCall& call) {
  return add_element(call, 0, ElementFunction::elu(call.node().number("alpha", 1)));
}
OnnxResults celu(OperatorCall& call) {
  return add_element(call, 0, ElementFunction::celu(call.node().number("alpha", 1)));
}
OnnxResults selu(OperatorCall& call) {
  const OnnxNode& node = call.node();
  return add_element(
      call, 0,
      {ElementKind::kElu, node.number("alpha", 1.67326324F), node.number("gamma", 1.05070099F), 1});
}
OnnxResults swish(OperatorCall& call) {
  return add_element(call, 0, {ElementKind::kSilu, call.node().number("alpha", 1)});
}
OnnxResults hard_sigmoid(OperatorCall& call) {
  const OnnxNode& node = call.node();
  return add_element(
      call, 0, {ElementKind::kHardSigmoid, node.number("alpha", 0.2F), node.number("beta", 0.5F)});
}
OnnxResults tanh_of(OperatorCall& call) {
  return add_element(call, 0, ElementFunction::scaled_tanh(1));
}
OnnxResults gelu(OperatorCall& call) {
  const bool exact = call.node().word("approximate", "none") == "none";
  return add_element(call, 0, {exact ? ElementKind::kGelu : ElementKind::kGeluTanh});
}
OnnxResults softplus(OperatorCall& call) {
  return with_pattern(call, add_element(call, 0, {ElementKind::kSoftplus}), "softplus");
}
OnnxResults negative(OperatorCall& call) {
  return add_element(call, 0, ElementFunction::linear(-1, 0));
}
OnnxResults reciprocal(OperatorCall& call) {
  return add_element(call, 0, ElementFunction::power(-1));
}
OnnxResults power(OperatorCall& call) {
  const OnnxConstant& exponent = call.node().required(1, "exponent");
  require(exponent.volume() == 1, "a power with several exponents", "use one number");
  return add_element(call, 0, ElementFunction::power(static_cast<float>(exponent.at(0))));
}

/// Part of a GELU: erf(x / sqrt(2)).
OnnxResults erf_of(OperatorCall& call) {
  OnnxValue value = add_element(call, 0, {ElementKind::kErf});
  const OnnxPattern& before = call.tensor(0).pattern;
  if (before.name == "scaled" && std::abs(before.number - std::sqrt(0.5)) < 1e-6)
    value.pattern = {"erf", before.of, 0};
  return value;
}

/// The bounds of a Clip, which older versions have as attributes.
OnnxResults clip(OperatorCall& call) {
  const OnnxNode& node = call.node();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float low = node.has(1) ? static_cast<float>(node.required(1, "min").at(0))
                                : node.number("min", -kInfinity);
  const float high = node.has(2) ? static_cast<float>(node.required(2, "max").at(0))
                                 : node.number("max", kInfinity);
  OnnxValue value = call.value(0);
  if (value.pattern.name == "norm" && high == kInfinity) {
    value.pattern.number = static_cast<double>(low);
    return value;
  }
  return add_element(call, 0, ElementFunction::clip(low, high));
}

OnnxResults prelu(OperatorCall& call) {
  const OnnxConstant& slope = call.node().required(1, "slope");
  const std::int64_t channels = call.shape(0).c, count = slope.volume();
  require(
      call.tensor(0).form == OnnxForm::kPlain && (count == 1 || count == channels) &&
          (slope.dims().size() == 1 || count == 1 || slope.dims() == OnnxDims{channels, 1, 1, 1} ||
           slope.dims() == OnnxDims{1, channels, 1, 1, 1}) &&
          (count == 1 || slope.dims().size() > 1),
      text("slopes of {}", joined(slope.dims(), "x")), "use one, or one for each channel");
  auto layer = std::make_unique<PRelu>(count > 1, call.type(0));
  return call.add(std::move(layer), {*call.tensor(0).tensor}, {call.parameter(1, {count})});
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

OnnxResults layer_normalization(OperatorCall& call) {
  require_channel_axis(call);
  const OnnxDims channels{call.shape(0).c};
  OnnxParameters parameters{call.parameter(1, channels)};
  if (auto bias = call.parameter(2, channels)) parameters.push_back(std::move(bias));
  const bool rms = call.node().proto().op_type() == "RMSNormalization";
  using Kind = ChannelNormalizeOptions::Kind;
  return channel_normalization(call, rms ? Kind::kRootMeanSquare : Kind::kLayer,
                               call.node().number("epsilon", 1e-5F), std::move(parameters));
}

OnnxResults lp_normalization(OperatorCall& call) {
  require_channel_axis(call);
  require(call.node().integer("p", 2) == 2, "a norm other than the Euclidean", "use p = 2");
  return channel_normalization(call, ChannelNormalizeOptions::Kind::kNorm, 0, {});
}

/// The norm of each voxel's channels, by which only a quotient is supported.
OnnxResults reduce_l2(OperatorCall& call) {
  const OnnxValue& src = call.tensor(0);
  const OnnxDims axes = call.node().integers("axes", 1).value_or(OnnxDims{});
  require(axes.size() == 1 && onnx_axis(axes[0], src.dims.size()) == src.channel_axis() &&
              call.node().integer("keepdims", 1) != 0,
          "a norm over other axes than the channels", "use torch.nn.functional.normalize");
  OnnxValue value;
  value.pattern = {"norm", *src.tensor, 0};
  value.dims = src.dims;
  value.dims[src.channel_axis()] = 1;
  return value;
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
OnnxResults softmax(OperatorCall& call) {
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
  if (is_left_to_loss(call, call.graph().settings().ends_in_softmax)) return onnx_unchanged(call);
  using Kind = ChannelNormalizeOptions::Kind;
  const Kind kind = node.proto().op_type() == "Softmax" ? Kind::kSoftmax : Kind::kLogSoftmax;
  auto layer = std::make_unique<ChannelNormalize>(
      ChannelNormalizeOptions{kind, 1e-5F, false, false, call.type(0)});
  return call.in_form_of(0, *call.add(std::move(layer), {*src.tensor}).tensor);
}
OnnxResults sigmoid(OperatorCall& call) {
  if (is_left_to_loss(call, call.graph().settings().ends_in_sigmoid)) return onnx_unchanged(call);
  return with_pattern(call, add_element(call, 0, {ElementKind::kSigmoid}), "sigmoid");
}

}  // namespace

/// A normalization of each voxel's channels.
OnnxResults channel_normalization(OperatorCall& call, ChannelNormalizeOptions::Kind kind,
                                  float epsilon, OnnxParameters parameters) {
  OnnxStep step;
  step.inputs = {*call.tensor(0).tensor};
  step.variant.weight = !parameters.empty();
  step.variant.bias = parameters.size() > 1;
  step.parameters = std::move(parameters);
  step.make = [=, type = call.type(0)](const OnnxVariant& v) {
    return std::make_unique<ChannelNormalize>(
        ChannelNormalizeOptions{kind, epsilon > 0 ? epsilon : 1e-12F, v.weight, v.bias, type});
  };
  return call.in_form_of(0, *call.add(std::move(step)).tensor);
}

OnnxValue add_element(OperatorCall& call, std::size_t input, const ElementFunction& function) {
  const std::size_t src = *call.tensor(input).tensor;
  auto layer = std::make_unique<Elementwise>(function, call.graph().type(src));
  return call.in_form_of(input, *call.add(std::move(layer), {src}).tensor);
}

OnnxOperatorTable pointwise_operators() {
  return {{"Abs", function_of<ElementKind::kAbs>},
          {"BatchNormalization", batch_normalization},
          {"Celu", celu},
          {"Clip", clip},
          {"Elu", elu},
          {"Erf", erf_of},
          {"Exp", function_of<ElementKind::kExp>},
          {"Gelu", gelu},
          {"GroupNormalization", group_normalization},
          {"HardSigmoid", hard_sigmoid},
          {"HardSwish", function_of<ElementKind::kHardSwish>},
          {"InstanceNormalization", instance_normalization},
          {"LayerNormalization", layer_normalization},
          {"LeakyRelu", leaky_relu},
          {"Log", function_of<ElementKind::kLog>},
          {"LogSoftmax", softmax},
          {"LpNormalization", lp_normalization},
          {"Mish", function_of<ElementKind::kMish>},
          {"Neg", negative},
          {"PRelu", prelu},
          {"Pow", power},
          {"RMSNormalization", layer_normalization},
          {"Reciprocal", reciprocal},
          {"ReduceL2", reduce_l2},
          {"Relu", relu},
          {"Selu", selu},
          {"Sigmoid", sigmoid},
          {"Softmax", softmax},
          {"Softplus", softplus},
          {"Sqrt", function_of<ElementKind::kSqrt>},
          {"Swish", swish},
          {"Tanh", tanh_of}};
}

}  // namespace halomesh
