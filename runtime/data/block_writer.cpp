// SPDX-License-Identifier: Apache-2.0
// Copies voxels to blocks: see block_writer.hpp.
#include "runtime/data/block_writer.hpp"

#include <cstring>

#include "error.hpp"
#include "src/nn/counts.hpp"

namespace halomesh {
BlockWriter::BlockWriter(const Shape& sample, AnyView block, DataType stored)
    : block_(block), stored_(stored), size_(size_of(stored)), runs_(sample, block.span) {
  require(block.span.empty() || stored == block.type ||
              (stored == DataType::kInt16 && block.type == DataType::kFloat32),
          text("samples of {} for a network that reads {}", name_of(stored), name_of(block.type)),
          "use a network for such data, or other data");
}

void BlockWriter::take(std::int64_t offset, std::span<const std::byte> bytes) {
  if (block_.span.empty() || bytes.empty()) return;
  const std::int64_t first = offset / size_;
  runs_.each(first, first + std::ssize(bytes) / size_,
             [&](std::int64_t lo, std::int64_t hi, std::int64_t at) {
               place(at, bytes.data() + size_ * (lo - first), hi - lo);
             });
}

void BlockWriter::place(std::int64_t to, const std::byte* from, std::int64_t count) {
  if (stored_ == block_.type) {
    std::memcpy(block_.data + size_ * to, from, static_cast<std::size_t>(size_ * count));
    return;
  }
  float* const dst = block_.as<float>().data + to;
  const auto table = log_table();
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint16_t x = 0;
    std::memcpy(&x, from + 2 * i, sizeof x);
    dst[i] = table[x & 0x7FFFU];
  }
}

}  // namespace halomesh
