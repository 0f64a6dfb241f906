// SPDX-License-Identifier: Apache-2.0
// Opens input files only if they are regular files, so that no reader blocks on a FIFO or a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/posix/descriptor.hpp"

namespace halomesh {

/// Throws Error if `path`, or a directory on it, is a link to a missing file; the message names
/// that file.
void require_target(const std::filesystem::path& path);

/// Throws ReadError, or the Error of require_target().
[[noreturn]] void fail_to_open(const std::filesystem::path& path, int error_number);

/// Throws Error unless `path` is a regular file, after following links; the message names its
/// actual kind. Does not open it: for libraries that open files themselves.
void require_regular_file(const std::filesystem::path& path);

/// Opens a regular file for reading. Never blocks, and does not affect other kinds of files. Throws
/// Error naming the file and its kind, or ReadError.
Descriptor open_input_file(const std::filesystem::path& path);

/// Reads bytes of an open file from `offset` on. Throws Error naming the file if it ends before
/// them, or ReadError.
void read_at(const Descriptor& file, const std::filesystem::path& path, std::int64_t offset,
             std::span<std::byte> bytes);

/// The first `most` bytes of a regular file, or all if it has fewer. Throws as open_input_file().
std::string read_head(const std::filesystem::path& path, std::size_t most);

/// The whole content of a regular file of at most `most` bytes. Throws Error naming the file, or
/// ReadError.
std::string read_input_file(const std::filesystem::path& path,
                            std::int64_t most = std::int64_t{1} << 40);

/// A line longer than this is damaged.
constexpr std::size_t kMostLineBytes = std::size_t{1} << 22;

/// A line of a file, its end of line included, and its place.
struct FileLine {
  std::string_view text;  ///< "" if it is longer than kMostLineBytes
  std::int64_t begin = 0, end = 0;
};
/// Calls `take` with each whole line of a regular file; with an offset, from the first line on that
/// begins behind it. Holds one line at a time. Throws as open_input_file().
void read_lines(const std::filesystem::path& path, std::int64_t offset,
                const std::function<void(const FileLine&)>& take);

}  // namespace halomesh
