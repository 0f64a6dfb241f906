// SPDX-License-Identifier: Apache-2.0
// Voxels into blocks: see block_writer.hpp.
#include "runtime/data/block_writer.hpp"

#include <algorithm>
#include <array>
#include <cstring>

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

void BlockWriter::take(std::int64_t offset, std::span<const std::byte> bytes) {
  if (block_.span.empty() || bytes.empty()) return;
  if (half_) {
    const std::array<std::byte, 2> voxel{*half_, bytes.front()};
    half_.reset();
    take_voxels((offset - 1) / 2, voxel);
    bytes = bytes.subspan(1);
    ++offset;
  }
  if (bytes.size() % 2 != 0) half_ = bytes.back();
  take_voxels(offset / 2, bytes.first(bytes.size() / 2 * 2));
}

void BlockWriter::take_voxels(std::int64_t first, std::span<const std::byte> bytes) {
  runs_.each(first, first + std::ssize(bytes) / 2,
             [&](std::int64_t lo, std::int64_t hi, std::int64_t at) {
               place(at, lo, bytes.data() + 2 * (lo - first), hi - lo);
             });
}

void BlockWriter::place(std::int64_t to, std::int64_t index, const std::byte* from,
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
  negative_ = {index - 1, value};
}

}  // namespace halomesh
