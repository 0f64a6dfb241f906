// SPDX-License-Identifier: Apache-2.0
// Transformed blocks against a serial reference of the whole sample, on uneven cuts in 1, 2 and 3
// axes: each block is put together from the pieces that a redistribution names.
#include "src/nn/transform.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "partition/samples/redistribution.hpp"
#include "src/nn/pack.hpp"
#include "test/harness/staged_sample.hpp"

namespace halomesh {
namespace {

std::int16_t count_at(const Shape& s, std::int64_t c, std::int64_t d, std::int64_t h,
                      std::int64_t w) {
  return static_cast<std::int16_t>((((d * s.h + h) * s.w + w) * s.c + c) * 7 % 32768);
}

std::vector<std::int16_t> counts_of(const Shape& shape, const Box& box) {
  std::vector<std::int16_t> counts;
  for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
    for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
      for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
        for (std::int64_t c = 0; c < shape.c; ++c) counts.push_back(count_at(shape, c, d, h, w));
  return counts;
}

/// The serial reference: flip each axis of the whole sample in turn, then permute the axes.
std::vector<std::int16_t> turned_whole(const Shape& s, const Symmetry& symmetry) {
  std::vector<std::int16_t> now = counts_of(s, Box::whole(s));
  const Spatial n = s.spatial();
  const auto at = [&](const Spatial& p, std::int64_t c) {
    return static_cast<std::size_t>(((p[0] * s.h + p[1]) * s.w + p[2]) * s.c + c);
  };
  const auto for_each_voxel = [&](const Spatial& extents, const auto& body) {
    for (std::int64_t i = 0; i < extents[0]; ++i)
      for (std::int64_t j = 0; j < extents[1]; ++j)
        for (std::int64_t k = 0; k < extents[2]; ++k)
          for (std::int64_t c = 0; c < s.c; ++c) body(Spatial{i, j, k}, c);
  };
  for (std::size_t a = 0; a < 3; ++a) {
    if (!symmetry.flip[a]) continue;
    const std::vector<std::int16_t> before = now;
    for_each_voxel(n, [&](Spatial p, std::int64_t c) {
      const std::size_t to = at(p, c);
      p[a] = n[a] - 1 - p[a];
      now[to] = before[at(p, c)];
    });
  }
  const auto& order = symmetry.permutation;
  std::vector<std::int16_t> transformed;
  for_each_voxel({n[order[0]], n[order[1]], n[order[2]]}, [&](const Spatial& p, std::int64_t c) {
    Spatial source{};
    for (std::size_t a = 0; a < 3; ++a) source[order[a]] = p[a];
    transformed.push_back(now[at(source, c)]);
  });
  return transformed;
}

/// Compares every block of every part; returns how many voxels.
std::int64_t check_blocks(const StagedSample& sample, const Symmetry& symmetry,
                          bool as_logarithms) {
  const Shape& shape = sample.shape;
  const std::vector<std::int16_t> whole = turned_whole(shape, symmetry);
  const TensorView<const std::int16_t> expected{whole.data(), Box::whole(shape), 1};
  std::vector<std::vector<std::int16_t>> kept;
  for (const Box& box : sample.blocks) kept.push_back(counts_of(shape, box));
  std::int64_t compared = 0, different = 0;
  const TransferPlan plan = plan_redistribution(sample, symmetry);
  for (std::size_t dst = 0; dst < sample.blocks.size(); ++dst) {
    const Box& block = sample.blocks[dst];
    const Tensor made(block, 1, as_logarithms ? DataType::kFloat32 : DataType::kInt16);
    for (const Transfer& t : plan.transfers()) {
      if (t.dst != static_cast<std::int64_t>(dst)) continue;
      const auto src = static_cast<std::size_t>(t.src);
      transform(TensorView<const std::int16_t>{kept[src].data(), sample.blocks[src], 1}, t.box,
                symmetry, shape, made.any_view());
    }
    for (std::int64_t d = block.lo[kD]; d < block.hi[kD]; ++d)
      for (std::int64_t h = block.lo[kH]; h < block.hi[kH]; ++h)
        for (std::int64_t w = block.lo[kW]; w < block.hi[kW]; ++w)
          for (std::int64_t c = 0; c < shape.c; ++c, ++compared) {
            const std::int16_t count = expected.at(0, c, d, h, w);
            if (as_logarithms)
              different += made.view().at(0, c, d, h, w) !=
                                   static_cast<float>(std::log1p(static_cast<double>(count)))
                               ? 1
                               : 0;
            else
              different += made.any_view().as<std::int16_t>().at(0, c, d, h, w) != count ? 1 : 0;
          }
  }
  CHECK(different == 0);
  return compared;
}

TEST_CASE("transform: all symmetries on uneven cuts in 1, 2 and 3 axes, with halo") {
  std::int64_t compared = 0;
  for (const Shape& shape : {Shape{2, 11, 11, 11}, Shape{4, 9, 9, 10}, Shape{1, 5, 7, 18}})
    for (const PartGrid& grid : {PartGrid{1, 1, 1}, PartGrid{3, 1, 1}, PartGrid{1, 2, 2},
                                 PartGrid{2, 3, 2}, PartGrid{7, 1, 1}})
      for (const Symmetry& symmetry : symmetries_of(shape))
        compared += check_blocks(staged_sample(shape, grid, 2), symmetry, grid.h == 2);
  CHECK(compared > 1'000'000);
}

TEST_CASE("transform: a box outside its views is refused") {
  const Tensor made(Box{{0, 0, 0, 0}, {1, 2, 4, 4}}, 1, DataType::kInt16);
  const std::vector<std::int16_t> counts(64);
  const Box whole{{0, 0, 0, 0}, {1, 4, 4, 4}};
  CHECK_THROWS_AS(transform(TensorView<const std::int16_t>{counts.data(), whole, 1}, whole, {},
                            {1, 4, 4, 4}, made.any_view()),
                  Error);
}

}  // namespace
}  // namespace halomesh
