// SPDX-License-Identifier: Apache-2.0
// Goes through the nodes of a graph and applies their operators: see imported.hpp.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "counted.hpp"
#include "error.hpp"
#include "joined.hpp"
#include "models/onnx/folding.hpp"
#include "models/onnx/graph.hpp"

namespace halomesh {
namespace {

using Outputs = std::vector<OnnxValue>;

/// The module that an exporter says a node is of: the last but one of the scopes that it lists.
std::string module_of(const onnx::Node& node) {
  for (const onnx::Entry& entry : node.metadata_props()) {
    if (entry.key() != "pkg.torch.onnx.name_scopes") continue;
    std::vector<std::string> scopes;
    for (std::size_t at = 0; (at = entry.value().find('\'', at)) != std::string::npos; ++at) {
      const std::size_t begin = at + 1;
      at = std::min(entry.value().find('\'', begin), entry.value().size());
      scopes.push_back(entry.value().substr(begin, at - begin));
    }
    if (scopes.size() > 1 && !scopes[scopes.size() - 2].empty()) return scopes[scopes.size() - 2];
  }
  return {};
}

class GraphWalk {
 public:
  GraphWalk(const OnnxFile& file, const ImportSettings& settings)
      : file_(file), graph_(file, settings), settings_(settings) {}

  ImportedNetwork run() {
    const onnx::Graph& graph = file_.model().graph();
    std::set<std::string> outputs;
    std::vector<std::string> names;
    names.reserve(static_cast<std::size_t>(graph.output_size()));
    for (const onnx::ValueInfo& output : graph.output()) {
      names.push_back(output.name());
      outputs.insert(output.name());
      ++uses_[output.name()];
    }
    require(!names.empty(), text("{} has no output", file_.title()), "export the network again");
    graph_.set_outputs(std::move(outputs));
    count_uses(graph);
    define_initializers(graph);
    define_input(graph);
    walk(graph);
    refuse_unsupported();
    Heads heads = heads_of(names);
    std::vector<std::size_t> tensors;
    for (auto& [name, head] : heads) {
      tensors.push_back(graph_.class_scores(tensor_of(name)));
      head.channels = graph_.shape(tensors.back()).c;
    }
    ImportedNetwork network = graph_.finish(graph_.joined_outputs(tensors));
    for (const auto& [name, head] : heads) {
      network.computed.push_back(name);
      network.heads.push_back(head);
    }
    network.outputs = std::move(names);
    network.origin = origin();
    return network;
  }

 private:
  void count_uses(const onnx::Graph& graph) {
    for (const onnx::Node& node : graph.node()) {
      for (const std::string& input : node.input()) ++uses_[input];
      for (const onnx::Attribute& attribute : node.attribute())
        if (attribute.has_g()) count_uses(attribute.g());
    }
    for (const onnx::ValueInfo& output : graph.output())
      if (&graph != &file_.model().graph()) ++uses_[output.name()];
  }

  void define_initializers(const onnx::Graph& graph) {
    for (const onnx::TensorProto& tensor : graph.initializer()) {
      OnnxValue value;
      value.constant = OnnxConstant::of(file_, tensor);
      value.dims = value.constant->dims();
      define(tensor.name(), std::move(value));
    }
  }

  void define_input(const onnx::Graph& graph) {
    std::vector<std::string> inputs;
    for (const onnx::ValueInfo& input : graph.input())
      if (!values_.contains(input.name())) inputs.push_back(input.name());
    if (inputs.size() != 1)
      throw UsageError(fmt::format("{} has {} inputs{}{}", file_.title(), inputs.size(),
                                   inputs.empty() ? "" : ": ", joined(inputs, ", ")),
                       "a network reads one tensor: export a module with one argument");
    own_ = input_of(graph, inputs.front());
    given_ = settings_.input;
    for (auto extent : {&Shape::c, &Shape::d, &Shape::h, &Shape::w})
      if (given_.*extent == 0) given_.*extent = own_.*extent;
    if (fixed_channels_ && given_.c != own_.c)
      throw UsageError(fmt::format("{} reads samples of {}, not of {}", file_.title(),
                                   counted(own_.c, "channel"), given_.c),
                       fmt::format("give samples of {}; in arrays, channels are the second axis",
                                   Shape{own_.c, given_.d, given_.h, given_.w}));
    define(inputs.front(), graph_.set_input(given_, batch_));
  }

  Shape input_of(const onnx::Graph& graph, const std::string& name) {
    for (const onnx::ValueInfo& input : graph.input()) {
      if (input.name() != name) continue;
      const auto& dims = input.type().tensor_type().shape().dim();
      require(dims.size() == 5,
              text("{}: input {} has {} dimensions", file_.title(), name, dims.size()),
              "3-D networks read N,C,D,H,W");
      OnnxDims extents;
      for (const onnx::Dimension& dim : dims) {
        require(dim.dim_value() >= 0 && dim.dim_value() <= 65536,
                text("{}: input {} has an extent of {}", file_.title(), name, dim.dim_value()),
                "export it with the extents of a sample");
        extents.push_back(std::max<std::int64_t>(dim.dim_value(), 1));
      }
      batch_ = extents[0];
      fixed_channels_ = dims[1].dim_value() > 0;
      return {extents[1], extents[2], extents[3], extents[4]};
    }
    return {};
  }

  void define(const std::string& name, OnnxValue value) {
    if (name.empty()) return;
    value.shared = value.shared || uses_[name] > 1;
    require(values_.emplace(name, std::move(value)).second,
            text("{}: two nodes compute {}", file_.title(), name), "export the network again");
  }

  void walk(const onnx::Graph& graph) {
    for (const onnx::Node& node : graph.node()) {
      const Outputs outputs = apply(node);
      for (int i = 0; i < node.output_size(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        define(node.output(i), at < outputs.size() ? outputs[at] : OnnxValue{});
      }
    }
  }

  /// The outputs of a node; empty if it, or something before it, is not supported.
  Outputs apply(const onnx::Node& node) {
    std::vector<OnnxValue> inputs;
    std::vector<const OnnxConstant*> constants;
    bool known = true, folds = true;
    for (const std::string& name : node.input()) {
      const auto found = values_.find(name);
      if (found == values_.end() && !name.empty()) {
        refuse(node, "its input " + name + " is not computed before it");
        return {};
      }
      inputs.push_back(found == values_.end() ? OnnxValue{} : found->second);
      if (inputs.back().constant && node.output_size() > 0)
        inputs.back().constant->set_reader({node.output(0), inputs.size() - 1});
      known = known && (name.empty() || inputs.back().is_known());
      folds = folds && (name.empty() || inputs.back().constant);
    }
    constants.reserve(inputs.size());
    for (const OnnxValue& input : inputs)
      constants.push_back(input.constant ? &*input.constant : nullptr);
    const bool own = node.domain().empty() || node.domain() == "ai.onnx";
    const OnnxOperator apply_operator = own ? onnx_operator(node.op_type()) : nullptr;
    const OnnxNode call(file_, node, std::move(constants));
    try {
      if (own && known && folds)
        if (const std::vector<OnnxConstant> folded = fold_onnx(call); !folded.empty())
          return as_values(folded);
      if (own && known && node.op_type() == "If") return branch(call);
      if (apply_operator == nullptr) {
        refuse(node, "this operator is not supported");
      } else if (known) {
        OperatorCall operation(graph_, call, inputs);
        return apply_operator(operation);
      }
    } catch (const Error& error) {
      refuse(node, error.hint().empty() ? error.what()
                                        : fmt::format("{} ({})", error.what(), error.hint()));
    } catch (const std::bad_optional_access&) {
      refuse(node, "an input that it needs is missing");
    }
    return {};
  }

  static Outputs as_values(const std::vector<OnnxConstant>& constants) {
    Outputs values;
    for (const OnnxConstant& constant : constants) {
      values.emplace_back();
      values.back().dims = constant.dims();
      values.back().constant = constant;
    }
    return values;
  }

  /// A condition on constants has one branch.
  Outputs branch(const OnnxNode& node) {
    const bool taken = node.required(0, "condition").at(0) != 0;
    const onnx::Attribute* const body = node.attribute(taken ? "then_branch" : "else_branch");
    require(body != nullptr && body->has_g(), "it lacks a branch", "export the network again");
    define_initializers(body->g());
    walk(body->g());
    Outputs outputs;
    for (const onnx::ValueInfo& output : body->g().output()) {
      const auto found = values_.find(output.name());
      outputs.push_back(found == values_.end() ? OnnxValue{} : found->second);
    }
    return outputs;
  }

  /// The tensor of an output. Throws Error for one that does not depend on the sample.
  std::size_t tensor_of(const std::string& output) const {
    const auto found = values_.find(output);
    const bool depends = found != values_.end() && found->second.tensor.value_or(0) > 0;
    require(depends, text("{}: output {} is computed from no sample", file_.title(), output),
            "choose another with --output");
    return *found->second.tensor;
  }

  using Heads = std::vector<std::pair<std::string, OutputHead>>;

  /// Which of these outputs are computed. Throws UsageError for outputs that cannot be.
  Heads heads_of(const std::vector<std::string>& names) const {
    const std::string first = settings_.output.empty() ? names.front() : settings_.output;
    if (std::find(names.begin(), names.end(), first) == names.end())
      throw UsageError(fmt::format("--output {}: {} has no such output", first, file_.title()),
                       fmt::format("give one of {}", joined(names, ", ")));
    const Shape whole = graph_.shape(tensor_of(first));
    if (!settings_.weights || !settings_.output.empty())
      return {{first, OutputHead{whole.c, {1, 1, 1}, 1}}};
    std::vector<double> weights = *settings_.weights;
    for (std::size_t k = 0; weights.size() < names.size() && settings_.weights->empty(); ++k)
      weights.push_back(k > 0 && (k + 1 == names.size() || !is_level(names[k], whole))
                            ? 0
                            : std::ldexp(1.0, -static_cast<int>(k)));
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    if (weights.size() != names.size() || !(sum > 0) || weights.front() == 0)
      throw UsageError(
          fmt::format("--output-weights {}: {} has {}: {}", joined(weights, ","), file_.title(),
                      counted(std::ssize(names), "output"), joined(names, ", ")),
          "give a weight for each, more than 0 for the first");
    Heads heads;
    for (std::size_t k = 0; k < names.size(); ++k) {
      if (weights[k] == 0) continue;
      if (k > 0 && !is_level(names[k], whole))
        throw UsageError(
            fmt::format("--output-weights: output {} is no level of {}", names[k], first),
            "give it a weight of 0: levels have as many classes as the first output, "
            "and extents that divide its extents");
      const Shape level = graph_.shape(tensor_of(names[k]));
      heads.push_back(
          {names[k], OutputHead{level.c,
                                {whole.d / level.d, whole.h / level.h, whole.w / level.w},
                                weights[k] / sum}});
    }
    return heads;
  }

  bool is_level(const std::string& output, const Shape& whole) const {
    const Shape level = graph_.shape(tensor_of(output));
    return whole.spatial() != Spatial{1, 1, 1} && level.c == whole.c && whole.d % level.d == 0 &&
           whole.h % level.h == 0 && whole.w % level.w == 0;
  }

  void refuse(const onnx::Node& node, const std::string& why) {
    const std::string module = module_of(node);
    const std::string domain = node.domain().empty() ? "" : node.domain() + ':';
    refused_.push_back(fmt::format("  {}{} {}{}: {}", domain, node.op_type(),
                                   node.name().empty() ? "without a name" : node.name(),
                                   module.empty() ? "" : " in " + module, why));
  }

  std::string origin() const {
    const onnx::Model& model = file_.model();
    return fmt::format("opset {}, written by {} {}", file_.opset(),
                       model.producer_name().empty() ? "an unknown program" : model.producer_name(),
                       model.producer_version());
  }

  void refuse_unsupported() const {
    if (refused_.empty()) return;
    const bool resized = given_ != own_;
    throw UsageError(
        fmt::format("{}: {} of {} nodes {} not supported{} ({})\n{}", file_.title(),
                    refused_.size(), file_.model().graph().node_size(),
                    refused_.size() == 1 ? "is" : "are",
                    resized ? fmt::format(" for samples of {} instead of {}", given_, own_) : "",
                    origin(), joined(refused_, "\n")),
        resized ? fmt::format("give samples of {}, or export the network for other extents", own_)
                : "replace these modules and export the network again; docs/own-network.md lists "
                  "what is supported");
  }

  const OnnxFile& file_;
  OnnxGraph graph_;
  const ImportSettings& settings_;
  std::int64_t batch_ = 1;
  Shape own_, given_;  // samples of the file, and those that the network is made for
  bool fixed_channels_ = false;
  std::map<std::string, OnnxValue> values_;
  std::map<std::string, int> uses_;
  std::vector<std::string> refused_;
};

/// The place in its tensor of element `index` of a parameter.
std::size_t place_of(const ImportedParameter& parameter, std::int64_t index) {
  std::int64_t at = parameter.offset;
  for (std::size_t a = parameter.dims.size(); a-- > 0; index /= parameter.dims[a])
    at += index % parameter.dims[a] * parameter.strides[a];
  return static_cast<std::size_t>(at);
}

}  // namespace

ImportedNetwork import_onnx(const std::string& source, const ImportSettings& settings) {
  const OnnxFile file = OnnxFile::read(source);
  return GraphWalk(file, settings).run();
}

ImportedNetwork import_onnx(const std::string& source) {
  ImportSettings settings;
  settings.ends_in_scores = settings.ends_in_softmax = settings.ends_in_sigmoid = true;
  return import_onnx(source, settings);
}

std::string embedded_graph(const std::string& source) {
  const ImportedNetwork network = import_onnx(source);
  std::vector<std::string> names;
  for (const ImportedParameter& parameter : network.parameters) names.push_back(parameter.tensor);
  return OnnxFile::read(source).embedded(names);
}

std::vector<std::vector<float>> onnx_values(const std::string& source,
                                            const std::vector<ImportedParameter>& parameters) {
  OnnxFile file = OnnxFile::read(source);
  std::vector<std::vector<float>> all;
  for (const ImportedParameter& parameter : parameters) {
    const onnx::TensorProto* const tensor = file.find(parameter.tensor);
    require(tensor != nullptr && !OnnxFile::is_empty(*tensor),
            text("{} has no values of {}", file.title(), parameter.tensor),
            "its values are in the checkpoint alone");
    const std::vector<float> whole = file.values<float>(*tensor);
    std::vector<float>& values = all.emplace_back();
    for (std::int64_t i = 0, n = OnnxConstant::volume_of(parameter.dims); i < n; ++i)
      values.push_back(whole.at(place_of(parameter, i)));
  }
  return all;
}

std::string onnx_with_values(const std::string& source, const Shape& input,
                             const std::vector<ImportedParameter>& parameters,
                             const std::vector<std::vector<float>>& values) {
  OnnxFile file = OnnxFile::read(source);
  file.set_input(input);
  std::map<std::string, int> uses;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ImportedParameter& parameter = parameters[i];
    onnx::TensorProto* tensor = file.find(parameter.tensor);
    require(tensor != nullptr, text("{} has no tensor {}", file.title(), parameter.tensor));
    const OnnxDims dims(tensor->dims().begin(), tensor->dims().end());
    // Each use of a tensor that an exporter merged has values of its own.
    if (const int use = ++uses[parameter.tensor]; use > 1)
      tensor = &file.separate(parameter.tensor, fmt::format("{}_{}", parameter.tensor, use),
                              parameter.reader, parameter.input);
    std::vector<float> whole(static_cast<std::size_t>(OnnxConstant::volume_of(dims)));
    for (std::int64_t k = 0; k < std::ssize(values[i]); ++k)
      whole.at(place_of(parameter, k)) = values[i][static_cast<std::size_t>(k)];
    set_onnx_values(*tensor, dims, whole);
  }
  return file.bytes();
}

}  // namespace halomesh
