// SPDX-License-Identifier: Apache-2.0
// Adds one flat array of floats to another, scales one, and rounds one to bf16 and back.
#pragma once

#include <cstdint>

#include "src/nn/data_type.hpp"

namespace halomesh {

/// sums[i] += values[i] for i in [0, count), with threads where that pays. The arrays do not
/// overlap. Each result is one addition, for any number of threads. Local; allocates nothing.
void add_values(float* sums, const float* values, std::int64_t count);

/// values[i] *= factor for i in [0, count), with threads where that pays.
void scale_values(float* values, float factor, std::int64_t count);

/// Rounds values[i] to the nearest bf16 for i in [0, count), with threads where that pays. Adds the
/// loss to lost[i] unless `lost` is null, and writes the value to rounded[i] unless `rounded` is
/// null.
void round_values(float* values, float* lost, Bfloat16* rounded, std::int64_t count);

/// values[i] = rounded[i], or values[i] += rounded[i], for i in [0, count), with threads where that
/// pays.
void widen_values(float* values, const Bfloat16* rounded, std::int64_t count);
void add_values(float* sums, const Bfloat16* rounded, std::int64_t count);

}  // namespace halomesh
