// SPDX-License-Identifier: Apache-2.0
// Boxes of a block's input as dense memory of its compute type: in place where possible, otherwise
// packed, converted and padded into scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/nn/counts.hpp"
#include "src/nn/data_type.hpp"
#include "src/nn/kernels/isa.hpp"
#include "src/nn/scratch.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {

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
  /// rounded to `precision`, kFloat32 or kBfloat16. Inputs of kInt16 are counts with one of
  /// `scales` per channel; without scales they stand for log(1+x). Zeros around a box are zeros of
  /// the result.
  DenseSource(DataType from, DataType to, DataType precision,
              std::span<const ChannelScale> scales = {});

  /// Requests room for `box`, with zeros around it, of an input that spans `span`.
  void reserve(const Box& span, const Box& box, const Padding& padding = {});
  /// Takes the requested room; called before the first read().
  void take(Scratch& scratch) { buffer_ = scratch.take<std::byte>(bytes_); }
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
                   const To* tables, const Convert& convert);

  DataType from_ = DataType::kFloat32, to_ = DataType::kFloat32, precision_ = DataType::kFloat32;
  bool by_channel_ = false;  // whether each channel of counts has a table of its own
  // Tables of counts in the type of results; empty where log_table() is used.
  AlignedBuffer<Bfloat16> short_tables_;
  AlignedBuffer<float> tables_;
  std::int64_t bytes_ = 0;
  ScratchBuffer<std::byte> buffer_;
};

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
