// SPDX-License-Identifier: Apache-2.0
// The symmetries of a box of voxels: see symmetry.hpp.
#include "partition/samples/symmetry.hpp"

#include <cmath>

#include "narrow.hpp"
#include "rng.hpp"

namespace halomesh {
namespace {

struct Interval {
  std::int64_t lo = 0, hi = 0;
};

constexpr std::array<std::array<std::uint8_t, 3>, 6> kPermutations{
    {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}};

// A flip is its own inverse.
Interval flipped(Interval range, bool flip, std::int64_t extent) {
  return flip ? Interval{extent - range.hi, extent - range.lo} : range;
}

}  // namespace

Shape Symmetry::mapped(const Shape& shape) const {
  const Spatial n = shape.spatial();
  return {shape.c, n[permutation[0]], n[permutation[1]], n[permutation[2]]};
}

Box Symmetry::source_of(const Box& transformed, const Shape& shape) const {
  if (transformed.empty()) return {};
  const Spatial n = shape.spatial();
  Box source = transformed;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::size_t b = permutation[a];
    const Interval range = flipped({transformed.lo[a + 1], transformed.hi[a + 1]}, flip[b], n[b]);
    source.lo[b + 1] = range.lo;
    source.hi[b + 1] = range.hi;
  }
  return source;
}

Box Symmetry::mapped(const Box& source, const Shape& shape) const {
  if (source.empty()) return {};
  const Spatial n = shape.spatial();
  Box transformed = source;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::size_t b = permutation[a];
    const Interval range = flipped({source.lo[b + 1], source.hi[b + 1]}, flip[b], n[b]);
    transformed.lo[a + 1] = range.lo;
    transformed.hi[a + 1] = range.hi;
  }
  return transformed;
}

std::vector<Symmetry> symmetries_of(const Shape& shape) {
  std::vector<Symmetry> found;
  for (unsigned flips = 0; flips < 8; ++flips)
    for (const auto& permutation : kPermutations) {
      const Symmetry symmetry{{(flips & 4U) != 0, (flips & 2U) != 0, (flips & 1U) != 0},
                              permutation};
      if (symmetry.keeps(shape)) found.push_back(symmetry);
    }
  return found;
}

std::vector<Symmetry> symmetries_of(const Shape& shape, const std::array<double, 3>& spacing,
                                    bool flips_only) {
  constexpr double kAlike = 0.01;
  std::vector<Symmetry> found = symmetries_of(shape);
  std::erase_if(found, [&](const Symmetry& symmetry) {
    for (std::size_t a = 0; a < 3; ++a) {
      const std::size_t b = symmetry.permutation[a];
      if (a != b && (flips_only || std::abs(spacing[a] - spacing[b]) > kAlike * spacing[a]))
        return true;
    }
    return false;
  });
  return found;
}

Symmetry SymmetryDraw::operator()(std::int64_t epoch, std::int64_t sample) const {
  const CounterRng rng(seed_, RandomUse::kAugment, narrow<std::uint32_t>(epoch));
  const auto words = rng.block(static_cast<std::uint64_t>(sample));
  const std::uint64_t bits = (std::uint64_t{words[0]} << 32) | words[1];
  return symmetries_[static_cast<std::size_t>(bits % symmetries_.size())];
}

}  // namespace halomesh
