// SPDX-License-Identifier: Apache-2.0
// The pieces of a fused convolution block: see convolution_block_geometry.hpp.
#include "src/nn/kernels/convolution_block_geometry.hpp"

#include <algorithm>

#include "error.hpp"

namespace halomesh {
namespace {

// Calls body(lo, hi) for the blocks of at most `size` planes of [lo, hi), all but the last equal.
template <class Body>
void for_each_block(std::int64_t lo, std::int64_t hi, std::int64_t size, const Body& body) {
  const std::int64_t blocks = (hi - lo + size - 1) / size, even = (hi - lo + blocks - 1) / blocks;
  for (std::int64_t at = lo; at < hi; at += even) body(at, std::min(at + even, hi));
}

}  // namespace

ConvolutionBlockGeometry::ConvolutionBlockGeometry(const WindowOptions& window, const Spatial& pool,
                                                   std::int64_t filters, const Shape& src)
    : options_(window), window_(window.resolve(src.spatial())), pool_(pool), src_(src) {
  Window windows;
  for (std::size_t a = 0; a < 3; ++a) windows[a] = valid_window(pool[a], pool[a]);
  const Spatial extents = dst_extents(windows, dst_extents(window_, src.spatial()));
  dst_ = {filters, extents[0], extents[1], extents[2]};
}

Box ConvolutionBlockGeometry::conv_box(const Box& dst) const {
  Box box = dst;
  for (std::size_t a = 0; a < 3; ++a) {
    box.lo[a + 1] *= pool_[a];
    box.hi[a + 1] *= pool_[a];
  }
  return box.normalized();
}

Box ConvolutionBlockGeometry::reading(const Box& src) const {
  Box box = Box::whole(dst_);
  for (std::size_t a = 0; a < 3; ++a) {
    // Element q reads planes q - pad_before to q - pad_before + reach - 1.
    const std::int64_t first = src.lo[a + 1] + window_[a].pad_before - window_[a].reach() + 1;
    const std::int64_t end = src.hi[a + 1] + window_[a].pad_before;
    box.lo[a + 1] = std::max<std::int64_t>(first, 0) / pool_[a];
    box.hi[a + 1] = std::min((end + pool_[a] - 1) / pool_[a], box.hi[a + 1]);
  }
  return src.empty() ? Box{} : box.normalized();
}

Box ConvolutionBlockGeometry::src_block(const Box& dst) const {
  Box box = Box::whole(src_);
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t covered = pool_[a] * dst_.spatial()[a];
    require(covered == box.extent(a + 1),
            text("pooling windows of {} that cover {} of {} elements", pool_[a], covered,
                 box.extent(a + 1)),
            "for --reproducible use extents that every pooling halves evenly");
    box.lo[a + 1] = pool_[a] * dst.lo[a + 1];
    box.hi[a + 1] = pool_[a] * dst.hi[a + 1];
  }
  return dst.empty() ? Box{} : box.normalized();
}

ConvolutionGeometry ConvolutionBlockGeometry::convolution(const ConvolutionPiece& piece) const {
  ConvolutionGeometry g{piece.src.shape(),
                        piece.conv.shape(),
                        options_.kernel,
                        options_.stride,
                        options_.dilation,
                        {},
                        {}};
  for (std::size_t a = 0; a < 3; ++a) {
    const Range reads = window_[a].reads({piece.conv.lo[a + 1], piece.conv.hi[a + 1]});
    g.pad_before[a] = piece.src.lo[a + 1] - reads.lo;
    g.pad_after[a] = reads.hi - piece.src.hi[a + 1];
  }
  return g;
}

std::vector<ConvolutionPiece> ConvolutionBlockGeometry::split_dst(const Box& dst,
                                                                  std::int64_t planes) const {
  std::vector<ConvolutionPiece> pieces;
  for_each_block(dst.lo[kD], dst.hi[kD], planes, [&](std::int64_t lo, std::int64_t hi) {
    const Box box = with_d_range(dst, lo, hi);
    pieces.push_back({box, conv_box(box), needs(box)});
  });
  return pieces;
}

std::vector<ConvolutionPiece> ConvolutionBlockGeometry::split_src(const Box& dst,
                                                                  std::int64_t planes) const {
  const Box conv = conv_box(dst), src = needs(dst);
  const AxisWindow& w = window_[0];
  if (w.stride != 1) return {{{}, conv, src}};
  std::vector<ConvolutionPiece> pieces;
  for_each_block(src.lo[kD], src.hi[kD], planes, [&](std::int64_t lo, std::int64_t hi) {
    // Plane i reads src planes from i - pad_before to i - pad_before + reach - 1.
    const std::int64_t first = std::max(conv.lo[kD], lo + w.pad_before - w.reach() + 1);
    const std::int64_t end = std::min(conv.hi[kD], hi + w.pad_before);
    pieces.push_back({{}, with_d_range(conv, first, end), with_d_range(src, lo, hi)});
  });
  return pieces;
}

}  // namespace halomesh
