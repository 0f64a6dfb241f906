// The blocks that one rank keeps: see stage_file.hpp.
#include "runtime/stage_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "error.hpp"
#include "runtime/crc32c.hpp"

namespace halomesh {
namespace {

constexpr const char* kFullCure =
    "make room there, use --stage-codec deflate, a larger RAM disk or more nodes";

}  // namespace

StageFile::StageFile(Descriptor file, std::string name, StageCodec codec, std::int64_t slots,
                     std::int64_t block)
    : file_(std::move(file)),
      name_(std::move(name)),
      codec_(codec),
      block_(block),
      index_(static_cast<std::size_t>(slots)) {}

StageFile::StageFile(StageFile&& other) noexcept { *this = std::move(other); }

StageFile& StageFile::operator=(StageFile&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(name_, other.name_);
  std::swap(codec_, other.codec_);
  std::swap(block_, other.block_);
  std::swap(end_, other.end_);
  std::swap(index_, other.index_);
  std::swap(held_, other.held_);
  std::swap(mapped_, other.mapped_);
  std::swap(block_codec_, other.block_codec_);
  return *this;
}

StageFile::~StageFile() {
  if (mapped_ != nullptr)
    ::munmap(const_cast<std::byte*>(mapped_), static_cast<std::size_t>(end_));  // NOLINT: ours
}

std::int64_t StageFile::raw_bytes(std::int64_t block) { return (2 * block + 63) / 64 * 64; }

void StageFile::append(std::int64_t slot, std::span<const std::byte> bytes) {
  Entry& entry = index_.at(static_cast<std::size_t>(slot));
  if (codec_ == StageCodec::kNone) {
    entry.offset = slot * raw_bytes(block_);
    store(entry, bytes);
    return;
  }
  std::vector<std::int16_t>& block = held_[slot];
  block.resize(static_cast<std::size_t>(block_));
  std::memcpy(reinterpret_cast<std::byte*>(block.data()) + entry.bytes, bytes.data(), bytes.size());
  entry.bytes += std::ssize(bytes);
  if (entry.bytes < block_bytes()) return;
  entry = {end_, 0, 0};
  store(entry, block_codec_.deflate(block));
  held_.erase(slot);
}

/// Adds bytes to those that a slot has in the file.
void StageFile::store(Entry& entry, std::span<const std::byte> bytes) {
  entry.checksum = crc32c(bytes, entry.checksum);
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(file_.get(), bytes.data(), bytes.size(), entry.offset + entry.bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      throw Error(cat("cannot write ", bytes.size(), " bytes more to the stage ", name_,
                      ", which has ", end_, ": ", std::strerror(errno)),
                  kFullCure);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    entry.bytes += written;
  }
  end_ = std::max(end_, (entry.offset + entry.bytes + 63) / 64 * 64);
}

void StageFile::adopt(std::int64_t slot, std::uint32_t checksum) {
  const Entry entry{slot * raw_bytes(block_), block_bytes(), checksum};
  index_.at(static_cast<std::size_t>(slot)) = entry;
  end_ = std::max(end_, entry.offset + raw_bytes(block_));
}

void StageFile::finish() {
  for (std::size_t slot = 0; slot < index_.size(); ++slot)
    require(index_[slot].offset >= 0 &&
                (codec_ != StageCodec::kNone || index_[slot].bytes == block_bytes()),
            cat("slot ", slot, " of the stage ", name_, " is missing"), "start again");
  map();
}

void StageFile::reopen(std::vector<Entry> index) {
  index_ = std::move(index);
  for (const Entry& entry : index_) end_ = std::max(end_, entry.offset + entry.bytes);
  map();
}

void StageFile::map() {
  if (end_ == 0) return;
  void* const memory =
      ::mmap(nullptr, static_cast<std::size_t>(end_), PROT_READ, MAP_SHARED, file_.get(), 0);
  if (memory == MAP_FAILED)
    throw Error(cat("cannot map the stage ", name_, ": ", std::strerror(errno)),
                "give --stage-dir a directory on a RAM disk or a local file system");
  mapped_ = static_cast<const std::byte*>(memory);
}

std::span<const std::byte> StageFile::stored(std::int64_t slot) const {
  const Entry& entry = index_.at(static_cast<std::size_t>(slot));
  return {mapped_ + entry.offset, static_cast<std::size_t>(entry.bytes)};
}

void StageFile::verify(std::int64_t slot) const {
  require(
      crc32c(stored(slot)) == index_.at(static_cast<std::size_t>(slot)).checksum,
      cat("slot ", slot, " of the stage ", name_, " is not what was written (checksum)"),
      "remove the halomesh-stage-* directories in --stage-dir and start again; if it returns, the "
      "node's memory or disk is failing");
}

const std::int16_t* StageFile::in_place(std::int64_t slot) const {
  return reinterpret_cast<const std::int16_t*>(stored(slot).data());  // NOLINT: written as such
}

std::span<const std::int16_t> StageFile::read(std::int64_t slot, std::span<std::int16_t> room) {
  verify(slot);
  if (codec_ == StageCodec::kNone) return {in_place(slot), static_cast<std::size_t>(block_)};
  block_codec_.inflate(stored(slot), room);
  return room;
}

}  // namespace halomesh
