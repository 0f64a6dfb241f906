// SPDX-License-Identifier: Apache-2.0
// Reading and writing of ONNX files: see file.hpp.
#include "models/onnx/file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "error.hpp"

namespace halomesh {
namespace {

constexpr std::string_view kEmbedded = "onnx:";
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
constexpr int kMostNodes = 100'000;
constexpr const char* kDamagedHint = "export the network again, or copy the file again";

static_assert(std::endian::native == std::endian::little);  // as the bytes of the file

/// 6 bits a character, so that a graph is a text wherever settings are.
constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string to_digits(std::string_view bytes) {
  std::string digits;
  std::uint32_t bits = 0;
  int count = 0;
  const auto put = [&] { digits += kDigits[(bits >> (count -= 6)) & 63U]; };
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    count += 8;
    while (count >= 6) put();
  }
  if (count > 0) {
    bits <<= 6 - count;
    count = 6;
    put();
  }
  return digits;
}

std::string from_digits(std::string_view digits) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char digit : digits) {
    const std::size_t value = kDigits.find(digit);
    require(value != std::string_view::npos, "an embedded graph has a character that is no digit",
            "use the checkpoint as it was written");
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    if ((count += 6) >= 8) bytes += static_cast<char>(bits >> (count -= 8) & 255U);
  }
  return bytes;
}

template <class Named>
std::string key_of(const Named& named, const std::string& type) {
  return named.domain() + ':' + type + ':' + named.overload();
}

/// Bytes per element; 0 for types that are not numbers.
std::int64_t element_bytes(std::int32_t type) {
  switch (type) {
    case kOnnxUint8:
    case kOnnxInt8:
    case kOnnxBool:
      return 1;
    case kOnnxFloat16:
    case kOnnxBfloat16:
      return 2;
    case kOnnxFloat:
    case kOnnxInt32:
      return 4;
    case kOnnxInt64:
    case kOnnxDouble:
      return 8;
    default:
      return 0;
  }
}

float from_half(std::uint16_t half) {
  const int exponent = half >> 10 & 31;
  const auto mantissa = static_cast<float>(half & 1023);
  float value =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024.0F, exponent - 25);
  if (exponent == 31)
    value = mantissa == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  return (half & 0x8000) != 0 ? -value : value;
}

float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

template <class From, class T, class Convert>
void read_elements(std::string_view bytes, std::vector<T>& values, const Convert& convert) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    From element;
    std::memcpy(&element, bytes.data() + i * sizeof(From), sizeof(From));
    values[i] = static_cast<T>(convert(element));
  }
}

std::int64_t decimal(const std::string& text, const std::string& what) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc() && end == text.data() + text.size() && number >= 0,
          what + " is not a number of bytes", kDamagedHint);
  return number;
}

}  // namespace

bool is_onnx_integer(std::int32_t type) {
  return type == kOnnxInt32 || type == kOnnxInt64 || type == kOnnxBool || type == kOnnxInt8 ||
         type == kOnnxUint8;
}

bool is_embedded_graph(std::string_view source) { return source.starts_with(kEmbedded); }

std::int64_t onnx_volume(const onnx::TensorProto& tensor) {
  std::int64_t volume = 1;
  for (const std::int64_t dim : tensor.dims()) {
    require(dim >= 0 && (dim == 0 || volume <= kMostElements / dim),
            text("tensor {} has a dimension of {}", tensor.name(), dim), kDamagedHint);
    volume *= dim;
  }
  return volume;
}

OnnxFile OnnxFile::read(const std::string& source) {
  const bool embedded = is_embedded_graph(source);
  const std::string title = embedded ? "the checkpoint's network" : source;
  onnx::Model model;
  bool whole = false;
  if (embedded) {
    whole = model.ParseFromString(from_digits(std::string_view(source).substr(kEmbedded.size())));
  } else {
    std::error_code error;
    if (!std::filesystem::is_regular_file(source, error))
      throw UsageError(fmt::format("--network {}: there is no such file", source),
                       "name an ONNX file, such as torch.onnx.export writes");
    std::ifstream stream(source, std::ios::binary);
    require(stream.good(), text("cannot read {}", source), "check its permissions");
    whole = model.ParseFromIstream(&stream);
  }
  require(whole, text("{} is not an ONNX file, or is truncated", title),
          "export the network again; weights of 2 GB and more must be beside the file");
  OnnxFile file(std::move(model), title);
  if (!embedded) file.directory_ = std::filesystem::absolute(source).parent_path();
  file.check_graph();
  file.inline_functions();
  return file;
}

void OnnxFile::check_graph() const {
  require(model_.has_graph() && model_.graph().node_size() > 0, text("{} has no graph", title_),
          "name a file that torch.onnx.export wrote");
  constexpr std::int64_t kOldest = 7, kNewest = 28;
  const std::int64_t version = opset();
  require(version >= kOldest && version <= kNewest,
          text("{} has operators of opset {}", title_, version),
          text("export it with an opset of {} to {}", kOldest, kNewest));
  require(model_.graph().node_size() <= kMostNodes,
          text("{} has {} nodes", title_, model_.graph().node_size()),
          text("at most {} are read", kMostNodes));
}

std::int64_t OnnxFile::opset() const {
  for (const onnx::OperatorSet& set : model_.opset_import())
    if (set.domain().empty() || set.domain() == "ai.onnx") return set.version();
  return 0;
}

/// Replaces each node that calls a function by the function's nodes, until none is left.
void OnnxFile::inline_functions() {
  if (model_.functions_size() == 0) return;
  std::map<std::string, const onnx::Function*, std::less<>> functions;
  for (const onnx::Function& function : model_.functions())
    functions.emplace(key_of(function, function.name()), &function);
  constexpr int kDeepest = 16;
  for (int depth = 0;; ++depth) {
    onnx::Graph expanded;
    bool any = false;
    int number = 0;
    for (const onnx::Node& call : model_.graph().node()) {
      const auto found = functions.find(key_of(call, call.op_type()));
      require(expanded.node_size() <= kMostNodes && depth <= kDeepest,
              text("{} has functions that never end", title_), kDamagedHint);
      if (found == functions.end()) {
        *expanded.add_node() = call;
        continue;
      }
      any = true;
      const onnx::Function& function = *found->second;
      const std::string prefix =
          fmt::format("{}/{}/{}:{}/", call.name(), call.op_type(), depth, number++);
      std::map<std::string, std::string> names{{"", ""}};
      for (int i = 0; i < function.input_size(); ++i)
        names[function.input(i)] = i < call.input_size() ? call.input(i) : "";
      for (int i = 0; i < function.output_size(); ++i)
        names[function.output(i)] = i < call.output_size() && !call.output(i).empty()
                                        ? call.output(i)
                                        : prefix + function.output(i);
      const auto renamed = [&](const std::string& name) {
        return names.try_emplace(name, prefix + name).first->second;
      };
      for (const onnx::Node& inner : function.node()) {
        onnx::Node& node = *expanded.add_node();
        node = inner;
        node.set_name(prefix + inner.name());
        for (auto& name : *node.mutable_input()) name = renamed(name);
        for (auto& name : *node.mutable_output()) name = renamed(name);
        for (auto& attribute : *node.mutable_attribute()) {
          if (attribute.ref_attr_name().empty()) continue;
          const std::string wanted = attribute.ref_attr_name(), name = attribute.name();
          for (const auto* const list : {&function.attribute_proto(), &call.attribute()})
            for (const onnx::Attribute& given : *list)
              if (given.name() == wanted) attribute = given;
          attribute.set_name(name);
        }
        // A reference to an attribute that the call does not give leaves it at its default.
        auto& attributes = *node.mutable_attribute();
        for (int i = attributes.size() - 1; i >= 0; --i)
          if (!attributes[i].ref_attr_name().empty()) attributes.DeleteSubrange(i, 1);
      }
    }
    if (!any) return;
    model_.mutable_graph()->mutable_node()->Swap(expanded.mutable_node());
  }
}

std::string OnnxFile::name_of(const onnx::TensorProto& tensor) const {
  for (const onnx::Node& node : model_.graph().node())
    for (const onnx::Attribute& attribute : node.attribute())
      if (&attribute.t() == &tensor) return node.output(0);
  return tensor.name();
}

onnx::TensorProto* OnnxFile::find(const std::string& name) {
  for (onnx::TensorProto& tensor : *model_.mutable_graph()->mutable_initializer())
    if (tensor.name() == name) return &tensor;
  for (onnx::Node& node : *model_.mutable_graph()->mutable_node())
    if (node.op_type() == "Constant" && node.output_size() == 1 && node.output(0) == name)
      for (onnx::Attribute& attribute : *node.mutable_attribute())
        if (attribute.has_t()) return attribute.mutable_t();
  return nullptr;
}

onnx::TensorProto& OnnxFile::separate(const std::string& tensor, const std::string& copy,
                                      const std::string& reader, std::size_t input) {
  auto& nodes = *model_.mutable_graph()->mutable_node();
  const auto writer = [&](const std::string& value) {
    return std::find_if(nodes.begin(), nodes.end(), [&](const onnx::Node& node) {
      return node.output_size() > 0 && node.output(0) == value;
    });
  };
  const auto node = writer(reader);
  require(node != nodes.end(), text("{} has no node that computes {}", title_, reader));
  std::string& name = *node->mutable_input(static_cast<int>(input));
  std::string origin = name;
  for (auto from = writer(origin); from != nodes.end() && from->op_type() == "Identity";
       from = writer(origin))
    origin = from->input(0);
  require(origin == tensor, text("{}: layers that share {} read {} of it", title_, tensor, name),
          "export the network with optimize=False, which shares nothing");
  name = copy;
  onnx::TensorProto& added = *model_.mutable_graph()->add_initializer();
  added.set_name(copy);
  return added;
}

void OnnxFile::set_input(const Shape& shape) {
  onnx::Graph& graph = *model_.mutable_graph();
  for (onnx::ValueInfo& input : *graph.mutable_input()) {
    auto& dims = *input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim();
    if (find(input.name()) != nullptr || dims.size() != 5) continue;
    const std::array<std::int64_t, 4> extents{shape.c, shape.d, shape.h, shape.w};
    bool same = true;
    for (int a = 0; a < 4; ++a) {
      const std::int64_t extent = extents[static_cast<std::size_t>(a)];
      same = same && dims[a + 1].dim_value() == extent;
      dims[a + 1].set_dim_value(extent);
    }
    if (same) return;
    for (onnx::ValueInfo& output : *graph.mutable_output())
      for (auto& dim :
           *output.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim())
        dim.Clear();
    graph.clear_value_info();
  }
}

std::string OnnxFile::bytes() const {
  onnx::Model whole = model_;
  for (onnx::TensorProto& tensor : *whole.mutable_graph()->mutable_initializer()) {
    if (tensor.external_data().empty()) continue;
    std::string buffer;
    const std::string_view values = bytes_of(tensor, buffer);
    tensor.set_raw_data(values.data(), values.size());
    tensor.clear_external_data();
    tensor.clear_data_location();
  }
  whole.clear_functions();
  std::string out;
  require(whole.SerializeToString(&out), text("{} would have 2 GB or more", title_));
  return out;
}

bool OnnxFile::is_empty(const onnx::TensorProto& tensor) {
  return tensor.raw_data().empty() && tensor.float_data().empty() && tensor.int32_data().empty() &&
         tensor.int64_data().empty() && tensor.double_data().empty() &&
         tensor.external_data().empty() && tensor.data_location() == 0 && onnx_volume(tensor) > 0;
}

/// The bytes of a tensor that has them as such: within the message or read into `buffer`.
std::string_view OnnxFile::bytes_of(const onnx::TensorProto& tensor, std::string& buffer) const {
  constexpr std::int32_t kExternal = 1;
  if (tensor.data_location() != kExternal) return tensor.raw_data();
  std::map<std::string, std::string> keys;
  for (const onnx::Entry& entry : tensor.external_data()) keys[entry.key()] = entry.value();
  const std::filesystem::path location = keys["location"];
  const std::string what = fmt::format("{}: tensor {}", title_, tensor.name());
  const bool leaves =
      std::any_of(location.begin(), location.end(), [](const auto& part) { return part == ".."; });
  require(!location.empty() && location.is_relative() && !leaves && !directory_.empty(),
          text("{} has its values in '{}'", what, location.string()),
          "external data must be in a file beside the network's file, or below");
  const auto path = directory_ / location;
  std::error_code error;
  require(std::filesystem::is_regular_file(path, error),
          text("{} has its values in {}, which is no file", what, path.string()),
          "copy it together with the network's file");
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path));
  const std::int64_t offset =
      keys.contains("offset") ? decimal(keys["offset"], what + ": offset") : 0;
  require(offset <= size, text("{} begins behind the end of {}", what, path.string()),
          kDamagedHint);
  const std::int64_t length =
      keys.contains("length") ? decimal(keys["length"], what + ": length") : size - offset;
  require(
      length <= size - offset && length == onnx_volume(tensor) * element_bytes(tensor.data_type()),
      text("{} has {} bytes at {} of {}, which has {}", what, length, offset, path.string(), size),
      kDamagedHint);
  buffer.resize(static_cast<std::size_t>(length));
  std::ifstream stream(path, std::ios::binary);
  stream.seekg(offset).read(buffer.data(), length);
  require(stream.good() || length == 0, text("cannot read {}", path.string()),
          "check its permissions");
  return buffer;
}

template <class T>
std::vector<T> OnnxFile::values(const onnx::TensorProto& tensor) const {
  const std::int64_t volume = onnx_volume(tensor), width = element_bytes(tensor.data_type());
  const auto refuse = [&](std::int64_t found, const char* what) {
    throw Error(fmt::format("{}: tensor {} of {} elements has {} {}", title_, tensor.name(), volume,
                            found, what),
                kDamagedHint);
  };
  require(width > 0,
          text("{}: tensor {} is of data type {}", title_, tensor.name(), tensor.data_type()),
          "only numbers are read");
  const auto copied = [&](const auto& field) {
    if (field.size() != volume) refuse(field.size(), "values");
    return std::vector<T>(field.begin(), field.end());
  };
  if (tensor.float_data_size() > 0) return copied(tensor.float_data());
  if (tensor.double_data_size() > 0) return copied(tensor.double_data());
  if (tensor.int64_data_size() > 0) return copied(tensor.int64_data());
  const bool halves = tensor.data_type() == kOnnxFloat16,
             short_floats = tensor.data_type() == kOnnxBfloat16;
  if (tensor.int32_data_size() > 0) {
    std::vector<T> values = copied(tensor.int32_data());
    for (int i = 0; i < tensor.int32_data_size() && (halves || short_floats); ++i) {
      const auto bits = static_cast<std::uint16_t>(tensor.int32_data(i));
      values[static_cast<std::size_t>(i)] =
          static_cast<T>(halves ? from_half(bits) : from_bfloat16(bits));
    }
    return values;
  }
  std::string buffer;
  const std::string_view bytes = bytes_of(tensor, buffer);
  if (std::ssize(bytes) != volume * width) refuse(std::ssize(bytes), "bytes");
  std::vector<T> values(static_cast<std::size_t>(volume));
  const auto same = [](auto element) { return element; };
  switch (tensor.data_type()) {
    case kOnnxFloat:
      read_elements<float>(bytes, values, same);
      break;
    case kOnnxDouble:
      read_elements<double>(bytes, values, same);
      break;
    case kOnnxInt64:
      read_elements<std::int64_t>(bytes, values, same);
      break;
    case kOnnxInt32:
      read_elements<std::int32_t>(bytes, values, same);
      break;
    case kOnnxInt8:
      read_elements<std::int8_t>(bytes, values, same);
      break;
    case kOnnxFloat16:
      read_elements<std::uint16_t>(bytes, values, from_half);
      break;
    case kOnnxBfloat16:
      read_elements<std::uint16_t>(bytes, values, from_bfloat16);
      break;
    default:
      read_elements<std::uint8_t>(bytes, values, same);
  }
  return values;
}
template std::vector<float> OnnxFile::values(const onnx::TensorProto& tensor) const;
template std::vector<double> OnnxFile::values(const onnx::TensorProto& tensor) const;

void set_onnx_values(onnx::TensorProto& tensor, const std::vector<std::int64_t>& dims,
                     const std::vector<float>& values) {
  const std::string name = tensor.name();
  tensor.Clear();
  tensor.set_name(name);
  tensor.set_data_type(kOnnxFloat);
  for (const std::int64_t dim : dims) tensor.add_dims(dim);
  tensor.set_raw_data(values.data(), values.size() * sizeof(float));
}

std::string OnnxFile::embedded(const std::vector<std::string>& parameters) const {
  onnx::Model model;
  *model.mutable_opset_import() = model_.opset_import();
  model.set_ir_version(model_.ir_version());
  onnx::Graph& graph = *model.mutable_graph();
  const onnx::Graph& from = model_.graph();
  graph.set_name(from.name().empty() ? "network" : from.name());
  for (const onnx::Node& node : from.node()) {
    onnx::Node& copy = *graph.add_node();
    copy = node;
    copy.clear_doc_string();
    copy.clear_metadata_props();
  }
  const std::set<std::string> named(parameters.begin(), parameters.end());
  for (const onnx::TensorProto& tensor : from.initializer()) {
    onnx::TensorProto& copy = *graph.add_initializer();
    std::string buffer;
    if (!named.contains(tensor.name())) {
      copy = tensor;
      if (const std::string_view bytes = bytes_of(tensor, buffer); !bytes.empty())
        copy.set_raw_data(bytes.data(), bytes.size());
      copy.clear_external_data();
      copy.clear_data_location();
      continue;
    }
    copy.set_name(tensor.name());
    copy.set_data_type(tensor.data_type());
    *copy.mutable_dims() = tensor.dims();
  }
  for (const auto& [list, copies] : {std::pair(&from.input(), graph.mutable_input()),
                                     std::pair(&from.output(), graph.mutable_output())})
    for (const onnx::ValueInfo& value : *list) {
      onnx::ValueInfo& copy = *copies->Add();
      copy.set_name(value.name());
      *copy.mutable_type() = value.type();
    }
  return std::string(kEmbedded) + to_digits(model.SerializeAsString());
}

}  // namespace halomesh
