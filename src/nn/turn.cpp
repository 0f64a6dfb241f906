// Copies under a symmetry: see turn.hpp.
#include "src/nn/turn.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "src/nn/counts.hpp"

namespace halomesh {
namespace {

// Pixels along each axis of the tiles that are copied one after the other: both the lines read and
// the lines written are used whole while they are in the cache, whatever axes run along them.
constexpr std::int64_t kTile = 8;

struct Copied {
  std::int16_t operator()(std::int16_t x) const { return x; }
};
struct Logarithm {
  std::span<const float, 32768> table = log_table();
  float operator()(std::int16_t x) const { return table[static_cast<std::size_t>(x) & 0x7FFFU]; }
};

/// Steps in elements along the axes of the turned sample.
using Strides = std::array<std::int64_t, 3>;

Strides strides_of(const Box& span) {
  const std::int64_t w = span.extent(kC), h = w * span.extent(kW);
  return {h * span.extent(kH), h, w};
}

// n: extents of the box in the turned sample; rows along its last axis.
template <class To, class Convert>
void copy(const std::int16_t* from, const Strides& from_step, To* to, const Strides& to_step,
          const Spatial& n, std::int64_t channels, Convert convert) {
  if (from_step[2] == channels && to_step[2] == channels) {  // whole rows: nothing to tile
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

void turn(TensorView<const std::int16_t> counts, const Box& source, const Symmetry& symmetry,
          const Shape& shape, AnyView dst) {
  if (source.empty()) return;
  const Box image = symmetry.image_of(source, shape);
  require(counts.span.contains(source) && dst.span.contains(image),
          cat("box ", source, " of ", counts.span, " turned into ", image, " of ", dst.span));
  const Strides along = strides_of(counts.span);
  Strides step{};
  Box first = source;  // its corner is where the first pixel of the image comes from
  Spatial extents{};
  for (std::size_t a = 0; a < 3; ++a) {
    const std::size_t b = symmetry.permutation[a];
    step[a] = symmetry.flip[b] ? -along[b] : along[b];
    if (symmetry.flip[b]) first.lo[b + 1] = source.hi[b + 1] - 1;
    extents[a] = image.extent(a + 1);
  }
  const std::int16_t* const from = counts.begin_of(0, first);
  const Strides to_step = strides_of(dst.span);
  if (dst.type == DataType::kInt16)
    copy(from, step, dst.as<std::int16_t>().begin_of(0, image), to_step, extents, source.extent(kC),
         Copied{});
  else
    copy(from, step, dst.as<float>().begin_of(0, image), to_step, extents, source.extent(kC),
         Logarithm{});
}

void turn_in_place(AnyView block, const Box& source, const Symmetry& symmetry, const Shape& shape,
                   std::span<std::int16_t> room) {
  if (source.empty()) return;
  const Box image = symmetry.image_of(source, shape);
  require(block.span.contains(image) && std::ssize(room) >= source.volume(),
          cat("box ", image, " of ", block.span, " turned by way of ", room.size(), " counts"));
  // What is contiguous: a row where numbers are counts, else half a pixel.
  const std::int64_t pixels = block.type == DataType::kInt16 ? image.extent(kW) : 1;
  const auto run = static_cast<std::size_t>(pixels * image.extent(kC));
  Box at = image;
  for (std::int16_t* to = room.data(); at.lo[kD] < image.hi[kD]; ++at.lo[kD])
    for (at.lo[kH] = image.lo[kH]; at.lo[kH] < image.hi[kH]; ++at.lo[kH])
      for (at.lo[kW] = image.lo[kW]; at.lo[kW] < image.hi[kW]; at.lo[kW] += pixels, to += run)
        std::memcpy(to, block.begin_of(0, at), run * sizeof *to);
  turn({room.data(), source, 1}, source, symmetry, shape, block);
}

}  // namespace halomesh
