// SPDX-License-Identifier: Apache-2.0
// Multiply-adds in the registers of one instruction set: see peak.hpp for those in use.
#pragma once

#include <cstdint>

#include "src/nn/layers/isa.hpp"

namespace halomesh::inline HALOMESH_ISA {

/// As run_multiply_adds() and run_bfloat16_dots() of peak.hpp.
double run_multiply_adds_here(std::int64_t rounds);
double run_bfloat16_dots_here(std::int64_t rounds);

}  // namespace halomesh::inline HALOMESH_ISA
