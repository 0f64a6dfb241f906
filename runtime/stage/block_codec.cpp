// SPDX-License-Identifier: Apache-2.0
// Compresses blocks of values: see block_codec.hpp.
#include "runtime/stage/block_codec.hpp"

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <cstring>

#include "error.hpp"
#include "narrow.hpp"

namespace halomesh {
namespace {

constexpr const char* kDamageCure = "start again: the data will be staged again";

// The library's pointers lack a const; it only reads its input.
std::uint8_t* bytes_of(const std::byte* data) {
  return reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(data));  // NOLINT: as said
}

/// An upper bound for deflated bytes: stored blocks of up to 65535 bytes add 5 bytes each.
std::size_t most_deflated(std::size_t bytes) { return bytes + 5 * (bytes / 65535 + 1) + 64; }

/// Moves byte k of value i between values[i * kBytes + k] and planes[k * stride + i].
template <std::size_t kBytes>
void split(const std::byte* values, std::size_t count, std::byte* planes) {
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t k = 0; k < kBytes; ++k) planes[k * count + i] = values[i * kBytes + k];
}
template <std::size_t kBytes>
void join(const std::byte* planes, std::size_t stride, std::size_t count, std::byte* values) {
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t k = 0; k < kBytes; ++k) values[i * kBytes + k] = planes[k * stride + i];
}

/// Splits two-byte values in words, which compilers vectorize.
void split_pairs(const std::byte* values, std::size_t count, std::byte* planes) {
  const auto* const words = reinterpret_cast<const std::uint16_t*>(values);  // NOLINT: aligned
  for (std::size_t i = 0; i < count; ++i) {
    planes[i] = static_cast<std::byte>(words[i] & 0xFFU);
    planes[count + i] = static_cast<std::byte>(words[i] >> 8U);
  }
}
void join_pairs(const std::byte* planes, std::size_t stride, std::size_t count, std::byte* values) {
  auto* const words = reinterpret_cast<std::uint16_t*>(values);  // NOLINT: aligned
  const std::byte *const low = planes, *const high = planes + stride;
  for (std::size_t i = 0; i < count; ++i)
    words[i] = static_cast<std::uint16_t>(std::to_integer<unsigned>(low[i]) |
                                          (std::to_integer<unsigned>(high[i]) << 8U));
}

void split(std::size_t size, const std::byte* values, std::size_t count, std::byte* planes) {
  if (size == 2)
    split_pairs(values, count, planes);
  else if (size == 4)
    split<4>(values, count, planes);
  else
    std::memcpy(planes, values, count);
}
void join(std::size_t size, const std::byte* planes, std::size_t stride, std::size_t count,
          std::byte* values) {
  if (size == 2)
    join_pairs(planes, stride, count, values);
  else if (size == 4)
    join<4>(planes, stride, count, values);
  else
    std::memcpy(values, planes, count);
}

}  // namespace

std::span<const std::byte> BlockCodec::deflate(std::span<const std::byte> values,
                                               std::int64_t size_of_value) {
  const auto size = static_cast<std::size_t>(size_of_value);
  const std::size_t count = values.size() / size;
  level_.resize(ISAL_DEF_LVL1_DEFAULT);
  std::size_t end = 0;  // the end of the output so far
  for (std::size_t at = 0; at < count; at += kPiece) {
    const std::size_t n = std::min(kPiece, count - at);
    planes_.resize(size * kPiece);
    split(size, values.data() + size * at, n, planes_.data());
    std::uint32_t bytes = 0;
    stream_.resize(std::max(stream_.size(), end + sizeof bytes + most_deflated(size * n)));
    isal_zstream state;
    isal_deflate_stateless_init(&state);
    state.level = 1;
    state.level_buf = bytes_of(level_.data());
    state.level_buf_size = narrow<std::uint32_t>(level_.size());
    state.end_of_stream = 1;
    state.next_in = bytes_of(planes_.data());
    state.avail_in = narrow<std::uint32_t>(size * n);
    state.next_out = bytes_of(stream_.data() + end + sizeof bytes);
    state.avail_out = narrow<std::uint32_t>(most_deflated(size * n));
    const int code = isal_deflate_stateless(&state);
    require(code == COMP_OK,
            text("a block of {} values cannot be compressed (ISA-L: {})", count, code),
            "use --stage-codec none");
    bytes = state.total_out;
    std::memcpy(stream_.data() + end, &bytes, sizeof bytes);
    end += sizeof bytes + bytes;
  }
  return std::span(stream_).first(end);
}

void BlockCodec::begin(std::span<const std::byte> stream, std::int64_t count, std::int64_t size) {
  left_ = stream;
  size_ = static_cast<std::size_t>(size);
  beyond_ = static_cast<std::size_t>(count);
  piece_ = given_ = 0;
}

void BlockCodec::next(std::span<std::byte> values) {
  while (!values.empty()) {
    if (given_ == piece_) inflate_piece();
    const std::size_t n = std::min(values.size() / size_, piece_ - given_);
    join(size_, planes_.data() + given_, piece_, n, values.data());
    given_ += n;
    values = values.subspan(size_ * n);
  }
  require(beyond_ > 0 || given_ < piece_ || left_.empty(),
          text("a compressed block has {} bytes too many", left_.size()), kDamageCure);
}

/// Inflates the next piece into planes_.
void BlockCodec::inflate_piece() {
  std::uint32_t bytes = 0;
  require(beyond_ > 0 && left_.size() >= sizeof bytes, "a compressed block ends too early",
          kDamageCure);
  std::memcpy(&bytes, left_.data(), sizeof bytes);
  left_ = left_.subspan(sizeof bytes);
  require(bytes <= left_.size(),
          text("a compressed block has {} bytes more, expected {}", left_.size(), bytes),
          kDamageCure);
  piece_ = std::min(kPiece, beyond_);
  given_ = 0;
  planes_.resize(size_ * kPiece);
  inflate_state state;
  isal_inflate_init(&state);
  state.next_in = bytes_of(left_.data());
  state.avail_in = bytes;
  state.next_out = bytes_of(planes_.data());
  state.avail_out = narrow<std::uint32_t>(size_ * piece_);
  const int code = isal_inflate_stateless(&state);
  require(code == ISAL_DECOMP_OK && state.total_out == size_ * piece_,
          text("a compressed piece of {} bytes is damaged (ISA-L: {}, {} of {} bytes)", bytes, code,
               state.total_out, size_ * piece_),
          kDamageCure);
  left_ = left_.subspan(bytes);
  beyond_ -= piece_;
}

}  // namespace halomesh
