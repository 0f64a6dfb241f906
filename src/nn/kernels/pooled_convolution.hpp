// SPDX-License-Identifier: Apache-2.0
// The forward pass of a convolution of few input channels, pooled in registers, so that no
// convolution plane is ever written. Owns the packed weights.
#pragma once

#include <cstdint>

#include "src/nn/kernels/isa.hpp"
#include "src/nn/kernels/pooled_activation.hpp"
#include "src/nn/onednn/library.hpp"
#include "src/nn/onednn/onednn.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {
inline namespace HALOMESH_ISA {

/// leaky_relu(max_pool(convolution + bias)) over pooling windows of 2x2x2, stride and dilation 1.
/// Products and sums are fp32; to compute in bf16, weights and sums are rounded to it (products of
/// bf16 are exact in fp32). Per tap of the kernel and input channel, one value for each of the
/// windows' eight elements is multiplied by one vector of weights, so that the sums of the elements
/// stay in registers. With an even number of channels, bf16 are added in pairs, as the CPU's dot
/// products do: sums with and without dot products agree, except that dot products treat denormals
/// as zero.
class PooledConvolution {
 public:
  /// Whether the compiled code has vectors wide enough to beat a library's kernel.
  static bool is_fast();

  PooledConvolution() = default;
  /// Computes in kFloat32, or in kBfloat16 with dot products if `dots` is set and the compiled code
  /// and the channels allow it.
  PooledConvolution(DataType compute, std::int64_t channels, std::int64_t filters,
                    const Spatial& kernel, bool dots = cpu_has_fast_dots());

  /// The element type that forward() reads: kBfloat16 for dot products, otherwise kFloat32.
  DataType src_type() const { return dots_ ? DataType::kBfloat16 : DataType::kFloat32; }

  /// Packs weights in the order out,in,kd,kh,kw, and one bias per filter.
  void load_weights(const float* weight, const float* bias);

  /// Writes the box `dst_box` of sample n of `dst` (fp32 or bf16). `src` holds the block of one
  /// sample that its windows read, in src_type(), dense and with padding: on each axis twice the
  /// box's extent plus the kernel's less 1; already rounded to bf16 to compute in it. The box has
  /// `filters` channels; dst may span more. Records argmax as PooledActivation does unless it has
  /// no data. Allocates nothing.
  void forward(const void* src, const Box& dst_box, std::int64_t n, float slope, AnyView dst,
               Argmax argmax);

 private:
  template <class S, class C, class T>
  void forward_rows(const S* src, const Box& dst_box, std::int64_t n, float slope,
                    TensorView<T> dst, Argmax argmax) const;
  std::int64_t steps_a_run() const { return dots_ ? run_ / 2 : run_; }
  std::int64_t place_in_run(std::int64_t element) const;
  void step_by(std::int64_t row, std::int64_t plane);
  template <std::int64_t kBlocks, class S, class C, class T>
  void pool_row(const S* src, std::int64_t block, std::int64_t pixels, float slope, T* dst,
                std::int64_t dst_step, std::uint8_t* argmax) const;

  DataType compute_ = DataType::kFloat32;
  std::int64_t channels_ = 0, filters_ = 0, run_ = 0;
  bool pairs_ = false, dots_ = false;  // whether bf16 are added in pairs, and by dot products
  std::int64_t row_ = 0, plane_ = 0;   // elements from one row and one plane of src to the next
  Spatial kernel_{};
  // For each block of kLanes filters, kd, kh, step in a run of kw and channel, filter: a float or
  // two bf16.
  AlignedBuffer<std::uint32_t> weights_;
  AlignedBuffer<float> bias_;            // padded to whole blocks
  AlignedBuffer<std::int64_t> offsets_;  // place of each step's elements in src
};

}  // namespace HALOMESH_ISA
}  // namespace halomesh
