// SPDX-License-Identifier: Apache-2.0
// Planes added at the sides of a tensor: constant, or copies of planes inside.
#pragma once

#include "src/nn/layers/separable.hpp"

namespace halomesh {

/// The content of planes added to the n planes 0 .. n-1 of an axis; numpy's modes of that name.
enum class PadMode : std::uint8_t {
  kConstant,
  kEdge,     ///< plane 0 or n-1, whichever is nearer
  kReflect,  ///< 1, 2, ... before the first and n-2, n-3, ... behind the last, and back
  kWrap      ///< periodic: plane i is i mod n. Parts at the rim need the whole axis
};

/// `before` and `after` are planes to add along d, h, w; `value` is that of constant ones.
struct PadOptions {
  Spatial before{}, after{};
  PadMode mode = PadMode::kConstant;
  float value = 0;
  DataType type = DataType::kFloat32;
};

/// Padding as a layer of its own, for what no window can do by itself: other values than 0, or
/// padding wider than the window.
class Pad final : public Separable {
 public:
  /// Throws Error for a negative number of planes.
  explicit Pad(const PadOptions& options);

  std::string kernel_name() const override;

 protected:
  /// Throws Error for a reflection at a single plane.
  Spatial extents_of(const Spatial& src) const override;
  void append_row(const Spatial& src, std::size_t axis, std::int64_t dst,
                  std::vector<Term>& row) const override;

 private:
  PadOptions options_;
};

}  // namespace halomesh
