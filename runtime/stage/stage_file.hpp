// SPDX-License-Identifier: Apache-2.0
// The blocks of one split that one rank keeps: written once, then read from mapped memory.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/posix/mapped_file.hpp"
#include "runtime/stage/block_codec.hpp"

namespace halomesh {

enum class StageCodec : std::uint8_t {
  kNone,    ///< counts as they are: blocks are used in place
  kDeflate  ///< see BlockCodec
};

/// Slots of int16 blocks of one size, each with a checksum that every use verifies. First all slots
/// are written, in any order and side by side, or taken up in files that other processes have
/// written; after finish() they are read. Move-only; for one thread at a time, but for in_place(),
/// which any may call.
class StageFile {
 public:
  StageFile() = default;
  /// `file` is empty, and what append() writes to; `name` is for messages.
  StageFile(Descriptor file, std::string name, StageCodec codec, std::int64_t slots,
            std::int64_t block);

  /// Bytes that a slot takes when it is not compressed.
  static std::int64_t raw_bytes(std::int64_t block);
  /// Writes the next bytes of a slot's block. With kNone they go to the file at once; a block that
  /// is to be compressed is held in memory until all of it is there. Throws Error naming the space
  /// that was wanted when the file system is full.
  void append(std::int64_t slot, std::span<const std::byte> bytes);
  /// The same of a whole block.
  void write(std::int64_t slot, std::span<const std::int16_t> counts) {
    append(slot, std::as_bytes(counts));
  }
  /// Takes up slots `first`, first + 1, ... that another process has written, of these checksums,
  /// to a StageFile of its own as slots 0, 1, ... in this order; kNone only.
  void adopt(Descriptor file, std::int64_t first, std::span<const std::uint32_t> checksums);
  /// Maps what was written. All slots must be there.
  void finish();

  /// Where each slot is; together with the files it is a stage that can be taken up again.
  struct Entry {
    std::int64_t file = 0;  ///< among files()
    std::int64_t offset = -1, bytes = 0;
    std::uint32_t checksum = 0;
  };
  const std::vector<Entry>& index() const { return index_; }
  /// Takes up files that were kept and hold all that the index names, instead of write() and
  /// finish().
  void reopen(std::vector<Descriptor> files, std::vector<Entry> index);

  StageCodec codec() const { return codec_; }
  std::int64_t slots() const { return static_cast<std::int64_t>(index_.size()); }
  /// Counts of a block.
  std::int64_t block() const { return block_; }
  std::int64_t stored_bytes() const;
  /// This object's own, and those that were adopted.
  const std::vector<MappedFile>& files() const { return files_; }
  const std::string& name() const { return name_; }

  /// Throws Error naming file and slot unless its bytes are those that were written.
  void verify(std::int64_t slot) const;
  /// The counts of a slot of kNone, for as long as this object lives. Not verified.
  const std::int16_t* in_place(std::int64_t slot) const;
  /// The bytes of a slot as they are in the file, of either codec; as in_place().
  std::span<const std::byte> stored(std::int64_t slot) const;
  /// The verified counts of a slot: in place, or inflated into `room`, of block() counts.
  std::span<const std::int16_t> read(std::int64_t slot, std::span<std::int16_t> room);

 private:
  std::int64_t block_bytes() const { return 2 * block_; }
  void place(Entry& entry, std::int64_t bytes);
  void store(Entry& entry, std::span<const std::byte> bytes);
  void map();

  std::vector<MappedFile> files_;
  std::string name_;
  StageCodec codec_ = StageCodec::kNone;
  std::int64_t block_ = 0;
  std::int64_t end_ = 0;  // of the slots in the first file
  std::vector<Entry> index_;
  std::map<std::int64_t, std::vector<std::int16_t>> held_;  // incomplete blocks, by slot
  BlockCodec block_codec_;
};

}  // namespace halomesh
