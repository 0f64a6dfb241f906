// SPDX-License-Identifier: Apache-2.0
// Boxes of a block's input as dense memory of its compute type: in place where possible, otherwise
// packed, converted and padded. Owns the buffer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/nn/data_type.hpp"
#include "src/nn/layers/isa.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh::inline HALOMESH_ISA {

/// Planes, rows and pixels of zeros around a box.
struct Padding {
  Spatial before{}, after{};
  bool none() const { return before == Spatial{} && after == Spatial{}; }
};

class DenseSource {
 public:
  /// An empty source.
  DenseSource() = default;
  /// Inputs are of type `from`; results are of type `to`, kFloat32 or kBfloat16, and hold values
  /// rounded to `precision`, kFloat32 or kBfloat16.
  DenseSource(DataType from, DataType to, DataType precision);
  DenseSource(DataType from, DataType to) : DenseSource(from, to, to) {}

  /// Allocates room for `box`, with zeros around it, of an input that spans `span`.
  void reserve(const Box& span, const Box& box, const Padding& padding = {});
  /// Sample n of `box` with zeros around it, in d,h,w,c order; valid until the next call. Allocates
  /// nothing.
  const void* read(AnyConstView view, std::int64_t n, const Box& box, const Padding& padding = {});

 private:
  bool is_as_wanted() const;
  template <class From, class To, class Convert>
  void fill(TensorView<const From> view, std::int64_t n, const Box& box, const Padding& padding,
            const Convert& convert);
  template <class To, class Convert>
  void fill_values(AnyConstView view, std::int64_t n, const Box& box, const Padding& padding,
                   const To* logarithms, const Convert& convert);

  DataType from_ = DataType::kFloat32, to_ = DataType::kFloat32, precision_ = DataType::kFloat32;
  // Of counts, when they are rounded to bf16: one of the two.
  AlignedBuffer<Bfloat16> short_logarithms_;
  AlignedBuffer<float> rounded_logarithms_;
  AlignedBuffer<std::byte> buffer_;
};

}  // namespace halomesh::inline HALOMESH_ISA
