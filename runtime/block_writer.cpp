// Voxels into blocks: see block_writer.hpp.
#include "runtime/block_writer.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "src/nn/counts.hpp"

namespace halomesh {
namespace {

// Calls store(i, bits of voxel i) for each voxel; returns the bits that any of them had.
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

// Goes through what is contiguous in both the sample and the block: rows where the block has all
// channels, pixels otherwise.
void BlockWriter::take_voxels(std::int64_t first, std::span<const std::byte> bytes) {
  const Box& box = block_.span;
  const std::int64_t end = first + static_cast<std::int64_t>(bytes.size()) / 2;
  const std::int64_t unit = all_channels_ ? sample_.w * sample_.c : sample_.c;
  const TensorView<char> place_in{nullptr, box, 1};
  for (std::int64_t at = first; at < end;) {
    const std::int64_t start = at / unit * unit, pixel = start / sample_.c;
    const std::int64_t w = all_channels_ ? box.lo[kW] : pixel % sample_.w;
    const std::int64_t h = pixel / sample_.w % sample_.h, d = pixel / sample_.w / sample_.h;
    const std::int64_t lo = start + (all_channels_ ? box.lo[kW] * sample_.c : box.lo[kC]);
    const std::int64_t hi = start + (all_channels_ ? box.hi[kW] * sample_.c : box.hi[kC]);
    const std::int64_t a = std::max(at, lo), b = std::min(end, hi);
    const bool inside = d >= box.lo[kD] && d < box.hi[kD] && h >= box.lo[kH] && h < box.hi[kH] &&
                        w >= box.lo[kW] && w < box.hi[kW];
    if (inside && a < b)
      place(place_in.offset(0, box.lo[kC], d, h, w) + a - lo, a, bytes.data() + 2 * (a - first),
            b - a);
    at = start + unit;
  }
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
