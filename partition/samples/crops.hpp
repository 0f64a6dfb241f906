// SPDX-License-Identifier: Apache-2.0
// Where random crops of larger samples lie, as pure functions.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "box.hpp"

namespace halomesh {

/// A voxel, by its place along each axis.
struct Voxel {
  std::uint16_t d = 0, h = 0, w = 0;
  friend auto operator<=>(const Voxel&, const Voxel&) = default;
};

/// Voxels of each class of a sample but the first, for the classes that occur in it.
using Foreground = std::vector<std::vector<Voxel>>;

/// Chooses up to kKept voxels of each class of one sample, all equally likely: the ones whose
/// places have the lowest hash values. The choice therefore does not depend on how the labels are
/// cut into boxes, or on their order.
class ForegroundSearch {
 public:
  static constexpr std::size_t kKept = 32;

  explicit ForegroundSearch(std::int64_t classes) : kept_(static_cast<std::size_t>(classes)) {}
  /// Labels of a box of the sample, dense. Labels without a class are ignored.
  void take(const Box& box, const std::uint8_t* labels);
  /// Takes a voxel that the search of another box has found. `label` must be a class that has
  /// voxels.
  void take(std::size_t label, const Voxel& voxel);
  /// The chosen voxels of the boxes taken so far, in the order of their places.
  Foreground found() const;
  /// As found(), with an entry for every class, empty for those without voxels.
  std::vector<std::vector<Voxel>> found_by_class() const;

 private:
  struct Candidate {
    std::uint64_t hash = 0;
    Voxel voxel;
    friend auto operator<=>(const Candidate&, const Candidate&) = default;
  };
  std::vector<std::vector<Candidate>> kept_;  // per class, a heap with the largest on top
};

/// The first voxel of a crop with a sample of these extents in its middle; no coordinate is
/// positive where the sample is not larger.
Spatial centred_origin(const Spatial& sample, const Spatial& crop);

/// Draws the crop of a sample in an epoch: a function of (seed, epoch, number of the sample), and
/// therefore equal on every mesh.
///
/// With probability `foreground`, and if the sample has any: one of its classes, one of the voxels
/// of that class, and then one of the crops that contain it, all equally likely. Otherwise any
/// crop. Crops lie within the sample; along axes where the sample is smaller, it lies in the crop's
/// middle.
class CropDraw {
 public:
  CropDraw(std::uint64_t seed, const Spatial& crop, double foreground)
      : seed_(seed), crop_(crop), foreground_(foreground) {}

  /// The first voxel of the crop, in coordinates of a sample of these extents.
  Spatial operator()(std::int64_t epoch, std::int64_t sample, const Spatial& extents,
                     const Foreground& foreground = {}) const;

 private:
  std::uint64_t seed_;
  Spatial crop_;
  double foreground_;
};

}  // namespace halomesh
