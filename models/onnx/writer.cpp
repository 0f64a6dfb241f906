// SPDX-License-Identifier: Apache-2.0
// Writes a network's layers as nodes: see writer.hpp. A kind of layer is one function, which
// write_layer() lists.
#include "models/onnx/writer.hpp"

#include <utility>
#include <vector>

#include "error.hpp"
#include "models/onnx/file.hpp"
#include "src/nn/kernels/convolution_block_options.hpp"
#include "src/nn/kernels/moments.hpp"
#include "src/nn/layers/add.hpp"
#include "src/nn/layers/affine.hpp"
#include "src/nn/layers/concat.hpp"
#include "src/nn/layers/convolution.hpp"
#include "src/nn/layers/dense.hpp"
#include "src/nn/layers/depthwise_convolution.hpp"
#include "src/nn/layers/dropout.hpp"
#include "src/nn/layers/elementwise.hpp"
#include "src/nn/layers/global_average.hpp"
#include "src/nn/layers/normalize.hpp"
#include "src/nn/layers/pooling.hpp"
#include "src/nn/layers/sample_average.hpp"
#include "src/nn/layers/tile.hpp"
#include "src/nn/layers/transposed_convolution.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kWrittenOpset = 21, kWrittenIrVersion = 10;

/// The file that grows, and the layer that is being written.
class FileWriter {
 public:
  FileWriter(const Model& model, const ParameterValues& values) : source_(model), values_(values) {
    file_.set_ir_version(kWrittenIrVersion);
    file_.set_producer_name("halomesh");
    file_.add_opset_import()->set_version(kWrittenOpset);
    file_.mutable_graph()->set_name("network");
    shapes_ = {model.input()};
    names_ = {"input"};
    flat_ = {false};
    set_value(*file_.mutable_graph()->add_input(), "input", model.input(), false);
    if (model.input_type() == DataType::kInt16) write_logarithms();
  }

  std::string bytes() {
    for (layer_ = 0; layer_ < source_.layers().size(); ++layer_) write_layer();
    set_value(*file_.mutable_graph()->add_output(), names_.back(), shapes_.back(), flat_.back());
    std::string out;
    require(file_.SerializeToString(&out), "a network's file would have 2 GB or more");
    return out;
  }

  const ModelLayer& layer() const { return source_.layers()[layer_]; }
  std::size_t inputs() const { return layer().inputs.size(); }
  const Shape& src(std::size_t input = 0) const { return shapes_[layer().inputs[input]]; }
  const std::string& name(std::size_t input = 0) const { return names_[layer().inputs[input]]; }
  bool is_flat() const { return flat_[layer().inputs[0]]; }

  /// Adds a node; its output, by default that of the layer, is the current value.
  onnx::Node& node(const std::string& type, const std::vector<std::string>& inputs,
                   const std::string& output = {}) {
    onnx::Node& node = *file_.mutable_graph()->add_node();
    node.set_op_type(type);
    value_ = output.empty() ? layer().name : layer().name + output;
    node.set_name(value_ + "/" + type);
    for (const std::string& input : inputs) node.add_input(input);
    value_ += "/y";
    node.add_output(value_);
    return node;
  }
  const std::string& value() const { return value_; }
  /// Lets the layer's output be this value: of two axes where it is flat.
  void set_output(const std::string& value, bool flat = false) {
    outputs_ = value;
    is_flat_ = flat;
  }

  std::string tensor(const std::string& suffix, const std::vector<std::int64_t>& dims,
                     const std::vector<float>& values) {
    onnx::TensorProto& tensor = *file_.mutable_graph()->add_initializer();
    tensor.set_name(layer().name + suffix);
    set_onnx_values(tensor, dims, values);
    return tensor.name();
  }
  std::string integers(const std::string& suffix, const std::vector<std::int64_t>& values) {
    onnx::TensorProto& tensor = *file_.mutable_graph()->add_initializer();
    tensor.set_name(layer().name + suffix);
    tensor.set_data_type(kOnnxInt64);
    tensor.add_dims(std::ssize(values));
    tensor.set_raw_data(values.data(), values.size() * sizeof(std::int64_t));
    return tensor.name();
  }
  /// Parameter number `number` as a tensor with these dimensions; empty if the layer has none.
  std::string parameter(std::size_t number, const std::vector<std::int64_t>& dims) {
    const std::vector<ParameterGeometry> all = parameters();
    if (number >= all.size()) return {};
    const std::span<const float> held = values_(layer_, number);
    std::string suffix = "." + all[number].name;
    if (all[number].name == "running_variance") suffix = ".running_var";
    return tensor(suffix, dims, {held.begin(), held.end()});
  }
  [[noreturn]] void refuse() const {
    throw Error(fmt::format("layer {} cannot be written to an ONNX file", layer().name),
                "export the run of another network");
  }
  std::span<const float> values(std::size_t number) const { return values_(layer_, number); }
  std::vector<ParameterGeometry> parameters() const {
    std::vector<Shape> src;
    for (const std::size_t input : layer().inputs) src.push_back(shapes_[input]);
    return layer().layer->parameters(src);
  }

 private:
  static void set_value(onnx::ValueInfo& value, const std::string& name, const Shape& shape,
                        bool flat) {
    value.set_name(name);
    auto& type = *value.mutable_type()->mutable_tensor_type();
    type.set_elem_type(kOnnxFloat);
    type.mutable_shape()->add_dim()->set_dim_param("N");
    std::vector<std::int64_t> extents{shape.c, shape.d, shape.h, shape.w};
    if (flat) extents.resize(1);
    for (const std::int64_t extent : extents)
      type.mutable_shape()->add_dim()->set_dim_value(extent);
  }

  onnx::Node& input_node(const std::string& type, const std::string& output,
                         const std::vector<float>& operand) {
    onnx::TensorProto& tensor = *file_.mutable_graph()->add_initializer();
    tensor.set_name(output + "/operand");
    if (operand.size() == 1)
      set_onnx_values(tensor, {}, operand);
    else
      set_onnx_values(tensor, {std::ssize(operand), 1, 1, 1}, operand);
    onnx::Node& node = *file_.mutable_graph()->add_node();
    node.set_op_type(type);
    node.add_input(names_[0]);
    node.add_input(tensor.name());
    node.add_output(output);
    names_[0] = output;
    return node;
  }
  /// Counts are read as their logarithms, standardized where the network says so.
  void write_logarithms() {
    input_node("Add", "input_plus_1", {1});
    onnx::Node& log = *file_.mutable_graph()->add_node();
    log.set_op_type("Log");
    log.add_input(names_[0]);
    log.add_output("logarithm");
    names_[0] = "logarithm";
    std::vector<float> means, inverses;
    for (const ChannelScale& scale : source_.count_scales()) {
      means.push_back(static_cast<float>(scale.mean));
      inverses.push_back(static_cast<float>(1 / scale.deviation));
    }
    if (means.empty()) return;
    input_node("Sub", "centred", means);
    input_node("Mul", "standardized", inverses);
  }

  void write_layer();

  const Model& source_;
  const ParameterValues& values_;
  onnx::Model file_;
  std::size_t layer_ = 0;
  std::vector<Shape> shapes_;
  std::vector<std::string> names_;
  std::vector<bool> flat_;
  std::string value_, outputs_;
  bool is_flat_ = false;
};

void add_written(onnx::Node& node, const char* name, std::int64_t value) {
  onnx::Attribute& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(2);
  attribute.set_i(value);
}
void add_written(onnx::Node& node, const char* name, float value) {
  onnx::Attribute& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(1);
  attribute.set_f(value);
}
void add_written(onnx::Node& node, const char* name, const std::vector<std::int64_t>& values) {
  onnx::Attribute& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(7);
  for (const std::int64_t value : values) attribute.add_ints(value);
}

/// The window of a convolution or pooling, with its padding on this input.
void add_window(onnx::Node& node, const WindowOptions& options, const Spatial& src) {
  const Window window = options.resolve(src);
  std::vector<std::int64_t> kernel, stride, dilation, pads(6);
  for (std::size_t a = 0; a < 3; ++a) {
    kernel.push_back(window[a].kernel);
    stride.push_back(window[a].stride);
    dilation.push_back(window[a].dilation);
    pads[a] = window[a].pad_before;
    pads[a + 3] = window[a].pad_after;
  }
  add_written(node, "kernel_shape", kernel);
  add_written(node, "strides", stride);
  add_written(node, "dilations", dilation);
  add_written(node, "pads", pads);
}

void write_rectifier(FileWriter& to, float slope) {
  if (slope == 1) return;
  if (slope == 0)
    to.node("Relu", {to.value()}, "/act");
  else
    add_written(to.node("LeakyRelu", {to.value()}, "/act"), "alpha", slope);
}

/// A convolution with its weight and, if it has one, its bias.
onnx::Node& write_convolution(FileWriter& to, const char* type,
                              const std::vector<std::int64_t>& weight) {
  std::vector<std::string> inputs{to.name(), to.parameter(0, weight)};
  if (const auto all = to.parameters(); all.size() > 1)
    inputs.push_back(to.parameter(1, {all[1].volume()}));
  return to.node(type, inputs);
}

void write_block(FileWriter& to, const BlockLayer& block) {
  const ConvolutionBlockOptions& o = block.options();
  const Spatial& k = o.window.kernel;
  add_window(write_convolution(to, "Conv", {o.filters, to.src().c, k[0], k[1], k[2]}), o.window,
             to.src().spatial());
  if (o.pool != Spatial{1, 1, 1}) {
    onnx::Node& pool = to.node("MaxPool", {to.value()}, "/pool");
    const std::vector<std::int64_t> window(o.pool.begin(), o.pool.end());
    add_written(pool, "kernel_shape", window);
    add_written(pool, "strides", window);
  }
  write_rectifier(to, o.slope);
}

void write_plain_convolution(FileWriter& to, const Convolution& convolution) {
  const ConvolutionOptions& o = convolution.options();
  const Spatial& k = o.window.kernel;
  onnx::Node& node =
      write_convolution(to, "Conv", {o.filters, to.src().c / o.groups, k[0], k[1], k[2]});
  add_window(node, o.window, to.src().spatial());
  add_written(node, "group", o.groups);
}

void write_transposed(FileWriter& to, const TransposedConvolution& transposed) {
  const TransposedConvolutionOptions& o = transposed.options();
  require(o.window.padding != PaddingKind::kSame,
          "a transposed convolution whose padding depends on its output");
  const Spatial& k = o.window.kernel;
  onnx::Node& node =
      write_convolution(to, "ConvTranspose", {to.src().c, o.filters, k[0], k[1], k[2]});
  add_window(node, o.window, to.src().spatial());
  add_written(node, "output_padding",
              std::vector<std::int64_t>(o.output_padding.begin(), o.output_padding.end()));
}

void write_depthwise(FileWriter& to, const DepthwiseConvolution& depthwise) {
  if (depthwise.options().transposed) to.refuse();
  const DepthwiseOptions& o = depthwise.options();
  const Spatial& k = o.window.kernel;
  onnx::Node& node = write_convolution(to, "Conv", {to.src().c, 1, k[0], k[1], k[2]});
  add_window(node, o.window, to.src().spatial());
  add_written(node, "group", to.src().c);
}

void write_max_pooling(FileWriter& to, const MaxPooling& pooling) {
  add_window(to.node("MaxPool", {to.name()}), pooling.window(), to.src().spatial());
}

/// Moments are part of the norm that reads them.
template <class MomentLayer>
void write_nothing(FileWriter& to, const MomentLayer&) {
  to.set_output(to.name());
}

void write_norm(FileWriter& to, const Normalize& norm) {
  const std::int64_t channels = to.src().c, groups = to.src(1).c / 2;
  require(to.parameters().size() >= 2, "a norm without scale and offset");
  std::vector<std::string> inputs{to.name()};
  for (std::size_t p = 0; p < to.parameters().size(); ++p)
    inputs.push_back(to.parameter(p, {channels}));
  const bool is_batch = norm.samples() > 0, is_instance = groups == channels;
  onnx::Node& node = to.node(is_batch      ? "BatchNormalization"
                             : is_instance ? "InstanceNormalization"
                                           : "GroupNormalization",
                             inputs);
  add_written(node, "epsilon", norm.epsilon());
  if (is_batch) add_written(node, "momentum", 1 - norm.momentum());
  if (!is_batch && !is_instance) add_written(node, "num_groups", groups);
  write_rectifier(to, norm.slope());
}

void write_function(FileWriter& to, const Elementwise& element) {
  using Kind = ElementFunction::Kind;
  const ElementFunction& f = element.function();
  if (f.kind == Kind::kLeakyRelu) {
    if (f.a == 0)
      to.node("Relu", {to.name()});
    else
      add_written(to.node("LeakyRelu", {to.name()}), "alpha", f.a);
  } else if (f.kind == Kind::kScaledTanh) {
    to.node("Tanh", {to.name()});
    if (f.a != 1) to.node("Mul", {to.value(), to.tensor(".scale", {}, {f.a})}, "/scaled");
  } else {
    to.refuse();
  }
  to.set_output(to.value(), to.is_flat());
}

void write_affine(FileWriter& to, const Affine&) {
  std::string value = to.name();
  for (std::size_t p = 0; p < to.parameters().size(); ++p) {
    const bool scales = to.parameters()[p].name == "weight";
    to.node(scales ? "Mul" : "Add", {value, to.parameter(p, {to.src().c, 1, 1, 1})},
            scales ? "/scaled" : "/moved");
    value = to.value();
  }
}

void write_sum(FileWriter& to, const Add&) {
  to.node("Add", {to.name(0), to.name(1)});
  for (std::size_t i = 2; i < to.inputs(); ++i)
    to.node("Add", {to.value(), to.name(i)}, "/" + std::to_string(i));
}

void write_concat(FileWriter& to, const Concat&) {
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < to.inputs(); ++i) inputs.push_back(to.name(i));
  add_written(to.node("Concat", inputs), "axis", std::int64_t{1});
}

void write_average(FileWriter& to, const GlobalAverage&) {
  to.node("GlobalAveragePool", {to.name()});
}

void write_tile(FileWriter& to, const Tile& tile) {
  const Spatial& e = tile.extents();
  to.node("Tile", {to.name(), to.integers(".repeats", {1, 1, e[0], e[1], e[2]})});
}

void write_dropout(FileWriter& to, const Dropout& dropout) {
  if (dropout.drops_channels()) to.refuse();
  to.node("Dropout",
          {to.name(), to.tensor(".ratio", {}, {static_cast<float>(dropout.probability())})});
  to.set_output(to.value(), to.is_flat());
}

/// The program has the inputs of a dense layer in the order d,h,w,c, a flattened tensor in c,d,h,w.
void write_dense(FileWriter& to, const Dense&) {
  const Shape& in = to.src();
  const std::span<const float> held = to.values(0);
  const std::int64_t outputs = std::ssize(held) / in.volume(), voxels = in.volume() / in.c;
  std::vector<float> weight(held.size());
  for (std::int64_t o = 0; o < outputs; ++o)
    for (std::int64_t v = 0; v < voxels; ++v)
      for (std::int64_t c = 0; c < in.c; ++c)
        weight[static_cast<std::size_t>((o * in.c + c) * voxels + v)] =
            held[static_cast<std::size_t>((o * voxels + v) * in.c + c)];
  std::string value = to.name();
  if (!to.is_flat()) {
    to.node("Flatten", {value}, "/flat");
    value = to.value();
  }
  add_written(to.node("Gemm", {value, to.tensor(".weight", {outputs, in.volume()}, weight),
                               to.parameter(1, {outputs})}),
              "transB", std::int64_t{1});
  to.set_output(to.value(), true);
}

/// Writes the layer by the function for its class; false if there is none.
template <class... Layers>
bool write_first(FileWriter& to, const Layer& layer,
                 void (*... write)(FileWriter&, const Layers&)) {
  const auto writes = [&]<class OwnLayer>(void (*one)(FileWriter&, const OwnLayer&)) {
    const auto* const own = dynamic_cast<const OwnLayer*>(&layer);
    if (own != nullptr) one(to, *own);
    return own != nullptr;
  };
  return (writes(write) || ...);
}

void FileWriter::write_layer() {
  outputs_.clear();
  is_flat_ = false;
  const Layer& source = *layer().layer;
  if (!write_first(*this, source, write_block, write_plain_convolution, write_transposed,
                   write_depthwise, write_max_pooling, write_nothing<Moments>,
                   write_nothing<SampleAverage>, write_norm, write_function, write_affine,
                   write_sum, write_concat, write_average, write_tile, write_dropout, write_dense))
    refuse();
  std::vector<Shape> src;
  for (const std::size_t input : layer().inputs) src.push_back(shapes_[input]);
  shapes_.push_back(source.dst_shape(src));
  names_.push_back(outputs_.empty() ? value_ : outputs_);
  flat_.push_back(is_flat_);
}

}  // namespace

std::string onnx_of(const Model& model, const ParameterValues& values) {
  return FileWriter(model, values).bytes();
}

}  // namespace halomesh
