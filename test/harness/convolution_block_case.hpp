// SPDX-License-Identifier: Apache-2.0
// Cases of a fused convolution block for the layer harness.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "error.hpp"
#include "partition/partition.hpp"
#include "src/nn/kernels/convolution_block.hpp"
#include "test/harness/convolution_block_reference.hpp"
#include "test/harness/layer_check.hpp"

namespace halomesh {

struct BlockCase {
  ConvolutionBlockOptions options;
  Shape src;
  PartGrid grid{1, 1, 1};
  std::vector<std::int64_t> channel_cuts{};  ///< if given: part p of grid.count() makes channels
                                             ///< from entry p to p + 1
  std::int64_t batch = 1;
  DataType src_type = DataType::kFloat32;
  std::vector<ChannelScale> count_scales{};
  Judgement judgement = Judgement::kExact;
};

// Values for exact results: src has at most 3 bits, parameters and gradients are multiples of 1/4.
// Products are then multiples of 2^-5, and sums of fewer than 2^16 of them stay below 2^24 2^-5.
inline LayerCase layer_case(const BlockCase& block) {
  LayerCase test;
  const ConvolutionBlockOptions& o = block.options;
  test.name = fmt::format(
      "block of {} {} to {} {} in {}, kernel {} {} {}, pool {} {} {}, {} parts, batch {}{}{}{}",
      block.src, name_of(block.src_type), o.filters, name_of(o.dst), name_of(o.compute),
      o.window.kernel[0], o.window.kernel[1], o.window.kernel[2], o.pool[0], o.pool[1], o.pool[2],
      to_string(block.grid), block.batch,
      block.judgement == Judgement::kExact ? ", exact" : ", bounded",
      block.count_scales.empty() ? "" : ", standardized",
      block.channel_cuts.empty() ? "" : ", cut by channels");
  test.make_layer = [o] { return std::make_unique<ConvolutionBlock>(o); };
  test.cut.src_shapes = {block.src};
  test.cut.src_types = {block.src_type};
  test.cut.src_diff_wanted = block.src_type == o.compute;
  test.cut.grid = block.grid;
  test.cut.batch = block.batch;
  test.cut.count_scales = block.count_scales;
  for (std::size_t p = 0; p + 1 < block.channel_cuts.size(); ++p) {
    Box box = Box::whole(ConvolutionBlock(o).dst_shape(test.cut.src_shapes));
    box.lo[kC] = block.channel_cuts[p];
    box.hi[kC] = block.channel_cuts[p + 1];
    test.cut.dst_owned.push_back(box.normalized());
  }
  // In space, at most 8 blocks meet in a corner; all parts that make channels read the whole input.
  const std::int64_t parts = block.grid.count();
  const std::int64_t adders = block.channel_cuts.empty() ? std::min<std::int64_t>(8, parts) : parts;
  test.reference =
      convolution_block_reference(o, block.src_type, block.count_scales, block.judgement, adders);
  if (block.judgement == Judgement::kExact) {
    test.src_value = [](float v) { return std::floor(4 * v); };
    test.parameter_value = [](float v) { return std::floor(4 * v) / 4; };
    test.diff_value = [](float v) { return std::floor(8 * v) / 4; };
  }
  if (block.src_type == DataType::kInt16) {
    const float scale = block.judgement == Judgement::kExact ? 4 : 16384;
    test.src_value = [scale](float v) { return std::floor(scale * v) + scale; };
  }
  return test;
}

/// A block with an exact kernel of SAME padding, one plane at a time.
inline BlockCase same_block(std::int64_t filters, std::int64_t kernel, const Shape& src,
                            const PartGrid& grid) {
  BlockCase block;
  block.options.filters = filters;
  block.options.window = WindowOptions::cube(kernel, 1, PaddingKind::kSame);
  block.options.slope = 0.25F;
  block.options.cache_bytes = 1;
  block.src = src;
  block.grid = grid;
  return block;
}

}  // namespace halomesh
