// SPDX-License-Identifier: Apache-2.0
// Adds one flat array of floats to another, and scales one.
#pragma once

#include <cstdint>

namespace halomesh {

/// sums[i] += values[i] for i in [0, count), with threads where that pays. The arrays do not
/// overlap. Each result is one addition, whatever the threads. Local; allocates nothing.
void add_values(float* sums, const float* values, std::int64_t count);

/// values[i] *= factor for i in [0, count), likewise.
void scale_values(float* values, float factor, std::int64_t count);

}  // namespace halomesh
