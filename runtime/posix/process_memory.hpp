// SPDX-License-Identifier: Apache-2.0
// The peak resident memory of this process.
#pragma once

#include <cstdint>

namespace halomesh {

/// Resets the peak to the current resident size. False where the system does not support that (only
/// Linux does): the peak then counts from the program's start.
bool reset_peak_memory();

/// Peak resident bytes.
std::int64_t peak_memory_bytes();

}  // namespace halomesh
