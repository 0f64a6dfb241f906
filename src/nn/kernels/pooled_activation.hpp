// SPDX-License-Identifier: Apache-2.0
// The pooling half of a fused convolution block: maxima of a dense block of convolution planes,
// activated, and their gradients. Must not depend on convolutions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "partition/window.hpp"
#include "src/nn/kernels/argmax.hpp"
#include "src/nn/kernels/isa.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {

/// Dense planes of a convolution's output in one sample: whole pooling windows along h and w.
struct ConvolutionPlanes {
  std::byte* data = nullptr;
  DataType type = DataType::kFloat32;  ///< kFloat32 or kBfloat16
  Range range;                         ///< planes along d, in global coordinates
};

/// The sums over the pooled pixels of the gradient at the convolution's output: the bias gradient.
/// One sum per thread, so that results are reproducible for a given number of threads.
class BiasSums {
 public:
  BiasSums() = default;
  explicit BiasSums(std::int64_t channels);
  int threads() const { return threads_; }
  /// The sums over one row, fp32, of this thread: add to them between begin_row() and end_row().
  float* begin_row(int thread);
  void end_row(int thread);
  /// Writes the sums of `channels` channels over all threads and starts new ones.
  void store(float* diff_bias, std::int64_t channels);

 private:
  std::int64_t channels_ = 0;  // padded so that threads share no cache line
  int threads_ = 0;
  AlignedBuffer<float> rows_;
  AlignedBuffer<double> totals_;
};

/// Max pooling with touching windows, followed by a non-decreasing leaky ReLU.
struct PooledActivation {
  Spatial pool{2, 2, 2};
  float slope = 0;

  /// Writes leaky_relu(max over each window) to `box` of sample n of dst (fp32 or bf16); `planes`
  /// holds the planes under `box`. Among equal elements the first in d,h,w order wins; a window
  /// that contains NaN gives NaN. Records argmax unless `argmax` has no data.
  void forward(const ConvolutionPlanes& planes, const Box& box, std::int64_t n, AnyView dst,
               Argmax argmax) const;
  /// Writes all of `planes` under the pooled box `box` of sample n: the gradient diff_dst, times
  /// the derivative, at the argmax, zero elsewhere. The range of planes may begin and end within a
  /// window. Adds to `bias` unless it is null; with `bias`, the range must consist of whole
  /// windows.
  void backward(AnyConstView diff_dst, Argmax argmax, const Box& box, std::int64_t n,
                const ConvolutionPlanes& planes, BiasSums* bias) const;
};

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
