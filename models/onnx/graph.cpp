// SPDX-License-Identifier: Apache-2.0
// The network of a graph, step by step: see graph.hpp.
#include "models/onnx/graph.hpp"

#include <algorithm>
#include <cctype>
#include <span>
#include <utility>

#include "error.hpp"
#include "joined.hpp"
#include "src/nn/layers/cast.hpp"
#include "src/nn/layers/concat.hpp"
#include "src/nn/layers/elementwise.hpp"
#include "src/nn/layers/resize.hpp"

namespace halomesh {
namespace {

/// A name for checkpoints and --cuts, where slashes, colons and commas have a meaning.
std::string layer_word(std::string name) {
  for (const std::string_view end : {".weight", ".bias", "_weight", "_bias"})
    if (name.ends_with(end)) name.resize(name.size() - end.size());
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-') c = '_';
  if (name.empty() || name.front() == '.') name.insert(0, "layer");
  return name;
}

std::int64_t parameter_count(const OnnxStep& step, std::span<const Shape> src) {
  std::int64_t count = 0;
  for (const ParameterGeometry& each : step.layer->parameters(src))
    if (each.moving_average == 0) count += each.volume();
  return count;
}

ImportedParameter imported_parameter(const OnnxFile& file, const std::string& layer,
                                     std::size_t number, const OnnxConstant& constant) {
  return {layer,
          number,
          file.name_of(*constant.tensor()),
          constant.dims(),
          constant.strides(),
          constant.offset(),
          constant.reader().node,
          constant.reader().input};
}

}  // namespace

OnnxValue OnnxGraph::set_input(const Shape& input, std::int64_t batch) {
  input_ = input;
  batch_ = batch;
  return value_of(0);
}

OnnxValue OnnxGraph::value_of(std::size_t tensor) const {
  const Shape s = shape(tensor);
  OnnxValue value;
  value.tensor = tensor;
  value.dims = {batch_, s.c, s.d, s.h, s.w};
  return value;
}

std::size_t OnnxGraph::add(OnnxStep step) {
  std::vector<Shape> src;
  std::vector<DataType> types;
  for (const std::size_t input : step.inputs) {
    src.push_back(shape(input));
    types.push_back(type(input));
  }
  if (step.make) step.layer = step.make(step.variant);
  step.shape = step.layer->dst_shape(src);
  step.type = step.layer->dst_type(types);
  const Shape& s = step.shape;
  const double elements = static_cast<double>(s.c) * static_cast<double>(s.d) *
                          static_cast<double>(s.h) * static_cast<double>(s.w);
  require(elements <= 0x1p40, text("a tensor of {}", s), "use smaller extents");
  const auto wanted = step.layer->parameters(src);
  step.parameters.resize(wanted.size());
  for (std::size_t p = 0; p < wanted.size(); ++p)
    require(!step.parameters[p] || step.parameters[p]->volume() == wanted[p].volume(),
            text("its {} has {} elements instead of {}", wanted[p].name,
                 step.parameters[p] ? step.parameters[p]->volume() : 0, wanted[p].volume()),
            "export the network again");
  steps_.push_back(std::move(step));
  return steps_.size();
}

void OnnxGraph::change(OnnxStep& step, const OnnxVariant& variant) {
  step.variant = variant;
  step.layer = step.make(variant);
  std::vector<DataType> types;
  for (const std::size_t input : step.inputs) types.push_back(type(input));
  step.type = step.layer->dst_type(types);
}

std::string OnnxGraph::unique_name(const std::string& wanted) {
  std::string name = wanted;
  for (int n = 2; !names_.insert(name).second; ++n) name = fmt::format("{}_{}", wanted, n);
  return name;
}

/// An exporter that folds batch norms into convolutions names the biases after the weights.
void OnnxGraph::note_folded_norms() {
  std::int64_t folded = 0;
  for (const OnnxStep& step : steps_)
    if (step.parameters.size() == 2 && step.parameters[0] && step.parameters[1])
      folded += file_.name_of(*step.parameters[1]->tensor()) ==
                        file_.name_of(*step.parameters[0]->tensor()) + "_bias"
                    ? 1
                    : 0;
  if (folded > 0)
    note(
        fmt::format("{} convolutions have biases that an exporter made of batch norms: export with "
                    "optimize=False to train these",
                    folded));
}

std::size_t OnnxGraph::in_type(std::size_t tensor, DataType wanted) {
  if (type(tensor) == wanted) return tensor;
  OnnxStep step;
  step.name = fmt::format("cast_{}", tensor);
  step.operators = "Cast";
  step.layer = std::make_unique<Cast>(wanted);
  step.inputs = {tensor};
  return add(std::move(step));
}

/// A layer that nothing reads writes fp32 itself where it can.
std::size_t OnnxGraph::in_fp32(std::size_t tensor) {
  const auto reads = [&](const OnnxStep& step) {
    return std::find(step.inputs.begin(), step.inputs.end(), tensor) != step.inputs.end();
  };
  if (OnnxStep& last = steps_[tensor - 1]; last.type != DataType::kFloat32 && last.make &&
                                           std::none_of(steps_.begin(), steps_.end(), reads)) {
    OnnxVariant variant = last.variant;
    variant.writes_fp32 = true;
    change(last, variant);
  }
  return in_type(tensor, DataType::kFloat32);
}

std::size_t OnnxGraph::class_scores(std::size_t output) {
  const std::size_t score = in_fp32(output);
  if (!settings_.ends_in_scores || shape(score).c > 1 || shape(score).spatial() == Spatial{1, 1, 1})
    return score;
  note("the only channel of the output is the score of class 1, that of class 0 is 0");
  OnnxStep background, both;
  background.name = "background";
  background.layer = std::make_unique<Elementwise>(ElementFunction::linear(0, 0));
  background.inputs = {score};
  both.name = "scores";
  both.layer = std::make_unique<Concat>();
  both.inputs = {add(std::move(background)), score};
  return add(std::move(both));
}

std::size_t OnnxGraph::joined_outputs(const std::vector<std::size_t>& outputs) {
  OnnxStep joined;
  for (const std::size_t output : outputs) {
    joined.inputs.push_back(in_fp32(output));
    if (shape(output).spatial() == shape(outputs.front()).spatial()) continue;
    OnnxStep step;
    step.name = fmt::format("output_{}", joined.inputs.size());
    step.operators = "(repeated)";
    step.layer =
        std::make_unique<Resize>(ResizeOptions{.extents = shape(outputs.front()).spatial(),
                                               .mode = ResizeMode::kNearest,
                                               .coordinates = ResizeCoordinates::kAsymmetric,
                                               .rounding = ResizeRounding::kFloor});
    step.inputs = {joined.inputs.back()};
    joined.inputs.back() = add(std::move(step));
  }
  if (outputs.size() == 1) return joined.inputs.front();
  joined.name = "outputs";
  joined.operators = "(joined)";
  joined.layer = std::make_unique<Concat>();
  return add(std::move(joined));
}

ImportedNetwork OnnxGraph::finish(std::size_t output) {
  std::vector<bool> needed(steps_.size() + 1);
  needed[output] = true;
  for (std::size_t i = steps_.size(); i > 0; --i)
    for (const std::size_t input : steps_[i - 1].inputs)
      if (needed[i]) needed[input] = true;
  note_folded_norms();
  ImportedNetwork network{Model(input_), {}, {}, std::move(notes_), {}, {}, {}, {}};
  std::vector<std::string> names(steps_.size());
  for (std::size_t i = steps_.size(); i > 0; --i) {
    OnnxStep& step = steps_[i - 1];
    if (!needed[i] || step.serves > 0) continue;
    std::string name = step.name;
    for (const auto& parameter : step.parameters)
      if (parameter) {
        name = file_.name_of(*parameter->tensor());
        break;
      }
    names[i - 1] = layer_word(name);
  }
  std::vector<std::size_t> numbers(steps_.size() + 1);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    OnnxStep& step = steps_[i];
    if (!needed[i + 1]) continue;
    if (step.serves > 0) names[i] = names[i + step.serves] + step.suffix;
    const std::string name = unique_name(names[i]);
    std::vector<std::size_t> inputs;
    std::vector<Shape> src;
    for (const std::size_t input : step.inputs) {
      inputs.push_back(numbers[input]);
      src.push_back(shape(input));
    }
    network.layers.push_back({name, step.operators, step.shape, parameter_count(step, src)});
    for (std::size_t p = 0; p < step.parameters.size(); ++p)
      if (step.parameters[p])
        network.parameters.push_back(imported_parameter(file_, name, p, *step.parameters[p]));
    numbers[i + 1] = network.model.add(name, std::move(step.layer), inputs);
  }
  return network;
}

const OnnxValue& OperatorCall::value(std::size_t input) const {
  require(input < inputs_.size() && inputs_[input].is_known(), text("input {} is missing", input),
          "export the network again");
  return inputs_[input];
}

const OnnxValue& OperatorCall::tensor(std::size_t input) const {
  const OnnxValue& found = value(input);
  require(found.tensor.has_value(),
          text("input {} is {}", input, found.constant ? "a constant" : found.pattern.name),
          "it must depend on the sample");
  return found;
}

const OnnxValue& OperatorCall::plain(std::size_t input) const {
  const OnnxValue& found = tensor(input);
  require(found.form == OnnxForm::kPlain,
          text("input {} has the dimensions {}", input, joined(found.dims, "x")),
          "only tensors of N,C,D,H,W are supported here");
  return found;
}

std::optional<OnnxConstant> OperatorCall::parameter(std::size_t input, const OnnxDims& dims) const {
  if (!node_.has(input)) return {};
  const OnnxConstant& constant = node_.required(input, "parameter");
  // Exporters write "no bias" as zeros that they compute or expand, at times to a wrong shape.
  const bool expanded = std::all_of(constant.strides().begin(), constant.strides().end(),
                                    [](auto stride) { return stride == 0; });
  if ((constant.tensor() == nullptr || (expanded && constant.volume() > 1)) && constant.is_all(0))
    return {};
  require(constant.tensor() != nullptr, text("parameter {} is computed", input),
          "export it with the values themselves");
  require(constant.volume() == OnnxConstant::volume_of(dims),
          text("parameter {} has the dimensions {} instead of {}", input,
               joined(constant.dims(), "x"), joined(dims, "x")),
          "export the network again");
  auto view = constant.reshaped(dims);
  require(view.has_value(), text("parameter {} is a view that is not supported", input),
          "export it with the values themselves");
  return view;
}

OnnxValue OperatorCall::in_form_of(std::size_t input, std::size_t tensor) const {
  const OnnxValue& like = this->tensor(input);
  OnnxValue value = graph_.value_of(tensor);
  if (like.form == OnnxForm::kPlain) return value;
  require(graph_.shape(tensor) == graph_.shape(*like.tensor),
          text("a layer that changes the shape of {}", joined(like.dims, "x")),
          "only tensors of N,C,D,H,W are supported here");
  value.form = like.form;
  value.dims = like.dims;
  return value;
}

std::vector<std::size_t> OperatorCall::in_one_type(std::vector<std::size_t> tensors) {
  const auto differs = [&](std::size_t tensor) {
    return graph_.type(tensor) != graph_.type(tensors.front());
  };
  if (std::any_of(tensors.begin(), tensors.end(), differs))
    for (std::size_t& tensor : tensors)
      tensor = graph_.in_type(tensor, graph_.settings().precision);
  return tensors;
}

OnnxValue OperatorCall::add(OnnxStep step) {
  if (step.name.empty() && node_.proto().output_size() > 0) step.name = node_.proto().output(0);
  if (step.operators.empty() && step.serves == 0) step.operators = node_.proto().op_type();
  return graph_.value_of(graph_.add(std::move(step)));
}

OnnxValue OperatorCall::add(std::unique_ptr<Layer> layer, std::vector<std::size_t> inputs,
                            OnnxParameters parameters) {
  OnnxStep step;
  step.layer = std::move(layer);
  step.inputs = std::move(inputs);
  step.parameters = std::move(parameters);
  return add(std::move(step));
}

}  // namespace halomesh
