// Blocks of counts in fewer bytes: see block_codec.hpp.
#include "runtime/block_codec.hpp"

#include <isa-l/igzip_lib.h>

#include "error.hpp"
#include "narrow.hpp"

namespace halomesh {
namespace {

// The library's pointers lack a const; it only reads its input.
std::uint8_t* bytes_of(const std::byte* data) {
  return reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(data));  // NOLINT: as said
}

}  // namespace

std::span<const std::byte> BlockCodec::deflate(std::span<const std::int16_t> counts) {
  const std::size_t n = counts.size();
  planes_.resize(2 * n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = static_cast<std::uint16_t>(counts[i]);
    planes_[i] = static_cast<std::byte>(bits & 0xFFU);
    planes_[n + i] = static_cast<std::byte>(bits >> 8U);
  }
  // Stored blocks of up to 65535 bytes take 5 bytes more each: the most that deflate ever needs.
  level_.resize(ISAL_DEF_LVL1_DEFAULT);
  stream_.resize(2 * n + 5 * (2 * n / 65535 + 1) + 64);
  isal_zstream state;
  isal_deflate_stateless_init(&state);
  state.level = 1;
  state.level_buf = bytes_of(level_.data());
  state.level_buf_size = narrow<std::uint32_t>(level_.size());
  state.end_of_stream = 1;
  state.next_in = bytes_of(planes_.data());
  state.avail_in = narrow<std::uint32_t>(planes_.size());
  state.next_out = bytes_of(stream_.data());
  state.avail_out = narrow<std::uint32_t>(stream_.size());
  const int code = isal_deflate_stateless(&state);
  require(code == COMP_OK,
          cat("a block of ", n, " counts cannot be compressed (ISA-L: ", code, ")"),
          "use --stage-codec none");
  return std::span(stream_).first(state.total_out);
}

void BlockCodec::inflate(std::span<const std::byte> stream, std::span<std::int16_t> counts) {
  const std::size_t n = counts.size();
  planes_.resize(2 * n);
  inflate_state state;
  isal_inflate_init(&state);
  state.next_in = bytes_of(stream.data());
  state.avail_in = narrow<std::uint32_t>(stream.size());
  state.next_out = bytes_of(planes_.data());
  state.avail_out = narrow<std::uint32_t>(planes_.size());
  const int code = isal_inflate_stateless(&state);
  require(code == ISAL_DECOMP_OK && state.total_out == planes_.size(),
          cat("a compressed block of ", stream.size(), " bytes is damaged (ISA-L: ", code, ", ",
              state.total_out, " of ", planes_.size(), " bytes)"),
          "start again: the data is then staged anew");
  for (std::size_t i = 0; i < n; ++i)
    counts[i] = static_cast<std::int16_t>(static_cast<unsigned>(planes_[i]) |
                                          (static_cast<unsigned>(planes_[n + i]) << 8U));
}

}  // namespace halomesh
