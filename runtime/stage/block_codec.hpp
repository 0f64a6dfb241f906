// SPDX-License-Identifier: Apache-2.0
// Blocks of counts in fewer bytes: bytes of equal significance together, then deflate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace halomesh {

/// Compresses and decompresses one block at a time; its buffers are reused. Not for two threads.
class BlockCodec {
 public:
  /// Of what deflate() writes: to be raised with any change of it, as it may be kept.
  static constexpr int kFormat = 2;

  /// The counts in pieces of kPiece, valid until the next call. A piece is the number of its bytes
  /// (32 bits, of this host) and a raw deflate stream (RFC 1951): all low bytes first, then all
  /// high bytes, which are mostly zero. Made by ISA-L at level 1.
  std::span<const std::byte> deflate(std::span<const std::int16_t> counts);
  /// Undoes deflate(); `counts` has as many elements as were compressed. Throws Error when the
  /// stream is damaged or of another length.
  void inflate(std::span<const std::byte> stream, std::span<std::int16_t> counts) {
    begin(stream, std::ssize(counts));
    next(counts);
  }

  /// Begins a block of `count` counts that is to be inflated bit by bit, for which a piece is held;
  /// `stream` stays where it is until the last of them.
  void begin(std::span<const std::byte> stream, std::int64_t count);
  /// Its next counts. Throws as inflate() does, at the latest with the last ones.
  void next(std::span<std::int16_t> counts);

 private:
  static constexpr std::size_t kPiece = 64 * 1024;
  void inflate_piece();

  std::vector<std::byte> planes_, stream_, level_;
  // Of the block that is being inflated: what is left of its stream, counts beyond the piece in
  // planes_, those of the piece and how many of them were given.
  std::span<const std::byte> left_;
  std::size_t beyond_ = 0, piece_ = 0, given_ = 0;
};

}  // namespace halomesh
