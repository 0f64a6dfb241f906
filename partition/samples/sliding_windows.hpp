// SPDX-License-Identifier: Apache-2.0
// Windows that cover a volume larger than a network's input, and the weights of their voxels. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "box.hpp"

namespace halomesh {

struct WindowPlacement {
  double overlap = 0.5;  ///< share of a window that it has in common with the next; below 1
  bool gaussian = true;  ///< weights fall off from the centre; otherwise all are 1
  bool may_pad = false;  ///< windows may reach beyond the volume
};

/// All combinations of the places along each axis. Neighbours are extent - overlap * extent planes
/// apart. Without padding the last window of an axis ends where the volume does; with it, windows
/// are centred on the volume and reach beyond it by as little as a whole number of steps allows, as
/// those of MLPerf Training's 3-D U-Net do (github.com/mlcommons/training,
/// retired_benchmarks/unet3d/pytorch, runtime/inference.py), which however drops remainders below
/// half a step, while here every voxel is covered.
///
/// The weight of a voxel of a window is the cube root of exp(-r^2 / 2), with r the distance from
/// the centre in units of an eighth of the window, as in that program.
class SlidingWindows {
 public:
  /// Throws Error where a volume is smaller than the window and may not be padded.
  SlidingWindows(const Spatial& volume, const Spatial& window, const WindowPlacement& placement);

  std::int64_t size() const;
  /// The first voxel of window number `index`, in coordinates of the volume, where it may be
  /// negative; the last axis varies fastest.
  Spatial origin(std::int64_t index) const;
  /// The weight of place `i` along one axis of a window; a voxel's weight is the product over the
  /// axes.
  float weight(std::size_t axis, std::int64_t i) const {
    return axes_[axis].weights[static_cast<std::size_t>(i)];
  }
  /// The sum over all windows of the weights of plane `i` of the volume along one axis; a voxel's
  /// sum is the product over the axes.
  float total(std::size_t axis, std::int64_t i) const {
    return axes_[axis].totals[static_cast<std::size_t>(i)];
  }

 private:
  struct Places {
    std::vector<std::int64_t> first;
    std::vector<float> weights, totals;
  };
  std::array<Places, 3> axes_;
};

/// `box` moved by `by`.
Box shifted(Box box, const Spatial& by);
/// `box` moved by -`by`.
Box shifted_back(Box box, const Spatial& by);

}  // namespace halomesh
