// Blocks of counts in fewer bytes: bytes of equal significance together, then deflate.
// Knows nothing of files, samples or ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace halomesh {

/// Compresses and decompresses one block at a time; its buffers are reused. Not for two threads.
class BlockCodec {
 public:
  /// The counts as a raw deflate stream (RFC 1951), valid until the next call: all low bytes first,
  /// then all high bytes, which are mostly zero. Made by ISA-L at level 1.
  std::span<const std::byte> deflate(std::span<const std::int16_t> counts);
  /// Undoes deflate(); `counts` has as many elements as were compressed. Throws Error when the
  /// stream is damaged or of another length.
  void inflate(std::span<const std::byte> stream, std::span<std::int16_t> counts);

 private:
  std::vector<std::byte> planes_, stream_, level_;
};

}  // namespace halomesh
