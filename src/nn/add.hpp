// SPDX-License-Identifier: Apache-2.0
// Adds one flat array of floats to another, scales one, and rounds one to bf16 and back.
#pragma once

#include <cstdint>

#include "src/nn/data_type.hpp"

namespace halomesh {

/// sums[i] += values[i] for i in [0, count), with threads where that pays. The arrays do not
/// overlap. Each result is one addition, whatever the threads. Local; allocates nothing.
void add_values(float* sums, const float* values, std::int64_t count);

/// values[i] *= factor for i in [0, count), likewise.
void scale_values(float* values, float factor, std::int64_t count);

/// values[i] becomes the nearest bf16 for i in [0, count), likewise; lost[i] grows by what it loses
/// unless `lost` is null, and rounded[i] is the same value unless `rounded` is null.
void round_values(float* values, float* lost, Bfloat16* rounded, std::int64_t count);

/// values[i] = rounded[i] for i in [0, count), likewise; or values[i] += rounded[i].
void widen_values(float* values, const Bfloat16* rounded, std::int64_t count);
void add_values(float* sums, const Bfloat16* rounded, std::int64_t count);

}  // namespace halomesh
