// SPDX-License-Identifier: Apache-2.0
// Operators of ONNX: arithmetic, and the functions and dropouts that exporters spell with it. See
// operators.hpp.
#include <algorithm>
#include <utility>

#include "error.hpp"
#include "joined.hpp"
#include "models/onnx/operators.hpp"
#include "src/nn/layers/add.hpp"
#include "src/nn/layers/affine.hpp"
#include "src/nn/layers/binary.hpp"
#include "src/nn/layers/dropout.hpp"
#include "src/nn/layers/normalize.hpp"

namespace halomesh {
namespace {

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
    OnnxVariant variant = before->variant;
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
  step.make = [type = call.type(input)](const OnnxVariant& v) {
    return std::make_unique<Affine>(type, v.weight, v.bias);
  };
  return call.in_form_of(input, *call.add(std::move(step)).tensor);
}

/// scale * x + shift.
OnnxValue linear(OperatorCall& call, std::size_t input, double scale, double shift) {
  if (scale == 1 && shift == 0) return call.tensor(input);
  return add_element(call, input,
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
OnnxResults channel_norm(OperatorCall& call, double epsilon) {
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

OnnxResults add_tensors(OperatorCall& call) {
  const auto c = constant_input(call);
  if (!c) return binary(call, BinaryKind::kAdd, call.tensor(0), call.tensor(1));
  const OnnxConstant& constant = *call.value(*c).constant;
  if (auto value = affine(call, 1 - *c, constant, false)) return std::move(*value);
  const auto shift = scalar(constant);
  require(shift.has_value(), text("a constant of {} added", joined(constant.dims(), "x")),
          "add one number, or one for each channel");
  OnnxValue value = linear(call, 1 - *c, 1, *shift);
  if (const OnnxPattern& before = call.tensor(1 - *c).pattern; before.name == "erf" && *shift == 1)
    value.pattern = {"erf + 1", before.of, 0};
  return value;
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

OnnxResults multiply(OperatorCall& call) {
  const auto c = constant_input(call);
  if (!c) {
    const OnnxValue &a = call.value(0), &b = call.value(1);
    if (auto value = spelled_product(call, a, b)) return std::move(*value);
    if (auto value = spelled_product(call, b, a)) return std::move(*value);
    return binary(call, BinaryKind::kMultiply, call.tensor(0), call.tensor(1));
  }
  const OnnxConstant& constant = *call.value(*c).constant;
  if (auto value = affine(call, 1 - *c, constant, true)) return std::move(*value);
  const auto scale = scalar(constant);
  require(scale.has_value(), text("a constant of {} multiplied", joined(constant.dims(), "x")),
          "multiply by one number, or one for each channel");
  return scaled(call, 1 - *c, *scale);
}

OnnxResults subtract(OperatorCall& call) {
  const auto c = constant_input(call);
  if (!c) return binary(call, BinaryKind::kSubtract, call.tensor(0), call.tensor(1));
  const auto number = scalar(*call.value(*c).constant);
  require(number.has_value(), "a difference to several numbers", "subtract one number");
  return *c == 1 ? linear(call, 0, 1, -*number) : linear(call, 1, -1, *number);
}

OnnxResults divide(OperatorCall& call) {
  const OnnxPattern& below = call.value(1).pattern;
  if (below.name == "norm" && call.tensor(0).tensor == below.of)
    return channel_norm(call, below.number);
  const auto c = constant_input(call);
  if (!c) return binary(call, BinaryKind::kDivide, call.tensor(0), call.tensor(1));
  const auto number = scalar(*call.value(*c).constant);
  require(number.has_value(), "a quotient with several numbers", "divide by one number");
  if (call.value(0).pattern.name == "mask") return onnx_unchanged(call);  // the scale of a dropout
  if (*c == 1) return scaled(call, 0, 1 / *number);
  OnnxValue inverse = add_element(call, 1, ElementFunction::power(-1));
  return *number == 1 ? inverse : linear_of(call, inverse, *number);
}

template <BinaryKind kKind>
OnnxResults extreme(OperatorCall& call) {
  OnnxValue value = call.tensor(0);
  for (std::size_t i = 1; i < call.inputs(); ++i)
    value = binary(call, kKind, value, call.tensor(i));
  return value;
}

OnnxResults dropout(OperatorCall& call) {
  const OnnxNode& node = call.node();
  const double own = call.graph().settings().dropout;
  const double ratio = node.has(1) ? node.required(1, "ratio").at(0)
                                   : static_cast<double>(node.number("ratio", 0.5F));
  const double p = own >= 0 ? own : ratio;
  if (p == 0) return onnx_unchanged(call);
  auto layer = std::make_unique<Dropout>(p, call.type(0));
  return call.in_form_of(0, *call.add(std::move(layer), {*call.tensor(0).tensor}).tensor);
}

/// Random numbers, of which only dropouts are made: one for each channel or element.
OnnxResults random_numbers(OperatorCall& call) {
  OnnxValue value;
  value.dims = call.value(0).dims;
  value.pattern.name = "random";
  const bool channels =
      value.dims.size() == 5 && value.dims[2] * value.dims[3] * value.dims[4] == 1;
  value.pattern.of = channels ? 1 : 0;
  return value;
}

OnnxResults less(OperatorCall& call) {
  OnnxValue value = call.value(0);
  require(value.pattern.name == "random", "a comparison", "only that of a dropout is supported");
  value.pattern = {"mask", value.pattern.of, call.node().required(1, "share").at(0)};
  return value;
}

/// The parts of a softplus that is the identity for large numbers.
OnnxResults greater(OperatorCall& call) {
  OnnxValue value;
  value.dims = call.tensor(0).dims;
  value.pattern = {"greater", *call.tensor(0).tensor, call.node().required(1, "threshold").at(0)};
  return value;
}
OnnxResults where(OperatorCall& call) {
  const OnnxPattern &condition = call.value(0).pattern, &other = call.value(2).pattern;
  require(condition.name == "greater" && other.name == "softplus" && condition.of == other.of &&
              call.value(1).tensor == other.of && condition.number >= 20,
          "a choice between tensors", "only that of a softplus is supported");
  return call.value(2);
}

}  // namespace

OnnxOperatorTable arithmetic_operators() {
  return {{"Add", add_tensors},
          {"Div", divide},
          {"Dropout", dropout},
          {"Greater", greater},
          {"Less", less},
          {"Max", extreme<BinaryKind::kMaximum>},
          {"Min", extreme<BinaryKind::kMinimum>},
          {"Mul", multiply},
          {"RandomUniformLike", random_numbers},
          {"Sub", subtract},
          {"Where", where}};
}

}  // namespace halomesh
