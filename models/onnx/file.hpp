// SPDX-License-Identifier: Apache-2.0
// An ONNX file: read with its external tensors, which are untrusted, and written again. Must not
// know operators.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "models/onnx/onnx.pb.h"
#include "shape.hpp"

namespace halomesh {

/// TensorProto.DataType of the format.
enum OnnxType : std::int32_t {
  kOnnxFloat = 1,
  kOnnxUint8 = 2,
  kOnnxInt8 = 3,
  kOnnxInt32 = 6,
  kOnnxInt64 = 7,
  kOnnxBool = 9,
  kOnnxFloat16 = 10,
  kOnnxDouble = 11,
  kOnnxBfloat16 = 16
};
bool is_onnx_integer(std::int32_t type);

/// A value of the option --network that is a graph itself, without the values of its parameters, as
/// checkpoints store it.
bool is_embedded_graph(std::string_view source);

/// A network's file. Owns the message; tensors with external data are read when asked for.
class OnnxFile {
 public:
  /// `source` is a path or an embedded graph. Functions are inlined. Throws Error naming the file
  /// where it is missing, damaged or too deep.
  static OnnxFile read(const std::string& source);
  explicit OnnxFile(onnx::Model model, std::string title = "the network")
      : model_(std::move(model)), title_(std::move(title)) {}

  const onnx::Model& model() const { return model_; }
  onnx::Model& model() { return model_; }
  const std::string& title() const { return title_; }
  /// The version of the operators of ai.onnx.
  std::int64_t opset() const;

  /// All elements of a tensor in its order. Throws Error unless it holds as many as its dimensions
  /// say, of a numeric type; external data must lie in a file of the model's directory or below.
  template <class T>
  std::vector<T> values(const onnx::TensorProto& tensor) const;
  /// The name of a tensor of this file: that of an initializer, or the output of its Constant.
  std::string name_of(const onnx::TensorProto& tensor) const;
  /// The tensor with this name; null if there is none.
  onnx::TensorProto* find(const std::string& name);
  /// Gives a node, named by its first output, a copy of an initializer under another name. Throws
  /// Error where the node does not read the initializer itself.
  onnx::TensorProto& separate(const std::string& tensor, const std::string& copy,
                              const std::string& reader, std::size_t input);
  /// States that samples have this shape, in the place of another one.
  void set_input(const Shape& shape);
  /// The file with its tensors inside.
  std::string bytes() const;
  /// Whether the tensor lacks its values, as parameters of an embedded graph do.
  static bool is_empty(const onnx::TensorProto& tensor);

  /// The graph as embedded text: without the values of the initializers of these names, and
  /// without texts that only describe.
  std::string embedded(const std::vector<std::string>& parameters) const;

 private:
  void check_graph() const;
  void inline_functions();
  std::string_view bytes_of(const onnx::TensorProto& tensor, std::string& buffer) const;

  onnx::Model model_;
  std::string title_;
  std::filesystem::path directory_;
};

/// The number of elements; throws Error for negative or absurd dimensions.
std::int64_t onnx_volume(const onnx::TensorProto& tensor);
/// Replaces the tensor's values, as fp32 in the file itself.
void set_onnx_values(onnx::TensorProto& tensor, const std::vector<std::int64_t>& dims,
                     const std::vector<float>& values);

}  // namespace halomesh
