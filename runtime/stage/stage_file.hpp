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
  kNone,    ///< values are stored unchanged: blocks are used in place
  kDeflate  ///< see BlockCodec
};

/// Slots of blocks of one type, each with a checksum that is verified at every use. All slots are
/// first written, in any order and interleaved, or adopted or included in files of other processes;
/// after finish() they are read. A block without values exists from the start. Move-only; for one
/// thread at a time, except stored(), which any thread may call.
class StageFile {
 public:
  StageFile() = default;
  /// `file` is empty; append() writes to it. `name` appears in messages. The block of each slot has
  /// `values` of `type`.
  StageFile(Descriptor file, std::string name, StageCodec codec, std::vector<std::int64_t> values,
            DataType type);

  /// Bytes that a slot takes without compression.
  static std::int64_t raw_bytes(std::int64_t block, DataType type);
  /// Writes the next bytes of a slot's block. With kNone they go to the file at once; a block that
  /// is to be compressed is held in memory until it is complete. If the file system is full, throws
  /// Error naming the space needed.
  void append(std::int64_t slot, std::span<const std::byte> bytes);
  /// Writes the next bytes of a slot as another StageFile of this codec has stored() them;
  /// `stored_size` is their total number.
  void append_stored(std::int64_t slot, std::int64_t stored_size, std::span<const std::byte> bytes);
  /// Adopts a file that another process has written as its own StageFile: its slots 0, 1, ... with
  /// these checksums become `first`, first + 1, ...; kNone only.
  void adopt(Descriptor file, std::int64_t first, std::span<const std::uint32_t> checksums);
  /// Maps the written files. All slots must exist.
  void finish();

  /// The place of a slot. Together with the files, entries make a stage that can be reused.
  struct Entry {
    std::int64_t file = 0;  ///< the index in files()
    std::int64_t offset = -1, bytes = 0;
    std::uint32_t checksum = 0;
  };
  const std::vector<Entry>& index() const { return index_; }
  struct Placed {
    std::int64_t slot = 0;
    Entry entry;  ///< its `file` is the index among the files included with it
  };
  /// Adds files that another StageFile has written, with their slots, which can be read before
  /// finish().
  void include(std::vector<Descriptor> files, std::span<const Placed> slots);
  /// Reuses kept files that hold all slots of the index, instead of writing and finish().
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
  /// The stored bytes of a slot, valid as long as this object. With kNone they are its values,
  /// aligned to 64 bytes. Not verified.
  std::span<const std::byte> stored(std::int64_t slot) const;
  /// The verified values of a slot: in place, or inflated into `room`, which has the size of its
  /// block.
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
  std::vector<std::int64_t> values_;  // by slot
  DataType type_ = DataType::kInt16;
  std::int64_t end_ = 0;  // the end of the slots in the first file
  std::vector<Entry> index_;
  std::map<std::int64_t, std::vector<std::byte>> held_;  // incomplete blocks, by slot
  BlockCodec block_codec_;
};

}  // namespace halomesh
