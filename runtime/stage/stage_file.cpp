// SPDX-License-Identifier: Apache-2.0
// The blocks that one rank keeps: see stage_file.hpp.
#include "runtime/stage/stage_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "error.hpp"
#include "runtime/posix/crc32c.hpp"
#include "runtime/posix/memory_needs.hpp"

namespace halomesh {
namespace {

constexpr const char* kFullCure =
    "free space there, use --stage-codec deflate, a larger RAM disk or more nodes";

std::int64_t padded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

StageFile::StageFile(Descriptor file, std::string name, StageCodec codec,
                     std::vector<std::int64_t> values, DataType type)
    : name_(std::move(name)),
      codec_(codec),
      values_(std::move(values)),
      type_(type),
      index_(values_.size()) {
  files_.emplace_back(std::move(file));
  for (std::size_t slot = 0; slot < values_.size(); ++slot)
    if (values_[slot] == 0) index_[slot].offset = 0;
}

std::int64_t StageFile::raw_bytes(std::int64_t block, DataType type) {
  return padded(size_of(type) * block);
}

void StageFile::append(std::int64_t slot, std::span<const std::byte> bytes) {
  Entry& entry = index_.at(static_cast<std::size_t>(slot));
  if (codec_ == StageCodec::kNone) return append_stored(slot, block_bytes(slot), bytes);
  std::vector<std::byte>& block = held_[slot];
  block.resize(static_cast<std::size_t>(block_bytes(slot)));
  std::memcpy(block.data() + entry.bytes, bytes.data(), bytes.size());
  entry.bytes += std::ssize(bytes);
  if (entry.bytes < block_bytes(slot)) return;
  const std::span<const std::byte> stream = block_codec_.deflate(block, size_of(type_));
  entry.bytes = 0;
  place(entry, std::ssize(stream));
  store(entry, stream);
  held_.erase(slot);
}

void StageFile::append_stored(std::int64_t slot, std::int64_t stored_size,
                              std::span<const std::byte> bytes) {
  Entry& entry = index_.at(static_cast<std::size_t>(slot));
  if (entry.offset < 0) place(entry, stored_size);
  store(entry, bytes);
}

/// Gives a slot its place in the first file.
void StageFile::place(Entry& entry, std::int64_t bytes) {
  entry.offset = end_;
  end_ += padded(bytes);
}

/// Appends bytes to a slot in the first file.
void StageFile::store(Entry& entry, std::span<const std::byte> bytes) {
  entry.checksum = crc32c(bytes, entry.checksum);
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(files_.front().file().get(), bytes.data(), bytes.size(),
                                     entry.offset + entry.bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      throw Error(
          fmt::format("cannot write {} bytes more to the stage {}, which has {}: {}", bytes.size(),
                      name_, entry.offset + entry.bytes, std::strerror(errno)),
          kFullCure);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    entry.bytes += written;
  }
}

void StageFile::adopt(Descriptor file, std::int64_t first,
                      std::span<const std::uint32_t> checksums) {
  const std::int64_t number = std::ssize(files_);
  files_.emplace_back(std::move(file));
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < std::ssize(checksums); ++i) {
    const std::int64_t bytes = block_bytes(first + i);
    index_.at(static_cast<std::size_t>(first + i)) = {number, offset, bytes,
                                                      checksums[static_cast<std::size_t>(i)]};
    offset += padded(bytes);
  }
}

void StageFile::finish() {
  for (std::int64_t slot = 0; slot < slots(); ++slot) {
    const Entry& entry = index_[static_cast<std::size_t>(slot)];
    require(entry.offset >= 0 && (codec_ != StageCodec::kNone || entry.bytes == block_bytes(slot)),
            text("slot {} of the stage {} is missing", slot, name_), "start again");
  }
  map(0);
}

void StageFile::reopen(std::vector<Descriptor> files, std::vector<Entry> index) {
  files_.clear();
  for (Descriptor& file : files) files_.emplace_back(std::move(file));
  index_ = std::move(index);
  map(0);
}

void StageFile::include(std::vector<Descriptor> files, std::span<const Placed> slots) {
  const std::size_t before = files_.size();
  for (Descriptor& file : files) files_.emplace_back(std::move(file));
  for (const Placed& placed : slots) {
    Entry& entry = index_.at(static_cast<std::size_t>(placed.slot));
    entry = placed.entry;
    entry.file += static_cast<std::int64_t>(before);
  }
  map(before);
}

/// Maps the indexed part of all files from `first_file` on, which are not mapped yet.
void StageFile::map(std::size_t first_file) {
  std::vector<std::int64_t> ends(files_.size());
  for (const Entry& entry : index_) {
    std::int64_t& end = ends.at(static_cast<std::size_t>(entry.file));
    end = std::max(end, entry.offset + entry.bytes);
  }
  for (std::size_t i = first_file; i < files_.size(); ++i)
    if (files_[i].bytes().empty() && !files_[i].map(ends[i])) {
      if (errno == ENOMEM) throw memory_error("the stage " + name_, ends[i]);
      throw Error(fmt::format("cannot map the stage {}: {}", name_, std::strerror(errno)),
                  "give --stage-dir a directory on a RAM disk or a local file system");
    }
}

std::int64_t StageFile::stored_bytes() const {
  std::int64_t sum = 0;
  for (const Entry& entry : index_) sum += padded(entry.bytes);
  return sum;
}

std::span<const std::byte> StageFile::stored(std::int64_t slot) const {
  const Entry& entry = index_.at(static_cast<std::size_t>(slot));
  return files_[static_cast<std::size_t>(entry.file)].bytes().subspan(
      static_cast<std::size_t>(entry.offset), static_cast<std::size_t>(entry.bytes));
}

void StageFile::verify(std::int64_t slot) const {
  require(
      crc32c(stored(slot)) == index_.at(static_cast<std::size_t>(slot)).checksum,
      text("slot {} of the stage {} is not what was written (checksum)", slot, name_),
      "remove the halomesh-stage-* directories in --stage-dir and start again; if it returns, the "
      "node's memory or disk is failing");
}

std::span<const std::byte> StageFile::read(std::int64_t slot, std::span<std::byte> room) {
  verify(slot);
  if (codec_ == StageCodec::kNone || block_bytes(slot) == 0) return stored(slot);
  block_codec_.inflate(stored(slot), room, size_of(type_));
  return room;
}

}  // namespace halomesh
