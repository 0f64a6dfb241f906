// SPDX-License-Identifier: Apache-2.0
// ONNX files of tests, put together byte by byte by the format's wire rules, independently of the
// reader.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace halomesh::onnx_bytes {

using Dims = std::vector<std::int64_t>;

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}
inline std::string whole(int field, std::int64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(static_cast<std::uint64_t>(value));
}
inline std::string bytes(int field, const std::string& value) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(value.size()) + value;
}
inline std::string number(int field, float value) {
  std::string four(sizeof(float), '\0');
  std::memcpy(four.data(), &value, sizeof(float));
  return varint(static_cast<std::uint64_t>(field) << 3 | 5) + four;
}

/// Fields of a TensorProto: fp32 or int64 values as raw bytes.
template <class T>
std::string tensor(const std::string& name, const Dims& dims, const std::vector<T>& values) {
  std::string out;
  for (const std::int64_t dim : dims) out += whole(1, dim);
  out += whole(2, sizeof(T) == 4 ? 1 : 7) + bytes(8, name);
  std::string raw(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(raw.data(), values.data(), raw.size());
  return out + bytes(9, raw);
}
/// As many values, each another, around `mean`.
inline std::string weights(const std::string& name, const Dims& dims, float mean = 0) {
  std::size_t volume = 1;
  for (const std::int64_t dim : dims) volume *= static_cast<std::size_t>(dim);
  std::vector<float> values(volume);
  for (std::size_t i = 0; i < volume; ++i)
    values[i] = mean + 0.01F * (static_cast<float>(i * 37 % 101) - 50);
  return tensor(name, dims, values);
}
/// A tensor whose values are in another file.
inline std::string external(const std::string& name, const Dims& dims, const std::string& location,
                            const std::string& offset, const std::string& length) {
  std::string out;
  for (const std::int64_t dim : dims) out += whole(1, dim);
  out += whole(2, 1) + bytes(8, name) + whole(14, 1);
  for (const auto& [key, value] :
       {std::pair{"location", location}, std::pair{"offset", offset}, std::pair{"length", length}})
    if (!value.empty()) out += bytes(13, bytes(1, key) + bytes(2, value));
  return out;
}

inline std::string integer(const std::string& name, std::int64_t value) {
  return bytes(5, bytes(1, name) + whole(3, value) + whole(20, 2));
}
inline std::string real(const std::string& name, float value) {
  return bytes(5, bytes(1, name) + number(2, value) + whole(20, 1));
}
inline std::string word(const std::string& name, const std::string& value) {
  return bytes(5, bytes(1, name) + bytes(4, value) + whole(20, 3));
}
inline std::string integers(const std::string& name, const Dims& values) {
  std::string list = bytes(1, name);
  for (const std::int64_t value : values) list += whole(8, value);
  return bytes(5, list + whole(20, 7));
}

using Names = std::vector<std::string>;

/// A node as a field of its graph.
inline std::string node(const std::string& operation, const Names& inputs, const Names& outputs,
                        const std::string& attributes = {}) {
  std::string out;
  for (const std::string& input : inputs) out += bytes(1, input);
  for (const std::string& output : outputs) out += bytes(2, output);
  return bytes(1, out + bytes(3, "node_" + (outputs.empty() ? operation : outputs[0])) +
                      bytes(4, operation) + attributes);
}
inline std::string initializer(const std::string& tensor) { return bytes(5, tensor); }
inline std::string value(int field, const std::string& name, const Dims& dims) {
  std::string shape;
  for (const std::int64_t dim : dims) shape += bytes(1, whole(1, dim));
  return bytes(field, bytes(1, name) + bytes(2, bytes(1, whole(1, 1) + bytes(2, shape))));
}
inline std::string graph_input(const std::string& name, const Dims& dims) {
  return value(11, name, dims);
}
inline std::string graph_output(const std::string& name) { return value(12, name, {}); }

/// A whole file of a graph's fields.
inline std::string model(const std::string& graph, std::int64_t opset = 20) {
  return whole(1, 10) + bytes(2, "a test") + bytes(7, graph) + bytes(8, whole(2, opset));
}

/// A convolution of 3x3x3 with padding that keeps the extents, and its weight NAME.weight.
inline std::string convolution(const std::string& name, const std::string& from,
                               const std::string& to, std::int64_t in, std::int64_t out,
                               bool bias = false) {
  Names inputs{from, name + ".weight"};
  std::string graph = initializer(weights(name + ".weight", {out, in, 3, 3, 3}));
  if (bias) {
    inputs.push_back(name + ".bias");
    graph += initializer(weights(name + ".bias", {out}));
  }
  return graph + node("Conv", inputs, {to},
                      integers("kernel_shape", {3, 3, 3}) + integers("pads", {1, 1, 1, 1, 1, 1}));
}

/// A node that adds an initializer for each of its inputs but the first; these are its weights.
inline std::string layer(const std::string& operation, const std::string& from,
                         const std::string& to, const Names& tensors,
                         const std::string& attributes = {}) {
  std::string graph;
  Names inputs{from};
  for (const std::string& each : tensors) {
    inputs.push_back(to + "." + std::to_string(inputs.size()));
    graph += initializer(each + bytes(8, inputs.back()));  // the last name counts
  }
  return graph + node(operation, inputs, {to}, attributes);
}

/// A file of these bytes for the time of a test.
class FileOf {
 public:
  explicit FileOf(const std::string& content)
      : path_(std::filesystem::temp_directory_path() /
              ("halomesh-onnx-" + std::to_string(::getpid()) + ".onnx")) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  FileOf(const FileOf&) = delete;
  FileOf& operator=(const FileOf&) = delete;
  ~FileOf() { std::filesystem::remove(path_); }
  std::string name() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace halomesh::onnx_bytes
