// SPDX-License-Identifier: Apache-2.0
// Copies under a symmetry: see transform.hpp.
#include "src/nn/transform.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "partition/box_runs.hpp"
#include "src/nn/counts.hpp"

namespace halomesh {
namespace {

// Pixels along each axis of the tiles that are copied one after the other: both the lines read and
// the lines written are fully used while they are in the cache, for any permutation of axes.
constexpr std::int64_t kTile = 8;

struct Logarithm {
  std::span<const float, 32768> table = log_table();
  float operator()(std::int16_t x) const { return table[static_cast<std::size_t>(x) & 0x7FFFU]; }
};

/// Steps in elements along the axes of the transformed sample.
using Strides = std::array<std::int64_t, 3>;

Strides strides_of(const Box& span) {
  const std::int64_t w = span.extent(kC), h = w * span.extent(kW);
  return {h * span.extent(kH), h, w};
}

// Copies a box; n holds its extents in the transformed sample. Rows run along the last axis.
template <class From, class To, class Convert>
void copy(const From* from, const Strides& from_step, To* to, const Strides& to_step,
          const Spatial& n, std::int64_t channels, Convert convert) {
  if (from_step[2] == channels && to_step[2] == channels) {  // whole rows need no tiles
    for (std::int64_t d = 0; d < n[0]; ++d)
      for (std::int64_t h = 0; h < n[1]; ++h)
        std::transform(from + d * from_step[0] + h * from_step[1],
                       from + d * from_step[0] + h * from_step[1] + n[2] * channels,
                       to + d * to_step[0] + h * to_step[1], convert);
    return;
  }
  const auto copy_pixels = [&](std::int64_t d, std::int64_t h, std::int64_t w, std::int64_t end) {
    for (; w < end; ++w)
      for (std::int64_t c = 0; c < channels; ++c)
        to[d * to_step[0] + h * to_step[1] + w * to_step[2] + c] =
            convert(from[d * from_step[0] + h * from_step[1] + w * from_step[2] + c]);
  };
  for (std::int64_t d0 = 0; d0 < n[0]; d0 += kTile)
    for (std::int64_t h0 = 0; h0 < n[1]; h0 += kTile)
      for (std::int64_t w0 = 0; w0 < n[2]; w0 += kTile)
        for (std::int64_t d = d0; d < std::min(d0 + kTile, n[0]); ++d)
          for (std::int64_t h = h0; h < std::min(h0 + kTile, n[1]); ++h)
            copy_pixels(d, h, w0, std::min(w0 + kTile, n[2]));
}

}  // namespace

void transform(AnyConstView src, const Box& source, const Symmetry& symmetry, const Shape& shape,
               AnyView dst) {
  if (source.empty()) return;
  const Box image = symmetry.mapped(source, shape);
  require(src.span.contains(source) && dst.span.contains(image),
          text("box {} of {} transformed into {} of {}", source, src.span, image, dst.span));
  const Strides along = strides_of(src.span);
  Strides step{};
  Box first = source;  // its corner is the source of the image's first pixel
  Spatial extents{};
  for (std::size_t a = 0; a < 3; ++a) {
    const std::size_t b = symmetry.permutation[a];
    step[a] = symmetry.flip[b] ? -along[b] : along[b];
    if (symmetry.flip[b]) first.lo[b + 1] = source.hi[b + 1] - 1;
    extents[a] = image.extent(a + 1);
  }
  const auto run = [&](auto from, auto to, const auto& convert) {
    copy(from.begin_of(0, first), step, to.begin_of(0, image), strides_of(dst.span), extents,
         source.extent(kC), convert);
  };
  if (src.type == DataType::kUint8)
    run(src.as<std::uint8_t>(), dst.as<std::uint8_t>(), std::identity{});
  else if (src.type == DataType::kFloat32)
    run(src.as<float>(), dst.as<float>(), std::identity{});
  else if (dst.type == DataType::kInt16)
    run(src.as<std::int16_t>(), dst.as<std::int16_t>(), std::identity{});
  else
    run(src.as<std::int16_t>(), dst.as<float>(), Logarithm{});
}

void transform_in_place(AnyView block, DataType stored, const Box& source, const Symmetry& symmetry,
                        const Shape& shape, std::span<std::byte> room) {
  if (source.empty()) return;
  const Box image = symmetry.mapped(source, shape);
  const std::int64_t size = size_of(stored);
  require(block.span.contains(image) && std::ssize(room) >= size * source.volume(),
          text("box {} of {} transformed by way of {} bytes", image, block.span, room.size()));
  // Offsets in units of a stored value: an fp32 value is two units of a count, and the first half
  // of a pixel holds its counts.
  const std::int64_t unit = size_of(block.type) / size;
  const auto along = [&](std::size_t axis) {
    const std::int64_t origin = block.span.lo[axis];
    return BoxRuns::AxisCut{block.span.extent(axis), image.lo[axis] - origin,
                            image.hi[axis] - origin};
  };
  BoxRuns::AxisCut channels = along(kC);
  channels.extent *= unit;
  channels.lo *= unit;
  channels.hi = channels.lo + image.extent(kC);
  BoxRuns(std::array{along(kD), along(kH), along(kW), channels})
      .each([&](std::int64_t lo, std::int64_t hi, std::int64_t at) {
        std::memcpy(room.data() + size * at, block.data + size * lo,
                    static_cast<std::size_t>(size * (hi - lo)));
      });
  transform(AnyConstView{room.data(), stored, source, 1}, source, symmetry, shape, block);
}

}  // namespace halomesh
