// Boxes of a block's input as dense memory of the type it computes in: in place where possible,
// else packed and converted. Owns the buffer; knows nothing of convolutions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/nn/data_type.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

class DenseSource {
 public:
  /// A source that gives nothing.
  DenseSource() = default;
  /// Inputs are of type `from`, results of type `to`, kFloat32 or kBfloat16. kBfloat16 as kFloat32
  /// is not supported.
  DenseSource(DataType from, DataType to);

  /// Makes room for `box` of an input that spans `span`.
  void reserve(const Box& span, const Box& box);
  /// Sample n of `box` in d,h,w,c order; valid until the next call. Allocates nothing.
  const void* read(AnyConstView view, std::int64_t n, const Box& box);

 private:
  template <class From, class To, class Convert>
  void fill(TensorView<const From> view, std::int64_t n, const Box& box, const Convert& convert);

  DataType from_ = DataType::kFloat32, to_ = DataType::kFloat32;
  AlignedBuffer<Bfloat16> short_logarithms_;  // of counts, when they become bf16
  AlignedBuffer<std::byte> buffer_;
};

}  // namespace halomesh
