// SPDX-License-Identifier: Apache-2.0
// Which kernels compute the gradients of a convolution behind max pooling.
#pragma once

namespace halomesh {

/// Max pooling leaves one gradient of each window that is not zero. kSparse: kernels of our own
/// multiply only these. kDense: the library's kernels multiply all. kAuto: whichever costs less by
/// a model of shapes and CPU. Where no sparse kernel fits the shapes, kSparse means kDense.
enum class GradientKernels { kAuto, kSparse, kDense };

}  // namespace halomesh
