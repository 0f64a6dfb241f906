// SPDX-License-Identifier: Apache-2.0
// The network that a graph describes, step by step: what each value of the graph is, and the layers
// that compute it. Operators (operators.hpp) add to it; must not know their names.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/onnx/imported.hpp"
#include "models/onnx/node.hpp"

namespace halomesh {

/// How a value of the graph shows a tensor of the network, whose elements are the same.
enum class OnnxForm : std::uint8_t {
  kPlain,         ///< N,C,D,H,W
  kChannelsLast,  ///< N,D,H,W,C
  kGroups,        ///< N,G and the rest of the elements, as group norms are written
  kFlat           ///< N and all elements of a sample
};

/// A step of a pattern that several nodes write: a value that is neither a constant nor a tensor.
struct OnnxPattern {
  std::string name{};
  std::size_t of = 0;  ///< the tensor that the pattern began with
  double number = 0;
};

struct OnnxValue {
  std::optional<OnnxConstant> constant{};
  std::optional<std::size_t> tensor{};  ///< number of a tensor of the network
  OnnxDims dims{};
  OnnxForm form = OnnxForm::kPlain;
  OnnxPattern pattern{};
  bool shared = false;  ///< several nodes read it, or what it shows another form of

  bool is_known() const { return constant || tensor || !pattern.name.empty(); }
  std::size_t channel_axis() const { return form == OnnxForm::kChannelsLast ? dims.size() - 1 : 1; }
};

/// The parameters of a layer in its order; one without a constant keeps its initial values.
using OnnxParameters = std::vector<std::optional<OnnxConstant>>;

/// Properties that nodes behind a layer may change.
struct OnnxVariant {
  bool weight = true, bias = true, writes_fp32 = false;
  float slope = 1;  ///< that of a rectifier that the layer applies
};

/// One layer, which later nodes may still change while nothing else reads its output.
struct OnnxStep {
  /// A name where no parameter gives one, and the nodes that it computes, e.g. "Conv + Relu".
  std::string name{}, operators{};
  /// A layer that serves another one, so many steps later, has its name with this suffix.
  std::string suffix{};
  std::size_t serves = 0;
  std::unique_ptr<Layer> layer{};
  std::vector<std::size_t> inputs{};
  OnnxParameters parameters{};
  Shape shape{};
  DataType type = DataType::kFloat32;
  OnnxVariant variant{};
  /// Makes the layer with such properties; null where it has none.
  std::function<std::unique_ptr<Layer>(const OnnxVariant&)> make{};
};

/// The growing network. Tensor 0 is its input; step i writes tensor i + 1.
class OnnxGraph {
 public:
  OnnxGraph(const OnnxFile& file, const ImportSettings& settings)
      : file_(file), settings_(settings) {}

  const OnnxFile& file() const { return file_; }
  const ImportSettings& settings() const { return settings_; }
  std::vector<OnnxStep>& steps() { return steps_; }
  OnnxStep* producer(const OnnxValue& value) {
    return value.tensor && *value.tensor > 0 ? &steps_[*value.tensor - 1] : nullptr;
  }
  Shape shape(std::size_t tensor) const { return tensor == 0 ? input_ : steps_[tensor - 1].shape; }
  DataType type(std::size_t tensor) const {
    return tensor == 0 ? DataType::kFloat32 : steps_[tensor - 1].type;
  }

  OnnxValue set_input(const Shape& input, std::int64_t batch);
  void set_outputs(std::set<std::string> outputs) { outputs_ = std::move(outputs); }
  bool is_output(const std::string& value) const { return outputs_.contains(value); }
  std::int64_t batch() const { return batch_; }
  /// The value of a tensor of the network in the form N,C,D,H,W.
  OnnxValue value_of(std::size_t tensor) const;

  /// Appends a layer; throws Error where it cannot be computed. Returns its tensor.
  std::size_t add(OnnxStep step);
  /// Replaces the layer of a step by one with these properties, which keeps its shape.
  void change(OnnxStep& step, const OnnxVariant& variant);
  void note(std::string text) { notes_.push_back(std::move(text)); }

  /// A tensor in another type: itself where it has it.
  std::size_t in_type(std::size_t tensor, DataType type);
  /// An output as scores of classes, in fp32: one channel of voxels is the score of class 1, beside
  /// 0 for the background, whose softmax is the sigmoid.
  std::size_t class_scores(std::size_t output);
  /// The tensor that joins the outputs, in fp32: heads of lower levels are repeated to the extents
  /// of the first, and all follow each other in the channels.
  std::size_t joined_outputs(const std::vector<std::size_t>& outputs);

  /// The layers that tensor `output` needs, in order, as the program's own network.
  ImportedNetwork finish(std::size_t output);

 private:
  void note_folded_norms();
  std::size_t in_fp32(std::size_t tensor);
  std::string unique_name(const std::string& wanted);

  const OnnxFile& file_;
  const ImportSettings& settings_;
  Shape input_{};
  std::int64_t batch_ = 1;
  std::vector<OnnxStep> steps_;
  std::set<std::string> names_, outputs_;
  std::vector<std::string> notes_;
};

/// One node while its operator is applied: its inputs, and what it adds to the network.
class OperatorCall {
 public:
  OperatorCall(OnnxGraph& graph, const OnnxNode& node, std::vector<OnnxValue> inputs)
      : graph_(graph), node_(node), inputs_(std::move(inputs)) {}

  OnnxGraph& graph() { return graph_; }
  const OnnxNode& node() const { return node_; }
  std::size_t inputs() const { return inputs_.size(); }
  const OnnxValue& value(std::size_t input) const;
  /// Throws Error unless the input is a tensor of the network (of this form).
  const OnnxValue& tensor(std::size_t input) const;
  const OnnxValue& plain(std::size_t input) const;
  Shape shape(std::size_t input) const { return graph_.shape(*tensor(input).tensor); }
  DataType type(std::size_t input) const { return graph_.type(*tensor(input).tensor); }
  /// The constant at this input as a parameter with these dimensions; none if the input is absent.
  std::optional<OnnxConstant> parameter(std::size_t input, const OnnxDims& dims) const;

  /// Adds a layer that reads the tensors of these inputs; its output has the form of `like`.
  OnnxValue add(std::unique_ptr<Layer> layer, std::vector<std::size_t> inputs,
                OnnxParameters parameters = {});
  OnnxValue add(OnnxStep step);
  /// Adds a layer that reads the first input; its output is N,C,D,H,W.
  OnnxValue add(std::unique_ptr<Layer> layer) { return add(std::move(layer), {*tensor(0).tensor}); }
  /// These tensors, cast to the precision of layers where their types differ.
  std::vector<std::size_t> in_one_type(std::vector<std::size_t> tensors);
  /// The value of a tensor in the form of this input.
  OnnxValue in_form_of(std::size_t input, std::size_t tensor) const;

 private:
  OnnxGraph& graph_;
  const OnnxNode& node_;
  std::vector<OnnxValue> inputs_;
};

/// The outputs of a node; a value is the only one.
class OnnxResults : public std::vector<OnnxValue> {
 public:
  OnnxResults() = default;
  OnnxResults(OnnxValue only)  // NOLINT(google-explicit-constructor): loses nothing
  {
    push_back(std::move(only));
  }
};

/// Adds what a node of this operator computes; null for an operator that is not supported.
using OnnxOperator = OnnxResults (*)(OperatorCall&);
OnnxOperator onnx_operator(const std::string& name);

}  // namespace halomesh
