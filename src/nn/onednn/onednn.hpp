// SPDX-License-Identifier: Apache-2.0
// oneDNN behind our own types: kernels made once, run on raw pointers. Includes none of the
// library's headers; must not depend on layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/nn/convolution_geometry.hpp"
#include "src/nn/data_type.hpp"
#include "src/nn/scratch.hpp"

namespace halomesh {

/// The types and options of one convolution layer's kernels; each type is kFloat32 or kBfloat16.
/// Products are summed in fp32; parameters and their gradients are fp32.
struct ConvolutionForm {
  DataType compute = DataType::kFloat32;  ///< type of src, dst and their gradients
  DataType dst = DataType::kFloat32;      ///< type written by forward(); its gradient has `compute`
  bool diff_bias = true;                  ///< whether backward_weights() sums the bias gradient
  bool bias = true;                       ///< whether forward() adds a bias
  /// Whether to compute in the library's own layout and reorder to and from it. Always done where
  /// the library has only reference kernels for ndhwc (on SVE).
  bool own_layout = false;
  bool widens_diff_src = false;  ///< backward_data() writes fp32 whatever the compute type
  /// Whether backward_data() is the forward pass of its layer, and forward() the backward pass.
  bool transposed = false;
  /// With kFloat32, data of `compute` are widened and results rounded to it: see
  /// fastest_products().
  DataType products = DataType::kBfloat16;
};

/// The kernels of one convolution layer on one rank, each for any number of geometries. All share
/// the weights, which are packed once for each layout that the library chooses: for the layer's
/// forward pass when they are loaded, for its backward pass each time, into scratch. First
/// add_...(), then allocate(), then run. Running a kernel allocates no memory of ours. Pointers are
/// to dense elements of the types of the form. Throws Error naming the primitive and its shapes
/// when the library refuses.
class ConvolutionKernels {
 public:
  explicit ConvolutionKernels(const ConvolutionForm& form = {});
  ~ConvolutionKernels();
  ConvolutionKernels(ConvolutionKernels&&) noexcept;
  ConvolutionKernels& operator=(ConvolutionKernels&&) noexcept;

  /// Each returns the number to pass to its function below; equal geometries share one kernel.
  std::size_t add_forward(const ConvolutionGeometry& geometry);
  std::size_t add_backward_data(const ConvolutionGeometry& geometry);
  std::size_t add_backward_weights(const ConvolutionGeometry& geometry);
  /// Allocates packed weights, and takes weights of the backward pass, gradient sums and the
  /// library's scratchpads from `scratch`. `sums_several` says whether backward_weights() is called
  /// more than once between calls of store_diff_weights(): if not, the memory for a second term is
  /// saved.
  void allocate(Scratch scratch = {}, bool sums_several = true);

  /// Packs weights in the order out,in,kd,kh,kw, which must stay unchanged until the next call.
  /// `bias` has one value per output channel, which is copied; it may be null when the form has no
  /// bias.
  void load_weights(const float* weight, const float* bias);
  /// Packs the weights of the layer's backward pass; called before the first call that computes the
  /// gradient of the input.
  void load_backward_weights();
  /// dst = src * weights + bias.
  void forward(std::size_t kernel, const void* src, void* dst);
  /// Writes all of diff_src.
  void backward_data(std::size_t kernel, const void* diff_dst, void* diff_src);
  /// Adds this block's weight (and bias) gradients to the sums, which are in scratch; the first
  /// call after store_diff_weights() starts new sums.
  void backward_weights(std::size_t kernel, const void* src, const void* diff_dst);
  /// Writes the sums, weight in the order out,in,kd,kh,kw, and resets them. `diff_bias` may be null
  /// when the form has none.
  void store_diff_weights(float* diff_weight, float* diff_bias);

  /// The library's names of the chosen kernels with their type, e.g. "forward bf16
  /// brgconv:avx512_core_bf16", each once.
  std::vector<std::string> implementations() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The weight gradient of a convolution without groups as one matrix product for each tap, over the
/// voxels whose src is not padding, whereas the library would multiply all taps with all voxels.
/// Blocks are dense, as in ConvolutionKernels. First take(), then run.
class TapGradients {
 public:
  /// Whether such a convolution can be computed so and either is dilated or has no better kernel in
  /// the library on this CPU.
  static bool suits(const ConvolutionGeometry& geometry, DataType compute);
  /// Whether the convolution of a transposed one has strides, and channels and voxels for which
  /// products cost less than the library's kernel, which reads src with strides.
  static bool suits_transposed(const ConvolutionGeometry& geometry, DataType compute);
  /// Prepares for a geometry without groups. Throws Error naming the product when the library
  /// refuses.
  TapGradients(const ConvolutionGeometry& geometry, DataType compute, bool bias);
  ~TapGradients();
  TapGradients(TapGradients&&) noexcept;
  TapGradients& operator=(TapGradients&&) noexcept;

  /// Takes memory for the sums, in use from the first add() to store(), and for their products.
  void take(Scratch& scratch);
  /// Adds the gradients of a block; the first call after store() starts new sums.
  void add(const void* src, const void* diff_dst);
  /// Writes the sums, weight in the order out,in,kd,kh,kw. `diff_bias` may be null without a bias.
  void store(float* diff_weight, float* diff_bias);

  const std::vector<std::string>& implementations() const;

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
