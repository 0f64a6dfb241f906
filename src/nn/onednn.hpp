// oneDNN behind our own types: kernels made once, run on raw pointers. onednn.cpp alone includes
// the library's headers and knows its API version. Knows nothing of parts, halos or layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shape.hpp"

namespace halomesh {

/// The version of the library that runs, e.g. "2.6.3".
std::string onednn_version();

/// A convolution of one sample: dense ndhwc blocks with their own padding. Channels are src.c and
/// dst.c; stride 1 and dilation 1 mean adjacent planes.
struct ConvolutionBlock {
  Shape src, dst;
  Spatial kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, pad_before{}, pad_after{};
  friend bool operator==(const ConvolutionBlock&, const ConvolutionBlock&) = default;
};

/// The kernels of one convolution layer on one rank: forward for any number of block geometries,
/// backward for one; all share the weights, which are kept packed once for each layout the library
/// chose. First add_...(), then allocate(), then run. Made kernels allocate nothing of ours. Throws
/// Error naming the primitive and its shapes when the library refuses.
class ConvolutionKernels {
 public:
  ConvolutionKernels();
  ~ConvolutionKernels();
  ConvolutionKernels(ConvolutionKernels&&) noexcept;
  ConvolutionKernels& operator=(ConvolutionKernels&&) noexcept;

  /// Returns the number to pass to forward(); equal geometries share one kernel.
  std::size_t add_forward(const ConvolutionBlock& block);
  void add_backward_data(const ConvolutionBlock& block);
  void add_backward_weights(const ConvolutionBlock& block);
  /// Makes packed weights, gradient sums and the scratchpad that all kernels share.
  void allocate();

  /// Packs weights in the order out,in,kd,kh,kw for all kernels; bias has one value an output
  /// channel. Both are copied.
  void load_weights(const float* weight, const float* bias);
  /// dst = src * weights + bias.
  void forward(std::size_t kernel, const float* src, float* dst);
  /// Writes all of diff_src.
  void backward_data(const float* diff_dst, float* diff_src);
  /// Adds this sample's weight and bias gradients to the sums; `first` starts new sums.
  void backward_weights(const float* src, const float* diff_dst, bool first);
  /// Writes the sums, weight in the order out,in,kd,kh,kw.
  void store_diff_weights(float* diff_weight, float* diff_bias);

  /// The library's names of the chosen kernels, e.g. "forward jit:avx512_core", each once.
  std::vector<std::string> implementations() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The kernels of a dense layer on one rank: src [batch][in], weight [out][in], dst [batch][out],
/// all row-major. Throws Error naming the primitive and its shapes when the library refuses.
class InnerProductKernels {
 public:
  /// Without `with_bias` every bias pointer below must be null; without `training` there is no
  /// backward.
  InnerProductKernels(std::int64_t batch, std::int64_t in, std::int64_t out, bool with_bias,
                      bool training);
  ~InnerProductKernels();
  InnerProductKernels(InnerProductKernels&&) noexcept;
  InnerProductKernels& operator=(InnerProductKernels&&) noexcept;

  /// dst = src * weight^T + bias.
  void forward(const float* src, const float* weight, const float* bias, float* dst);
  /// Writes diff_src = diff_dst * weight.
  void backward_data(const float* diff_dst, const float* weight, float* diff_src);
  /// Writes diff_weight = diff_dst^T * src and diff_bias = the sum of diff_dst over the batch.
  void backward_weights(const float* src, const float* diff_dst, float* diff_weight,
                        float* diff_bias);

  std::vector<std::string> implementations() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace halomesh
