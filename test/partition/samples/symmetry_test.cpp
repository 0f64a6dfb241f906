// SPDX-License-Identifier: Apache-2.0
// Symmetries against their definition, element by element, and the uniformity of their draws.
#include "partition/samples/symmetry.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace halomesh {
namespace {

using Pixel = Spatial;

/// The definition, literally: flip the axes, then let axis a be what was axis permutation[a].
Pixel source_pixel(const Symmetry& s, const Pixel& transformed, const Spatial& n) {
  Pixel flipped{};
  for (std::size_t a = 0; a < 3; ++a) flipped[s.permutation[a]] = transformed[a];
  for (std::size_t b = 0; b < 3; ++b)
    if (s.flip[b]) flipped[b] = n[b] - 1 - flipped[b];
  return flipped;
}

Box pixel_box(const Pixel& p) { return {{0, p[0], p[1], p[2]}, {2, p[0] + 1, p[1] + 1, p[2] + 1}}; }

/// All 48, for any shape.
std::vector<Symmetry> all() { return symmetries_of({1, 3, 3, 3}); }

TEST_CASE("symmetry: 48 of a cube, 16 with two equal extents, 8 with none, identity first") {
  for (const auto& [shape, count] : {std::pair<Shape, std::size_t>{{4, 5, 5, 5}, 48},
                                     {{4, 5, 5, 6}, 16},
                                     {{4, 6, 5, 5}, 16},
                                     {{4, 5, 6, 5}, 16},
                                     {{4, 5, 6, 7}, 8}}) {
    const std::vector<Symmetry> found = symmetries_of(shape);
    CHECK(found.size() == count);
    CHECK(found.front().is_identity());
    std::set<std::pair<std::array<bool, 3>, std::array<std::uint8_t, 3>>> different;
    for (const Symmetry& s : found) {
      CHECK(s.keeps(shape));
      different.insert({s.flip, s.permutation});
    }
    CHECK(different.size() == count);
  }
}

TEST_CASE("symmetry: the 48 are different permutations of the pixels of a cube, as a group") {
  const Spatial n{3, 3, 3};
  std::set<std::vector<std::int64_t>> permutations;
  for (const Symmetry& s : all()) {
    std::vector<std::int64_t> sources;
    for (std::int64_t i = 0; i < 27; ++i) {
      const Pixel p = source_pixel(s, {i / 9, i / 3 % 3, i % 3}, n);
      sources.push_back(p[0] * 9 + p[1] * 3 + p[2]);
    }
    permutations.insert(sources);
  }
  CHECK(permutations.size() == 48);
  std::int64_t compared = 0;
  for (const auto& first : permutations)
    for (const auto& second : permutations) {
      std::vector<std::int64_t> both;
      for (const std::int64_t i : second) both.push_back(first[static_cast<std::size_t>(i)]);
      CHECK(permutations.contains(both));
      ++compared;
    }
  CHECK(compared == 48 * 48);
}

TEST_CASE("symmetry: boxes go where their pixels go, and back") {
  std::int64_t compared = 0;
  for (const Shape& shape : {Shape{2, 4, 4, 4}, Shape{2, 3, 4, 5}})
    for (const Symmetry& s : all()) {
      const Shape image = s.mapped(shape);
      for (std::int64_t i = 0; i < image.d * image.h * image.w; ++i) {
        const Pixel transformed{i / image.w / image.h, i / image.w % image.h, i % image.w};
        const Box source = pixel_box(source_pixel(s, transformed, shape.spatial()));
        CHECK(s.source_of(pixel_box(transformed), shape) == source);
        CHECK(s.mapped(source, shape) == pixel_box(transformed));
        ++compared;
      }
      const Box box{{0, 1, 0, 2}, {2, 3, 3, 3}};
      Box hulls;
      for (std::int64_t d = 1; d < 3; ++d)
        for (std::int64_t h = 0; h < 3; ++h)
          hulls = hull(hulls, s.mapped(pixel_box({d, h, 2}), shape));
      CHECK(s.mapped(box, shape) == hulls);
      CHECK(s.source_of(hulls, shape) == box);
      CHECK(s.source_of(Box{}, shape) == Box{});
      CHECK(s.mapped(Box{}, shape) == Box{});
    }
  CHECK(compared == 48 * (64 + 60));
}

TEST_CASE("symmetry: draws are a function of seed, epoch and sample, and uniform") {
  const Shape cube{4, 8, 8, 8}, flat{4, 8, 8, 4};
  const SymmetryDraw draw(7, cube), same(7, cube), other(8, cube);
  std::int64_t equal_epochs = 0, equal_seeds = 0;
  for (std::int64_t s = 0; s < 480; ++s) {
    CHECK(draw(3, s) == same(3, s));
    equal_epochs += draw(3, s) == draw(4, s) ? 1 : 0;
    equal_seeds += draw(3, s) == other(3, s) ? 1 : 0;
  }
  // Expected 480 / 48 = 10, deviation sqrt(10): 10 + 6 deviations.
  CHECK(equal_epochs < 29);
  CHECK(equal_seeds < 29);
  // 1000 expected per cell, k - 1 degrees of freedom: mean k - 1, deviation sqrt(2 (k - 1)); five
  // deviations either way.
  for (const Shape& shape : {cube, flat}) {
    const std::vector<Symmetry> symmetries = symmetries_of(shape);
    const SymmetryDraw of_shape(11, shape);
    const auto k = static_cast<std::int64_t>(symmetries.size());
    std::vector<double> hits(symmetries.size());
    for (std::int64_t i = 0; i < 1000 * k; ++i) {
      const Symmetry s = of_shape(i % 100, i / 100);
      ++hits[static_cast<std::size_t>(std::find(symmetries.begin(), symmetries.end(), s) -
                                      symmetries.begin())];
    }
    double chi_square = 0;
    for (const double hit : hits) chi_square += (hit - 1000) * (hit - 1000) / 1000;
    const auto freedom = static_cast<double>(k - 1);
    CHECK(chi_square < freedom + 5 * std::sqrt(2 * freedom));
    CHECK(chi_square > freedom - 5 * std::sqrt(2 * freedom));
  }
}

TEST_CASE("symmetries: only axes of equal extent and spacing are permuted") {
  const Shape cube{1, 8, 8, 8}, slab{1, 8, 8, 6};
  CHECK(symmetries_of(cube, {1, 1, 1}, false).size() == 48);
  CHECK(symmetries_of(cube, {1, 1.005, 2.5}, false).size() == 16);
  CHECK(symmetries_of(cube, {1, 2, 3}, false).size() == 8);
  CHECK(symmetries_of(cube, {1, 1, 1}, true).size() == 8);
  CHECK(symmetries_of(slab, {1, 2.5, 1}, false).size() == 8);
  for (const Symmetry& each : symmetries_of(cube, {1, 2.5, 1}, false))
    CHECK(each.permutation[1] == 1);
  CHECK(symmetries_of(cube, {1, 2, 3}, true).front().is_identity());
}

}  // namespace
}  // namespace halomesh
