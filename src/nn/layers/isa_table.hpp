// SPDX-License-Identifier: Apache-2.0
// The way from the rest of the program to code that is compiled once per instruction set.
#pragma once

#include "src/nn/layers/isa.hpp"
#include "src/nn/layers/isa_kernels.hpp"

namespace halomesh::inline HALOMESH_ISA {

extern const IsaKernels kIsaKernels;

}  // namespace halomesh::inline HALOMESH_ISA
