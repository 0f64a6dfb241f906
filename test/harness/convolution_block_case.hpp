// Cases of a fused convolution block for the layer harness. Knows no test.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>

#include "error.hpp"
#include "src/nn/layers/convolution_block.hpp"
#include "test/harness/convolution_block_reference.hpp"
#include "test/harness/layer_check.hpp"

namespace halomesh {

struct BlockCase {
  ConvolutionBlockOptions options;
  Shape src;
  PartGrid grid{1, 1, 1};
  std::int64_t batch = 1;
  DataType src_type = DataType::kFloat32;
  Judgement judgement = Judgement::kExact;
};

// Values for exact results: src of at most 3 bits, parameters and gradients multiples of 1/4, so
// that products are multiples of 2^-5 and sums of fewer than 2^16 of them stay below 2^24 2^-5.
inline LayerCase layer_case(const BlockCase& block) {
  LayerCase test;
  const ConvolutionBlockOptions& o = block.options;
  test.name = cat("block of ", block.src, ' ', name_of(block.src_type), " to ", o.filters, ' ',
                  name_of(o.dst), " in ", name_of(o.compute), ", kernel ", o.window.kernel[0], ' ',
                  o.window.kernel[1], ' ', o.window.kernel[2], ", pool ", o.pool[0], ' ', o.pool[1],
                  ' ', o.pool[2], ", ", to_string(block.grid), " parts, batch ", block.batch,
                  block.judgement == Judgement::kExact ? ", exact" : ", bounded");
  test.make_layer = [o] { return std::make_unique<ConvolutionBlock>(o); };
  test.cut.src_shapes = {block.src};
  test.cut.src_types = {block.src_type};
  test.cut.src_diff_wanted = block.src_type == o.compute;
  test.cut.grid = block.grid;
  test.cut.batch = block.batch;
  test.reference =
      convolution_block_reference(o, block.src_type, block.judgement, block.grid.count());
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

/// Kernel of SAME padding, exact, one plane at a time.
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
