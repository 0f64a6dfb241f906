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
#include "src/nn/data_type.hpp"

namespace halomesh {

enum class StageCodec : std::uint8_t {
  kNone,    ///< values as they are: blocks are used in place
  kDeflate  ///< see BlockCodec
};

/// Slots of blocks of one type, each with a checksum that is verified at every use. First all slots
/// are written, in any order and interleaved, or adopted or included in files that other processes
/// have written; after finish() they are read. A block without values is there from the start.
/// Move-only; for one thread at a time, except stored(), which any thread may call.
class StageFile {
 public:
  StageFile() = default;
  /// `file` is empty; append() writes to it. `name` is for messages. The block of each slot has
  /// `values` of `type`.
  StageFile(Descriptor file, std::string name, StageCodec codec, std::vector<std::int64_t> values,
            DataType type);

  /// Bytes that a slot takes when it is not compressed.
  static std::int64_t raw_bytes(std::int64_t block, DataType type);
  /// Writes the next bytes of a slot's block. With kNone they go to the file at once; a block to be
  /// compressed is held in memory until it is complete. If the file system is full, throws Error
  /// naming the space needed.
  void append(std::int64_t slot, std::span<const std::byte> bytes);
  /// Writes the next bytes of a slot as another StageFile of the same codec has stored() them;
  /// `stored_size` is their number in all.
  void append_stored(std::int64_t slot, std::int64_t stored_size, std::span<const std::byte> bytes);
  /// Adopts slots `first`, first + 1, ... with these checksums, which another process has written
  /// to its own StageFile as slots 0, 1, ... in this order; kNone only.
  void adopt(Descriptor file, std::int64_t first, std::span<const std::uint32_t> checksums);
  /// Maps what was written. All slots must be there.
  void finish();

  /// Where each slot is; together with the files this is a stage that can be reused.
  struct Entry {
    std::int64_t file = 0;  ///< among files()
    std::int64_t offset = -1, bytes = 0;
    std::uint32_t checksum = 0;
  };
  const std::vector<Entry>& index() const { return index_; }
  struct Placed {
    std::int64_t slot = 0;
    Entry entry;  ///< its `file` counts from the first of the files that come with it
  };
  /// Adds files that another StageFile has written and the slots in them, which can be read before
  /// finish().
  void include(std::vector<Descriptor> files, std::span<const Placed> slots);
  /// Reuses kept files that hold everything in the index, instead of write() and finish().
  void reopen(std::vector<Descriptor> files, std::vector<Entry> index);

  StageCodec codec() const { return codec_; }
  std::int64_t slots() const { return static_cast<std::int64_t>(index_.size()); }
  DataType type() const { return type_; }
  std::int64_t stored_bytes() const;
  /// This object's own file and the adopted ones.
  const std::vector<MappedFile>& files() const { return files_; }
  const std::string& name() const { return name_; }

  /// Verifies a slot. Throws Error naming file and slot if its bytes have changed.
  void verify(std::int64_t slot) const;
  /// The bytes of a slot as stored, valid as long as this object. With kNone they are its values,
  /// aligned to 64 bytes. Not verified.
  std::span<const std::byte> stored(std::int64_t slot) const;
  /// The verified values of a slot: in place, or inflated into `room`, of the size of its block.
  std::span<const std::byte> read(std::int64_t slot, std::span<std::byte> room);

 private:
  std::int64_t block_bytes(std::int64_t slot) const {
    return size_of(type_) * values_.at(static_cast<std::size_t>(slot));
  }
  void place(Entry& entry, std::int64_t bytes);
  void store(Entry& entry, std::span<const std::byte> bytes);
  void map(std::size_t first_file);

  std::vector<MappedFile> files_;
  std::string name_;
  StageCodec codec_ = StageCodec::kNone;
  std::vector<std::int64_t> values_;  // of each slot
  DataType type_ = DataType::kInt16;
  std::int64_t end_ = 0;  // of the slots in the first file
  std::vector<Entry> index_;
  std::map<std::int64_t, std::vector<std::byte>> held_;  // incomplete blocks, by slot
  BlockCodec block_codec_;
};

}  // namespace halomesh
