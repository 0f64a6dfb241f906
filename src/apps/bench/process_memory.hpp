// SPDX-License-Identifier: Apache-2.0
// The peak resident memory of this process.
#pragma once

#include <cstdint>

namespace halomesh {

/// Resets the peak to what is resident now. False where the system does not allow that (only Linux
/// does): the peak is then that since the program's start.
bool reset_peak_memory();

/// Bytes resident at the peak.
std::int64_t peak_memory_bytes();

}  // namespace halomesh
