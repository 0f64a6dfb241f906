// SPDX-License-Identifier: Apache-2.0
// The choice of kernels for a convolution before max pooling.
#pragma once

namespace halomesh {

/// Max pooling passes back one gradient per window that is not zero: sparse kernels of our own
/// multiply only these. Forward passes by Winograd's minimal filtering need fewer products than
/// direct sums. kAuto: whichever costs less by a model of shapes and CPU. kSparse: gradients
/// by sparse kernels, forward as kAuto. kWinograd: forward by Winograd's filtering, gradients as
/// kAuto. kDense: direct sums of all products by the library's kernels. Where no kernel of the
/// wanted kind fits the shapes, the library's are used. kReproducible: only kernels of our own in
/// fp32, whose results have the same bits for every cut, batch and number of threads: forward by
/// Winograd's filtering, sparse gradients; other shapes are refused.
enum class GradientKernels { kAuto, kSparse, kWinograd, kDense, kReproducible };

}  // namespace halomesh
