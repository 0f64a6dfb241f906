// SPDX-License-Identifier: Apache-2.0
// CosmoFlow: the network that predicts cosmological parameters from a 3-D box of particle counts.
// Must not depend on ranks or data sets.
#pragma once

#include <cstdint>
#include <vector>

#include "src/nn/kernels/gradient_kernels.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

/// The defaults are the network of MLPerf HPC v0.7, with 5,597,604 parameters; with kernel 3 it is
/// the network of v1.0, with 8,907,556.
struct CosmoFlowOptions {
  Shape input{4, 128, 128, 128};
  std::int64_t kernel = 2;       ///< planes along each axis
  std::int64_t filters = 32;     ///< filters of conv1; doubled by each further convolution
  std::int64_t conv_layers = 5;  ///< each of them halves the spatial extents
  bool average = false;          ///< averages each feature over space before the dense layers
  /// Each feature is normalized over this many samples of the global batch after each convolution;
  /// 0: not at all, as published.
  std::int64_t batch_norm = 0;
  std::vector<std::int64_t> fc{128, 64};
  std::int64_t targets = 4;
  double dropout = 0.5;  ///< after each dense layer of fc; 0: no dropout layers
  double leaky_slope = 0.3;
  double output_scale = 1.2;
  bool classifies = false;  ///< outputs are scores of classes, without the last function
  CutSetting cuts{};        ///< cuts of the convolutions, in space and by output channels
  /// The gradient kernels of the convolutions; kReproducible also applies to the dense layers, and
  /// cuts layers between cells.
  GradientKernels kernels = GradientKernels::kAuto;
  DataType precision = DataType::kFloat32;  ///< kFloat32 or kBfloat16
  /// KFloat32, or kInt16 for counts, of which log(1+x) is taken.
  DataType input_type = DataType::kFloat32;
};

/// conv_layers times a convolution (TensorFlow SAME padding, stride 1), 2x2x2 max pooling and a
/// leaky ReLU, all three in one layer; with `batch_norm` (not published), batch normalization after
/// each; with `average` (not published), the mean over space; then fc dense layers with leaky ReLU
/// and dropout; then a dense layer of `targets` outputs and output_scale * tanh. Layers are named
/// conv1, conv2, ..., average, fc1, act_fc1, dropout1, ..., the last dense layer continues the
/// numbering of `fc`, and "tanh" follows it, but not where outputs are scores of classes. Throws
/// UsageError naming the invalid option. Source: github.com/mlcommons/hpc,
/// cosmoflow/models/cosmoflow_v1.py.
///
/// With precision kBfloat16 the convolutions compute in bf16, with sums, parameters and their
/// gradients in fp32, and their outputs are bf16 except the last one's. The dense layers, some 1e-4
/// of the work, stay fp32. The caller must check that the CPU has instructions for bf16.
///
/// The published order is convolution, activation, pooling. A leaky ReLU f with slope >= 0 does not
/// decrease, so max f(x_i) = f(max x_i): pooling first gives the same network, and the activation
/// then visits an eighth of the elements. Gradients agree as well: both orders pass them to the
/// largest element, times f' at that element (with slope > 0; at slope 0 negative windows have
/// ties, but their gradient is 0 either way).
Model make_cosmoflow(const CosmoFlowOptions& options);

}  // namespace halomesh
