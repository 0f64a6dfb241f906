// SPDX-License-Identifier: Apache-2.0
// Values of a graph that are known before any sample: tensors of the file and what is computed from
// them. Must not know layers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/onnx/file.hpp"

namespace halomesh {

using OnnxDims = std::vector<std::int64_t>;
/// No constant that is computed with has more elements.
inline constexpr std::int64_t kMostOnnxNumbers = 1 << 20;

/// A strided view of a tensor of the file, or of computed numbers. Reshaped, transposed and
/// expanded views still show which tensor they are of, and so which parameter.
class OnnxConstant {
 public:
  /// A tensor of the file; both must outlive the view.
  static OnnxConstant of(const OnnxFile& file, const onnx::TensorProto& tensor);
  static OnnxConstant computed(OnnxDims dims, std::vector<double> values, bool integer);

  const OnnxDims& dims() const { return dims_; }
  const OnnxDims& strides() const { return strides_; }
  std::int64_t offset() const { return offset_; }
  static std::int64_t volume_of(const OnnxDims& dims);
  std::int64_t volume() const { return volume_of(dims_); }
  bool integer() const { return integer_; }
  /// The tensor that this is a view of; null for computed numbers.
  const onnx::TensorProto* tensor() const { return base_->tensor; }

  /// The node that reads it, named by its first output, and at which of its inputs.
  struct Reader {
    std::string node{};
    std::size_t input = 0;
  };
  const Reader& reader() const { return reader_; }
  void set_reader(Reader reader) { reader_ = std::move(reader); }

  /// Element number `index` in the order of the view.
  double at(std::int64_t index) const;
  /// All elements; throws Error for more than are ever computed with.
  std::vector<double> values() const;
  std::vector<std::int64_t> integers() const;
  /// Whether all elements are `value`, which is false for parameters without values.
  bool is_all(double value) const;

  std::optional<OnnxConstant> reshaped(OnnxDims dims) const;
  OnnxConstant transposed(const OnnxDims& order) const;
  /// Broadcast to `dims` by the rules of the format; throws Error where they do not fit.
  OnnxConstant expanded(const OnnxDims& dims) const;

 private:
  struct Base {
    const OnnxFile* file = nullptr;
    const onnx::TensorProto* tensor = nullptr;
    mutable std::vector<double> values{};  // read when first asked for, where there is a tensor
  };
  std::int64_t place(std::int64_t index) const;
  const std::vector<double>& base_values() const;

  std::shared_ptr<const Base> base_;
  bool integer_ = false;
  OnnxDims dims_, strides_;
  std::int64_t offset_ = 0;
  Reader reader_;
};

/// The dimensions of a reshaped tensor of `from`: -1 is inferred, and 0 copied unless
/// `zeros_stay`. Throws Error where the volumes differ.
OnnxDims reshaped_dims(const OnnxDims& from, std::vector<std::int64_t> wanted, bool zeros_stay);

/// An axis counted from the end where it is negative. Throws Error for one beyond `rank`.
std::size_t onnx_axis(std::int64_t axis, std::size_t rank);
/// The dimensions of two operands together; throws Error where they do not fit.
OnnxDims broadcast_dims(const OnnxDims& a, const OnnxDims& b);
/// A number as an integer; those of the format that are beyond 2^62 mean "to the end".
std::int64_t onnx_integer(double value);

}  // namespace halomesh
