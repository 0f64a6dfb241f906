// SPDX-License-Identifier: Apache-2.0
// The symmetries of a box of voxels: flips of its axes, then a permutation of them.
// Pure index arithmetic.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "box.hpp"
#include "shape.hpp"

namespace halomesh {

/// A symmetry of the cube: first each spatial axis is flipped or not, then the axes are permuted.
/// Axis a of the transformed sample runs along axis permutation[a] of the sample, so that with n
/// the sample's extents and b = permutation[a]
///
///   transformed(i) = sample(j),   j[b] = flip[b] ? n[b] - 1 - i[a] : i[a].
///
/// The 8 x 6 = 48 of them are the whole group. Channels are unchanged. Coordinates and boxes
/// are global ones; `shape` is always that of the sample before it is transformed.
struct Symmetry {
  std::array<bool, 3> flip{};
  std::array<std::uint8_t, 3> permutation{0, 1, 2};

  bool is_identity() const { return *this == Symmetry{}; }
  /// The shape of the transformed sample.
  Shape mapped(const Shape& shape) const;
  bool keeps(const Shape& shape) const { return mapped(shape) == shape; }
  /// The box of the sample whose image is the box `transformed` of the transformed sample.
  Box source_of(const Box& transformed, const Shape& shape) const;
  /// Its inverse: where the box `source` of the sample lies in the transformed one.
  Box mapped(const Box& source, const Shape& shape) const;

  friend bool operator==(const Symmetry&, const Symmetry&) = default;
};

/// The symmetries that preserve this shape, in a fixed order, the identity first: 48 for a cube, 16
/// where two extents are equal, 8 (the flips) where none are.
std::vector<Symmetry> symmetries_of(const Shape& shape);
/// The symmetries that permute only axes of equal spacing, to a hundredth; with `flips_only` none.
std::vector<Symmetry> symmetries_of(const Shape& shape, const std::array<double, 3>& spacing,
                                    bool flips_only);

/// The symmetry applied to `sample` in `epoch`: independent flips, each with probability 1/2, then
/// one of the permutations that preserve the shape, all equally likely. It is
/// symmetries_of(shape)[r % their number], r being the 64 bits that CounterRng(seed, kAugment,
/// epoch) gives for index `sample`; their probabilities differ by less than 2^-58, relatively.
class SymmetryDraw {
 public:
  SymmetryDraw(std::uint64_t seed, const Shape& shape) : SymmetryDraw(seed, symmetries_of(shape)) {}
  SymmetryDraw(std::uint64_t seed, std::vector<Symmetry> symmetries)
      : seed_(seed), symmetries_(std::move(symmetries)) {}
  Symmetry operator()(std::int64_t epoch, std::int64_t sample) const;

 private:
  std::uint64_t seed_;
  std::vector<Symmetry> symmetries_;
};

}  // namespace halomesh
