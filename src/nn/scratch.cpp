// SPDX-License-Identifier: Apache-2.0
// See scratch.hpp.
#include "src/nn/scratch.hpp"

namespace halomesh {

// This is not in the header because make_shared() brings along data of which a program may have
// only one definition, while kernels are compiled once for each instruction set.
Scratch::Scratch() : block_(std::make_shared<AlignedBuffer<std::byte>>()) {}

}  // namespace halomesh
