// SPDX-License-Identifier: Apache-2.0
// Input files: opened only if they are regular files, so that no reader waits for a FIFO or a
// device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "runtime/posix/descriptor.hpp"

namespace halomesh {

/// Throws Error unless `path` is a regular file, after following links; the message says what it is
/// instead. Opens nothing: for libraries that open files by name.
void require_regular_file(const std::filesystem::path& path);

/// Opens a regular file for reading. Never blocks and has no effect on what it refuses. Throws
/// Error naming the file and what it is, or what the system said.
Descriptor open_input_file(const std::filesystem::path& path);

/// The whole content of a regular file of at most `most` bytes. Throws Error naming the file.
std::string read_input_file(const std::filesystem::path& path,
                            std::int64_t most = std::int64_t{1} << 40);

}  // namespace halomesh
