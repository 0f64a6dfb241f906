// SPDX-License-Identifier: Apache-2.0
// Names, stamps and the shared scan: see dataset_files.hpp.
#include "runtime/data/dataset_files.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "error.hpp"
#include "narrow.hpp"
#include "runtime/posix/input_file.hpp"

namespace halomesh {
namespace {

void append_integer(std::string& text, std::int64_t value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

std::uint64_t content_hash(std::string_view bytes, std::uint64_t before) {
  std::uint64_t hash = 0xcbf29ce484222325U ^ before;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

std::uint64_t stamp_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) fail_to_open(path, errno);
  return content_hash(fmt::format("{} {} {} {}", path, status.st_size, status.st_mtim.tv_sec,
                                  status.st_mtim.tv_nsec));
}

DatasetFiles::DatasetFiles(std::filesystem::path directory, const std::string& names)
    : directory_(std::move(directory)) {
  names_.reserve(names.size());
  for (const char c : names)
    if (c == '\0')
      name_end_.push_back(narrow<std::uint32_t>(names_.size()));
    else
      names_.push_back(c);
  name_end_.shrink_to_fit();
}

std::string_view DatasetFiles::name(std::int64_t file) const {
  const auto f = static_cast<std::size_t>(file);
  const std::size_t begin = f == 0 ? 0 : name_end_[f - 1];
  return std::string_view(names_).substr(begin, name_end_[f] - begin);
}

std::string DatasetFiles::path(std::int64_t file) const {
  return std::string(directory_.native()).append("/").append(name(file));
}

FileScan::FileScan(const Comm& comm, const DatasetFiles& files,
                   const std::function<std::vector<std::int64_t>(std::int64_t file)>& scan) {
  std::uint64_t stamps = 0;  // a sum, so that it does not depend on which rank scanned which file
  of_rank_ = on_every_rank(comm, [&] {
    std::string packed;
    for (std::int64_t f = comm.rank(); f < files.size(); f += comm.size()) {
      stamps += stamp_of(files.path(f));
      for (const std::int64_t value : scan(f)) append_integer(packed, value);
    }
    return packed;
  });
  taken_.resize(of_rank_.size());
  const auto sum = static_cast<std::uint64_t>(comm.sum(static_cast<std::int64_t>(stamps)));
  identity_ = on_first_rank(comm, [&] {
    return fmt::format("{}: {} files, stamp {:x}",
                       std::filesystem::absolute(files.directory()).c_str(), files.size(), sum);
  });
}

std::int64_t FileScan::take(std::int64_t file) {
  const std::size_t rank = static_cast<std::size_t>(file) % of_rank_.size();
  std::int64_t value = 0;
  require(taken_[rank] + sizeof value <= of_rank_[rank].size(),
          "the index of a data set has fewer entries than requested");
  std::memcpy(&value, of_rank_[rank].data() + taken_[rank], sizeof value);
  taken_[rank] += sizeof value;
  return value;
}

}  // namespace halomesh
