// SPDX-License-Identifier: Apache-2.0
// See scratch.hpp.
#include "src/nn/scratch.hpp"

namespace halomesh {

// Not in the header: make_shared() brings data along of which a program may have one definition,
// but kernels are compiled once for each instruction set.
Scratch::Scratch() : block_(std::make_shared<AlignedBuffer<std::byte>>()) {}

}  // namespace halomesh
