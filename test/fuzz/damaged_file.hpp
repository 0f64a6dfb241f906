// SPDX-License-Identifier: Apache-2.0
// Damage to a sound HDF5 file. The checksums of its values can be made right again; those of HDF5's
// metadata cannot, as the library's own decoders are not what is tested.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/hdf5/chunk_codec.hpp"
#include "runtime/posix/crc32c.hpp"
#include "test/fuzz/scratch.hpp"

namespace halomesh::fuzz {

/// `file` after changes of four bytes each: where (two of them), how, and with which byte. The
/// place 0xffff cuts the file where the other two say.
inline std::vector<std::uint8_t> damaged(std::vector<std::uint8_t> file, Bytes changes) {
  for (; changes.size() >= 4 && !file.empty(); changes = changes.subspan(4)) {
    const std::size_t at = changes[0] + 256U * changes[1];
    if (at == 0xffff) {
      file.resize((changes[2] + 256U * changes[3]) % (file.size() + 1));
      continue;
    }
    std::uint8_t& byte = file[at % file.size()];
    byte = static_cast<std::uint8_t>(changes[2] % 2 == 0 ? changes[3] : byte ^ changes[3]);
  }
  return file;
}

/// Where the values of a file are, and the checksums that HDF5 puts after each chunk.
class Chunks {
 public:
  /// `datasets`: the values of each, which are one chunk of the file and differ from all others.
  Chunks(const std::vector<std::uint8_t>& sound, const std::vector<Bytes>& datasets) {
    for (const Bytes values : datasets) {
      const auto found = std::search(sound.begin(), sound.end(), values.begin(), values.end());
      require(found != sound.end(), "a dataset is not in the file as it is in memory");
      chunks_.push_back({static_cast<std::size_t>(found - sound.begin()), values.size()});
    }
  }

  /// The file with the first bytes of `values` in the chunks, and their checksums.
  std::vector<std::uint8_t> replaced(std::vector<std::uint8_t> file, Bytes values) const {
    for (const auto& [begin, size] : chunks_) {
      const std::size_t count = std::min(size, values.size());
      std::copy_n(values.begin(), count, file.begin() + static_cast<std::ptrdiff_t>(begin));
      values = values.subspan(count);
      const std::uint32_t sum = fletcher32(std::as_bytes(Bytes(file.data() + begin, size)));
      std::memcpy(file.data() + begin + size, &sum, sizeof sum);
    }
    return file;
  }

 private:
  struct Chunk {
    std::size_t begin, size;
  };
  std::vector<Chunk> chunks_;
};

}  // namespace halomesh::fuzz
