// SPDX-License-Identifier: Apache-2.0
// The entry points through which the rest of the program reaches code that is compiled once per
// instruction set.
#pragma once

#include "src/nn/kernels/isa.hpp"
#include "src/nn/kernels/isa_kernels.hpp"

namespace halomesh {
inline namespace HALOMESH_ISA {

extern const IsaKernels kIsaKernels;

}  // namespace HALOMESH_ISA
}  // namespace halomesh
