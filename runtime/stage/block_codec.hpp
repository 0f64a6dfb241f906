// SPDX-License-Identifier: Apache-2.0
// Compresses blocks of values: groups bytes by significance, then deflates them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace halomesh {

/// Compresses and decompresses one block at a time and reuses its buffers. For one thread.
class BlockCodec {
 public:
  /// The version of the format that deflate() writes. Raise it with every change, because stages
  /// may be kept.
  static constexpr int kFormat = 2;

  /// Compresses values of `size` bytes (1, 2 or 4) in pieces of kPiece; the result is valid until
  /// the next call. A piece is its size in bytes (32 bits, host byte order) and a raw deflate
  /// stream (RFC 1951) of the lowest bytes of all values, then the next ones, and so on; in counts,
  /// the high bytes are mostly zero. Uses ISA-L at level 1.
  std::span<const std::byte> deflate(std::span<const std::byte> values, std::int64_t size);
  /// Undoes deflate(); `values` has as many bytes as were compressed. Throws Error if the stream is
  /// damaged or has another length.
  void inflate(std::span<const std::byte> stream, std::span<std::byte> values, std::int64_t size) {
    begin(stream, std::ssize(values) / size, size);
    next(values);
  }

  /// Begins to inflate a block of `count` values of `size` bytes step by step, with one piece in
  /// memory; `stream` must stay valid until the last step.
  void begin(std::span<const std::byte> stream, std::int64_t count, std::int64_t size);
  /// Inflates the next values, all of them whole. Throws as inflate() does, at the latest with the
  /// last values.
  void next(std::span<std::byte> values);

 private:
  static constexpr std::size_t kPiece = 64 * 1024;
  void inflate_piece();

  std::vector<std::byte> planes_, stream_, level_;
  // The block being inflated: the rest of its stream, the bytes of a value, the number of values
  // after the piece in planes_, the values of the piece and how many of them have been returned.
  std::span<const std::byte> left_;
  std::size_t size_ = 2, beyond_ = 0, piece_ = 0, given_ = 0;
};

}  // namespace halomesh
