// SPDX-License-Identifier: Apache-2.0
// The options of a sliding window, before the extents of its input are known; shared by convolution
// and pooling.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

#include "partition/window.hpp"

namespace halomesh {

/// kSame: TensorFlow's SAME, which depends on the input's extents; kValid: none; kExplicit: the
/// planes given in WindowOptions.
enum class PaddingKind { kSame, kValid, kExplicit };

/// Kernel, stride, dilation and padding of a sliding window, each in the order d, h, w.
struct WindowOptions {
  Spatial kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1};
  PaddingKind padding = PaddingKind::kSame;
  Spatial pad_before{}, pad_after{};  ///< planes; read for kExplicit only
  /// Whether a last window that begins inside the input or the padding before it counts even if it
  /// ends behind the padding after it, as if that were wider (PyTorch's ceil_mode). Not with kSame.
  bool ceil = false;

  /// Options with equal kernel and stride on each axis and no dilation.
  static WindowOptions cube(std::int64_t kernel, std::int64_t stride, PaddingKind padding) {
    return {{kernel, kernel, kernel}, {stride, stride, stride}, {1, 1, 1}, padding, {}, {}};
  }

  /// The window on an input with spatial extents `src`; dst_extents() checks that it fits.
  Window resolve(const Spatial& src) const {
    Window window;
    for (std::size_t a = 0; a < 3; ++a) switch (padding) {
        case PaddingKind::kSame:
          window[a] = same_window(kernel[a], stride[a], dilation[a], src[a]);
          break;
        case PaddingKind::kValid:
          window[a] = valid_window(kernel[a], stride[a], dilation[a]);
          break;
        case PaddingKind::kExplicit:
          window[a] = {kernel[a], stride[a], dilation[a], pad_before[a], pad_after[a]};
          break;
      }
    for (std::size_t a = 0; a < 3 && ceil && padding != PaddingKind::kSame; ++a)
      widen(window[a], src[a]);
    return window;
  }

 private:
  // Makes the padding after the input as wide as the last window of `ceil` needs.
  static void widen(AxisWindow& w, std::int64_t src) {
    const std::int64_t dst = w.dst_extent(src), next = dst * w.stride;
    const std::int64_t read = next - w.stride + w.reach(), inside = src + w.pad_before;
    if (dst > 0 && read < inside + w.pad_after && next < inside)
      w.pad_after = next + w.reach() - inside;
  }
};

/// For example "3x3x3 same", "2x2x2 stride 2x2x2 valid" or "3x3x3 dilation 2x2x2 padding
/// 1x1x1+1x1x1".
inline std::string text_of(const WindowOptions& window) {
  const auto axes = [](const Spatial& s) { return fmt::format("{}x{}x{}", s[0], s[1], s[2]); };
  std::string out = axes(window.kernel);
  if (window.stride != Spatial{1, 1, 1}) out += " stride " + axes(window.stride);
  if (window.dilation != Spatial{1, 1, 1}) out += " dilation " + axes(window.dilation);
  if (window.padding == PaddingKind::kSame) return out + " same";
  const std::string ceil = window.ceil ? " ceil" : "";
  if (window.padding == PaddingKind::kValid) return out + " valid" + ceil;
  return out + " padding " + axes(window.pad_before) + "+" + axes(window.pad_after) + ceil;
}

}  // namespace halomesh
