// SPDX-License-Identifier: Apache-2.0
// The files of one split, and their parallel scan. Must not depend on formats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/mpi/collective_errors.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// A directory and the names of files in it, in order; immutable. The names are stored in one
/// string, because a split may have 262,144 files.
class DatasetFiles {
 public:
  /// Each of `names` ends in '\0'.
  DatasetFiles(std::filesystem::path directory, const std::string& names);

  std::int64_t size() const { return static_cast<std::int64_t>(name_end_.size()); }
  const std::filesystem::path& directory() const { return directory_; }
  std::string_view name(std::int64_t file) const;
  std::string path(std::int64_t file) const;

 private:
  std::filesystem::path directory_;
  std::string names_;
  std::vector<std::uint32_t> name_end_;
};

/// A hash of bytes and of a hash of what comes before them: FNV-1a (Fowler, Noll, Vo; RFC 9923) of
/// 64 bits, not cryptographic.
std::uint64_t content_hash(std::string_view bytes, std::uint64_t before = 0);

/// A hash of a file's path, size and modification time. Throws Error if there is no such file.
std::uint64_t stamp_of(const std::string& path);

/// Integers read from each file by rank file % size and shared with all ranks.
class FileScan {
 public:
  /// Collective. scan(file) returns the integers of a file; the first Error in rank order is thrown
  /// on all ranks.
  FileScan(const Comm& comm, const DatasetFiles& files,
           const std::function<std::vector<std::int64_t>(std::int64_t file)>& scan);

  /// Returns the next integer of a file. Call it in the order of files.
  std::int64_t take(std::int64_t file);
  /// See Dataset::identity().
  const std::string& identity() const { return identity_; }

 private:
  std::vector<std::string> of_rank_;
  std::vector<std::size_t> taken_;
  std::string identity_;
};

}  // namespace halomesh
