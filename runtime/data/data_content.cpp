// SPDX-License-Identifier: Apache-2.0
// Hashes and numbers of files: see data_content.hpp.
#include "runtime/data/data_content.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "runtime/data/dataset_files.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/input_file.hpp"
#include "system_error.hpp"

namespace halomesh {
namespace {

/// The hashes of all files, in ascending order. Collective.
std::vector<std::uint64_t> hashes_of(const Comm& comm, const Dataset& data) {
  const std::int64_t files = data.files().size();
  const std::vector<std::string> of_rank = on_every_rank(comm, [&] {
    std::string packed;
    for (std::int64_t f = comm.rank(); f < files; f += comm.size()) {
      const std::uint64_t hash = data.file_hash(f);
      packed.append(reinterpret_cast<const char*>(&hash), sizeof hash);
    }
    return packed;
  });
  std::vector<std::uint64_t> all;
  for (const std::string& packed : of_rank) {
    const std::size_t before = all.size();
    all.resize(before + packed.size() / sizeof(std::uint64_t));
    if (!packed.empty()) std::memcpy(all.data() + before, packed.data(), packed.size());
  }
  std::sort(all.begin(), all.end());
  return all;
}

/// A hash of a file's size and of pieces of it, the last of which ends with the file.
std::uint64_t hash_of_pieces(const std::string& path, std::int64_t pieces, std::int64_t bytes) {
  const Descriptor file = open_input_file(path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw read_error("read", path, errno);
  const std::int64_t size = status.st_size, last = std::max<std::int64_t>(size - bytes, 0);
  if (size <= pieces * bytes) pieces = (size + bytes - 1) / bytes;
  std::string piece(static_cast<std::size_t>(bytes), '\0');
  std::uint64_t hash = content_hash(std::to_string(size));
  for (std::int64_t i = 1; i <= pieces; ++i) {
    const std::int64_t at = pieces > 1 ? last * (i - 1) / (pieces - 1) : last;
    const ssize_t count = ::pread(file.get(), piece.data(), piece.size(), at);
    if (count < 0) throw read_error("read", path, errno);
    hash = content_hash(std::string_view(piece).substr(0, static_cast<std::size_t>(count)), hash);
  }
  return hash;
}

}  // namespace

std::uint64_t end_hash(const std::string& path) { return hash_of_pieces(path, 1, 64); }

std::uint64_t block_hash(const std::string& path) { return hash_of_pieces(path, 16, 4096); }

std::string content_of(const Comm& comm, const Dataset& data) {
  const DatasetFiles& files = data.files();
  std::uint64_t sum = 0;  // which does not depend on which rank reads which file
  on_all_ranks(comm, [&] {
    for (std::int64_t f = comm.rank(); f < files.size(); f += comm.size())
      sum += content_hash(files.name(f), data.file_hash(f));
  });
  sum = static_cast<std::uint64_t>(comm.sum(static_cast<std::int64_t>(sum)));
  return fmt::format("{} files, content {:016x}", files.size(), sum);
}

std::int64_t files_in_common(const Comm& comm, const Dataset& a, const Dataset& b) {
  const std::vector<std::uint64_t> of_a = hashes_of(comm, a), of_b = hashes_of(comm, b);
  return std::count_if(of_b.begin(), of_b.end(), [&](std::uint64_t each) {
    return std::binary_search(of_a.begin(), of_a.end(), each);
  });
}

}  // namespace halomesh
