// SPDX-License-Identifier: Apache-2.0
// The resident memory of this process, and its peak.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace halomesh {

/// Resets the peak to the current resident size. False if the system does not support that (only
/// Linux does): the peak then counts from the program's start.
bool reset_peak_memory();

/// Peak resident bytes.
std::int64_t peak_memory_bytes();

/// Resident bytes now; 0 if the system does not report them.
std::int64_t resident_memory_bytes();

/// The number after the word `key` in a file such as /proc/self/status ("VmRSS:", in KiB); 0 if the
/// word is missing.
std::int64_t number_behind(const std::string& key, const std::filesystem::path& path);

}  // namespace halomesh
