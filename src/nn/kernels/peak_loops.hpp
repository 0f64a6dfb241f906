// SPDX-License-Identifier: Apache-2.0
// Multiply-adds in the registers of one instruction set; peak.hpp has the ones in use.
#pragma once

#include <cstdint>

#include "src/nn/kernels/isa.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {

/// run_multiply_adds() of peak.hpp for this instruction set.
double run_multiply_adds_here(std::int64_t rounds);

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
