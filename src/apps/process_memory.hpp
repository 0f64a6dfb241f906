// The largest memory that this process has held.
// Asks the operating system; knows nothing of what holds it.
#pragma once

#include <cstdint>

namespace halomesh {

/// Starts the peak anew from what is held now. False where the system does not let it (only Linux
/// does): the peak then counts from the program's start.
bool reset_peak_memory();

/// Bytes resident at the peak.
std::int64_t peak_memory_bytes();

}  // namespace halomesh
