// SPDX-License-Identifier: Apache-2.0
// Copies voxels to blocks: see block_writer.hpp.
#include "runtime/data/block_writer.hpp"

#include <algorithm>
#include <cstring>

#include "error.hpp"
#include "src/nn/counts.hpp"

namespace halomesh {
namespace {

// Calls store(i, bits of voxel i) for each voxel; returns the bitwise OR of all voxels.
template <class Store>
std::uint16_t for_each_voxel(const std::byte* from, std::int64_t count, const Store& store) {
  std::uint16_t seen = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint16_t x = 0;
    std::memcpy(&x, from + 2 * i, sizeof x);
    seen = static_cast<std::uint16_t>(seen | x);
    store(i, x);
  }
  return seen;
}

}  // namespace

BlockWriter::BlockWriter(const Shape& sample, AnyView block, DataType stored)
    : block_(block), stored_(stored), size_(size_of(stored)), runs_(sample, block.span) {
  require(block.span.empty() || stored == block.type ||
              (stored == DataType::kInt16 && block.type == DataType::kFloat32),
          text("samples of {} for a network that reads {}", name_of(stored), name_of(block.type)),
          "use a network for such data, or other data");
}

void BlockWriter::take(std::int64_t offset, std::span<const std::byte> bytes) {
  if (block_.span.empty() || bytes.empty()) return;
  const auto size = static_cast<std::size_t>(size_);
  if (begun_bytes_ > 0) {
    const auto have = static_cast<std::size_t>(begun_bytes_);
    const std::size_t more = std::min(size - have, bytes.size());
    std::memcpy(begun_.data() + have, bytes.data(), more);
    begun_bytes_ += static_cast<std::int64_t>(more);
    bytes = bytes.subspan(more);
    offset += static_cast<std::int64_t>(more);
    if (begun_bytes_ < size_) return;
    begun_bytes_ = 0;
    take_values(offset / size_ - 1, std::span(begun_).first(size));
  }
  const std::size_t left = bytes.size() % size;
  begun_bytes_ = static_cast<std::int64_t>(left);
  std::memcpy(begun_.data(), bytes.data() + bytes.size() - left, left);
  take_values(offset / size_, bytes.first(bytes.size() - left));
}

void BlockWriter::take_values(std::int64_t first, std::span<const std::byte> bytes) {
  runs_.each(first, first + std::ssize(bytes) / size_,
             [&](std::int64_t lo, std::int64_t hi, std::int64_t at) {
               place(at, lo, bytes.data() + size_ * (lo - first), hi - lo);
             });
}

void BlockWriter::place(std::int64_t to, std::int64_t index, const std::byte* from,
                        std::int64_t count) {
  if (stored_ == DataType::kInt16)
    place_counts(to, index, from, count);
  else
    std::memcpy(block_.data + size_ * to, from, static_cast<std::size_t>(size_ * count));
}

void BlockWriter::place_counts(std::int64_t to, std::int64_t index, const std::byte* from,
                               std::int64_t count) {
  std::uint16_t seen = 0;
  if (block_.type == DataType::kInt16) {
    std::int16_t* const dst = block_.as<std::int16_t>().data + to;
    seen = for_each_voxel(from, count, [dst](std::int64_t i, std::uint16_t x) {
      dst[i] = static_cast<std::int16_t>(x);
    });
  } else {
    float* const dst = block_.as<float>().data + to;
    seen = for_each_voxel(from, count, [dst, table = log_table()](std::int64_t i, std::uint16_t x) {
      dst[i] = table[x & 0x7FFFU];
    });
  }
  if ((seen & 0x8000U) == 0 || negative_) return;
  std::int16_t value = 0;
  for (; value >= 0; ++index, from += 2) std::memcpy(&value, from, sizeof value);
  negative_ = {index - 1, static_cast<double>(value)};
}

}  // namespace halomesh
