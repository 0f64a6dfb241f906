// SPDX-License-Identifier: Apache-2.0
// Interpolation of a tensor on a grid of other extents, by global coordinates.
#pragma once

#include "src/nn/layers/separable.hpp"

namespace halomesh {

enum class ResizeMode : std::uint8_t { kNearest, kLinear };

/// The coordinate x in src of plane o of m in dst, where src has n planes and the scale is f.
enum class ResizeCoordinates : std::uint8_t {
  kHalfPixel,         ///< (o + 1/2) / f - 1/2
  kPytorchHalfPixel,  ///< that, but 0 if m = 1
  kAlignCorners,      ///< o (n - 1) / (m - 1); 0 if m = 1
  kAsymmetric         ///< o / f
};

/// How kNearest makes a whole number of a coordinate; the first two differ for halves.
enum class ResizeRounding : std::uint8_t { kPreferFloor, kPreferCeil, kFloor, kCeil };

struct ResizeOptions {
  Spatial extents{};               ///< the extents of dst; along axes where 0: floor(n * scale)
  std::array<double, 3> scales{};  ///< along axes where 0: m / n
  ResizeMode mode = ResizeMode::kLinear;
  ResizeCoordinates coordinates = ResizeCoordinates::kHalfPixel;
  ResizeRounding rounding = ResizeRounding::kPreferFloor;
  DataType type = DataType::kFloat32;
};

/// Nearest or trilinear interpolation as the ONNX operator Resize defines it, without antialiasing:
/// coordinates outside src are moved to its first or last plane. PyTorch's "nearest" is kAsymmetric
/// with kFloor, its "trilinear" kHalfPixel or kAlignCorners.
class Resize final : public Separable {
 public:
  /// Throws Error for negative extents or scales, and where an axis has neither.
  explicit Resize(const ResizeOptions& options);

  std::string kernel_name() const override;

 protected:
  /// Throws Error where nothing would be left.
  Spatial extents_of(const Spatial& src) const override;
  void append_row(const Spatial& src, std::size_t axis, std::int64_t dst,
                  std::vector<Term>& row) const override;

 private:
  double coordinate(std::int64_t n, std::size_t axis, std::int64_t dst) const;
  std::int64_t extent(std::int64_t n, std::size_t axis) const;

  ResizeOptions options_;
};

}  // namespace halomesh
