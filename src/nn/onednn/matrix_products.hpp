// SPDX-License-Identifier: Apache-2.0
// Products of bf16 matrices by the library, to be timed for the peak performance in bf16.
#pragma once

#include <cstdint>

namespace halomesh {

/// Multiplies matrices of 512x512 bf16 on the calling thread, once per 1024 `rounds` and at least
/// once. Returns the operations done, a multiply-add being two. Needs cpu_computes_bf16().
double run_bfloat16_products(std::int64_t rounds);

}  // namespace halomesh
