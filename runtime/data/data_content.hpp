// SPDX-License-Identifier: Apache-2.0
// The content of the files of a data set by reading little of them, to recognize the same data
// wherever they are, and data that have changed behind an old time.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/data/dataset.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// A hash of a file's size and of its last bytes, among which a TFRecord of one record and a gzip
/// file have a checksum of all their data. Throws ReadError.
std::uint64_t end_hash(const std::string& path);

/// A hash of a file's size and of 16 blocks of 4 KiB, evenly spaced from the first to the last; of
/// all bytes if there are no more: for files without checksums of their data. Throws ReadError.
std::uint64_t block_hash(const std::string& path);

/// A text such as "8 files, content 1f0e...", which is the same for copies of the data elsewhere
/// and changes with the names and the contents of the files (see Dataset::file_hash()). Collective.
std::string content_of(const Comm& comm, const Dataset& data);

/// The number of files of `b` that have the content of files of `a`, as links and copies have.
/// Collective.
std::int64_t files_in_common(const Comm& comm, const Dataset& a, const Dataset& b);

}  // namespace halomesh
