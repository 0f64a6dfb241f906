// SPDX-License-Identifier: Apache-2.0
// The transforms of Winograd's minimal filtering F(2, 2), F(2, 3) and F(4, 3) in three dimensions,
// or in the two of images, on vectors of channels in registers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "src/nn/data_type.hpp"
#include "src/nn/kernels/isa.hpp"
#include "src/nn/kernels/pooled_weight_tile.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {
namespace winograd {

using pooled_weight::kVector;
using pooled_weight::load;
using pooled_weight::store;
using pooled_weight::unroll;
using pooled_weight::Vector;

/// The source that the windows of a box read in one sample: a block of memory, with zeros around
/// it.
struct Source {
  const void* data = nullptr;          ///< the block's first voxel
  Spatial step{};                      ///< elements from one voxel to the next along each axis
  Spatial extents{};                   ///< extents of the block
  Spatial corner{};                    ///< first window, relative to the block
  DataType type = DataType::kFloat32;  ///< kFloat32 or kBfloat16
};

/// The place of window number `window` of a box, in d,h,w order, relative to the first.
inline Spatial place_of(std::int64_t window, const Spatial& extents) {
  return {window / extents[2] / extents[1], window / extents[2] % extents[1], window % extents[2]};
}

inline bool is_inside(const Source& src, std::size_t axis, std::int64_t place) {
  return place >= 0 && place < src.extents[axis];
}

/// Outputs of a small tile along each axis: two, or one where the kernel has one tap.
constexpr Spatial window_of(const Spatial& kernel) {
  return {std::min<std::int64_t>(2, kernel[0]), std::min<std::int64_t>(2, kernel[1]),
          std::min<std::int64_t>(2, kernel[2])};
}

/// Outputs of a large tile: four along h and w with kernels of 3x3x3, along d and w in images.
/// Other kernels have none, and get their small one.
constexpr Spatial large_window_of(const Spatial& kernel) {
  if (kernel == Spatial{3, 3, 3}) return {2, 4, 4};
  return kernel == Spatial{3, 1, 3} ? Spatial{4, 1, 4} : window_of(kernel);
}

/// Finds the voxels of a block of kExtents that begins at the first voxel of the window at `place`,
/// in d,h,w order; for voxels outside of the source, `zeros`. Windows are kWindow voxels apart; T
/// is the source's type.
template <Spatial kExtents, Spatial kWindow, class T>
void find_voxels(const Source& src, const Spatial& place, const T* zeros, const T** voxels) {
  Spatial first{};
  bool inside = true;
  for (std::size_t a = 0; a < 3; ++a) {
    first[a] = src.corner[a] + kWindow[a] * place[a];
    inside = inside && first[a] >= 0 && first[a] + kExtents[a] <= src.extents[a];
  }
  const T* const corner = static_cast<const T*>(src.data) + first[0] * src.step[0] +
                          first[1] * src.step[1] + first[2] * src.step[2];
  for (std::int64_t d = 0; d < kExtents[0]; ++d)
    for (std::int64_t h = 0; h < kExtents[1]; ++h, voxels += kExtents[2]) {
      const T* const row = corner + d * src.step[0] + h * src.step[1];
      const bool row_inside =
          inside || (is_inside(src, 0, first[0] + d) && is_inside(src, 1, first[1] + h));
      unroll<kExtents[2]>([&](auto w) {
        voxels[w] = inside || (row_inside && is_inside(src, 2, first[2] + w))
                        ? row + w * src.step[2]
                        : zeros;
      });
    }
}

/// Two outputs of a kernel of kKernel taps, 2 or 3, from kSide inputs: A^T ((G g) * (B^T d)), where
/// * multiplies element by element, instead of 2 kKernel products (S. Winograd, Arithmetic
/// Complexity of Computations, 1980; A. Lavin and S. Gray, Fast Algorithms for Convolutional Neural
/// Networks, arXiv:1509.09308, section 4). With one tap, all matrices are 1, and there is one
/// output.
template <std::int64_t kKernel, std::int64_t kWindow>
struct AxisFiltering {
  static_assert(kKernel >= 1 && kKernel <= 3 && kWindow == (kKernel == 1 ? 1 : 2));
  static constexpr std::int64_t kTaps = kKernel;
  static constexpr std::int64_t kOutputs = kWindow, kSide = kTaps + kOutputs - 1;

  using Line = std::array<Vector, kSide>;
  using Taps = std::array<Vector, kTaps>;
  using Outputs = std::array<Vector, kOutputs>;

  /// B^T d.
  [[gnu::always_inline]] static Line of_input(const Line& d) {
    if constexpr (kTaps == 1)
      return d;
    else if constexpr (kTaps == 2)
      return {d[0] - d[1], d[1], d[2] - d[1]};
    else
      return {d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]};
  }
  /// G g.
  [[gnu::always_inline]] static Line of_weights(const Taps& g) {
    if constexpr (kTaps == 1) {
      return g;
    } else if constexpr (kTaps == 2) {
      return {g[0], g[0] + g[1], g[1]};
    } else {
      const Vector outer = (g[0] + g[2]) * 0.5F, inner = g[1] * 0.5F;
      return {g[0], outer + inner, outer - inner, g[2]};
    }
  }
  /// A y: the adjoint of A^T.
  [[gnu::always_inline]] static Line of_outputs(const Outputs& y) {
    if constexpr (kTaps == 1)
      return y;
    else if constexpr (kTaps == 2)
      return {y[0], y[0] + y[1], y[1]};
    else
      return {y[0], y[0] + y[1], y[0] - y[1], -y[1]};
  }
  /// G^T m: the adjoint of G.
  [[gnu::always_inline]] static Taps to_weights(const Line& m) {
    if constexpr (kTaps == 1) {
      return m;
    } else if constexpr (kTaps == 2) {
      return {m[0] + m[1], m[1] + m[2]};
    } else {
      const Vector sum = (m[1] + m[2]) * 0.5F, difference = (m[1] - m[2]) * 0.5F;
      return {m[0] + sum, difference, sum + m[3]};
    }
  }
  /// A^T m.
  [[gnu::always_inline]] static Outputs of_products(const Line& m) {
    if constexpr (kTaps == 1)
      return m;
    else if constexpr (kTaps == 2)
      return {m[0] + m[1], m[1] + m[2]};
    else
      return {m[0] + m[1] + m[2], m[1] - m[2] - m[3]};
  }
};

/// Four outputs of a kernel of three taps from six inputs, by the values of polynomials at 0, +-kA,
/// +-kB and infinity. Among pairs of short binary fractions, 3/4 and 3/2 lose least: the largest
/// error of F(2x4x4, 3x3x3) is a third of that of the usual 1 and 2, and about that of direct sums.
template <>
struct AxisFiltering<3, 4> {
  static constexpr std::int64_t kTaps = 3, kOutputs = 4, kSide = 6;
  static constexpr float kA = 0.75F, kB = 1.5F, kA2 = kA * kA, kB2 = kB * kB;
  // The weights of taps at 0, +-kA and +-kB: reciprocals of the derivative of x (x^2 - kA^2)
  // (x^2 - kB^2).
  static constexpr float kAtZero = 1 / (kA2 * kB2), kAtA = 1 / (2 * kA2 * (kA2 - kB2)),
                         kAtB = 1 / (2 * kB2 * (kB2 - kA2));

  using Line = std::array<Vector, kSide>;
  using Taps = std::array<Vector, kTaps>;
  using Outputs = std::array<Vector, kOutputs>;

  [[gnu::always_inline]] static Line of_input(const Line& d) {
    const Vector even_a = d[4] - d[2] * kB2, odd_a = (d[3] - d[1] * kB2) * kA;
    const Vector even_b = d[4] - d[2] * kA2, odd_b = (d[3] - d[1] * kA2) * kB;
    return {d[0] * (kA2 * kB2) + (d[4] - d[2] * (kA2 + kB2)),
            even_a + odd_a,
            even_a - odd_a,
            even_b + odd_b,
            even_b - odd_b,
            d[1] * (kA2 * kB2) + (d[5] - d[3] * (kA2 + kB2))};
  }
  [[gnu::always_inline]] static Line of_weights(const Taps& g) {
    const Vector even_a = (g[0] + g[2] * kA2) * kAtA, odd_a = g[1] * (kA * kAtA);
    const Vector even_b = (g[0] + g[2] * kB2) * kAtB, odd_b = g[1] * (kB * kAtB);
    return {g[0] * kAtZero, even_a + odd_a, even_a - odd_a, even_b + odd_b, even_b - odd_b, g[2]};
  }
  [[gnu::always_inline]] static Line of_outputs(const Outputs& y) {
    const Vector even_a = y[0] + y[2] * kA2, odd_a = (y[1] + y[3] * kA2) * kA;
    const Vector even_b = y[0] + y[2] * kB2, odd_b = (y[1] + y[3] * kB2) * kB;
    return {y[0], even_a + odd_a, even_a - odd_a, even_b + odd_b, even_b - odd_b, y[3]};
  }
  [[gnu::always_inline]] static Taps to_weights(const Line& m) {
    const Vector sum_a = (m[1] + m[2]) * kAtA, difference_a = (m[1] - m[2]) * (kA * kAtA);
    const Vector sum_b = (m[3] + m[4]) * kAtB, difference_b = (m[3] - m[4]) * (kB * kAtB);
    return {m[0] * kAtZero + (sum_a + sum_b), difference_a + difference_b,
            m[5] + (sum_a * kA2 + sum_b * kB2)};
  }
  [[gnu::always_inline]] static Outputs of_products(const Line& m) {
    const Vector sum_a = m[1] + m[2], difference_a = (m[1] - m[2]) * kA;
    const Vector sum_b = m[3] + m[4], difference_b = (m[3] - m[4]) * kB;
    return {m[0] + (sum_a + sum_b), difference_a + difference_b, sum_a * kA2 + sum_b * kB2,
            m[5] + (difference_a * kA2 + difference_b * kB2)};
  }
};

/// The filtering in three dimensions: each matrix is applied along its axis. It takes kPoints
/// products instead of kOutputs kTaps.
template <Spatial kTapsOfAxes, Spatial kWindowOfAxes>
struct Filtering {
  static constexpr Spatial kKernel = kTapsOfAxes, kWindow = kWindowOfAxes;
  using D = AxisFiltering<kKernel[0], kWindow[0]>;
  using H = AxisFiltering<kKernel[1], kWindow[1]>;
  using W = AxisFiltering<kKernel[2], kWindow[2]>;
  static constexpr Spatial kSides{D::kSide, H::kSide, W::kSide};
  static constexpr std::int64_t kArea = H::kSide * W::kSide, kPoints = D::kSide * kArea;
  static constexpr std::int64_t kAreaTaps = kKernel[1] * kKernel[2];
  static constexpr std::int64_t kTaps = kKernel[0] * kAreaTaps;
  static constexpr std::int64_t kAreaOutputs = kWindow[1] * kWindow[2];
  static constexpr std::int64_t kOutputs = kWindow[0] * kAreaOutputs;
  static constexpr bool kIsLarge = kWindow != window_of(kKernel);
  /// The point 1 along each axis of a small window (0 if the axis has one point), which each
  /// output contains with weight 1.
  static constexpr std::int64_t kPointOfBias =
      (kWindow[0] - 1) * kArea + (kWindow[1] - 1) * W::kSide + kWindow[2] - 1;

  using Outputs = std::array<Vector, kOutputs>;
  using Kernels = std::array<Vector, kTaps>;

  /// The place of output `number`, relative to the first of its window.
  static constexpr Spatial place_of_output(std::int64_t number) {
    return {number / kAreaOutputs, number / kWindow[2] % kWindow[1], number % kWindow[2]};
  }
};

/// Whether there are transforms for a kernel: 2 or 3 taps along each axis, or 3 along d and w, the
/// axes of images.
inline bool has_filtering(const Spatial& kernel) {
  return kernel == Spatial{2, 2, 2} || kernel == Spatial{3, 3, 3} || kernel == Spatial{3, 1, 3};
}

inline std::int64_t points_of(const Spatial& kernel, const Spatial& window) {
  std::int64_t points = 1;
  for (std::size_t a = 0; a < 3; ++a) points *= kernel[a] + window[a] - 1;
  return points;
}

/// Calls body() with the Filtering of a kernel that has one, for a small or a large window.
template <class Body>
void with_filtering(const Spatial& kernel, const Spatial& window, const Body& body) {
  const bool large = window != window_of(kernel);
  const auto with = [&]<Spatial kKernel>(std::integral_constant<Spatial, kKernel>) {
    if (large)
      body(Filtering<kKernel, large_window_of(kKernel)>());
    else
      body(Filtering<kKernel, window_of(kKernel)>());
  };
  if (kernel[0] == 2)
    body(Filtering<Spatial{2, 2, 2}, Spatial{2, 2, 2}>());
  else if (kernel[1] == 3)
    with(std::integral_constant<Spatial, Spatial{3, 3, 3}>());
  else
    with(std::integral_constant<Spatial, Spatial{3, 1, 3}>());
}

/// Applies the matrix of each axis to kFrom vectors, in d,h,w order, which become kTo vectors:
/// input i is from(i), and output i goes to `to`(i, vector).
template <class F, Spatial kFrom, Spatial kTo, class Matrix, class From, class To>
[[gnu::always_inline]] inline void transform_axes(const Matrix& matrix, const From& from,
                                                  const To& to) {
  constexpr std::int64_t kAreaFrom = kFrom[1] * kFrom[2], kAreaTo = kTo[1] * kTo[2];
  std::array<std::array<Vector, kFrom[0]>, kAreaTo> columns;  // along d
  unroll<kFrom[0]>([&](auto d) __attribute__((always_inline)) {
    std::array<std::array<Vector, kTo[2]>, kFrom[1]> rows;
    unroll<kFrom[1]>([&](auto h) __attribute__((always_inline)) {
      std::array<Vector, kFrom[2]> row;
      unroll<kFrom[2]>([&](auto w) __attribute__((always_inline)) {
        row[w] = from(d * kAreaFrom + h * kFrom[2] + w);
      });
      rows[h] = matrix(typename F::W(), row);
    });
    unroll<kTo[2]>([&](auto w) __attribute__((always_inline)) {
      std::array<Vector, kFrom[1]> column;
      unroll<kFrom[1]>([&](auto h) __attribute__((always_inline)) { column[h] = rows[h][w]; });
      const std::array<Vector, kTo[1]> made = matrix(typename F::H(), column);
      unroll<kTo[1]>([&](auto h)
                         __attribute__((always_inline)) { columns[h * kTo[2] + w][d] = made[h]; });
    });
  });
  unroll<kAreaTo>([&](auto i) __attribute__((always_inline)) {
    const std::array<Vector, kTo[0]> made = matrix(typename F::D(), columns[i]);
    unroll<kTo[0]>([&](auto d) __attribute__((always_inline)) { to(d * kAreaTo + i, made[d]); });
  });
}

/// Transforms one vector of channels of a tile: its kPoints voxels, in d,h,w order, are at `voxels`
/// + c; point i goes to `to` + i * step.
template <class F, class T>
[[gnu::always_inline]] inline void transform_input(const T* const* voxels, std::int64_t c,
                                                   float* to, std::int64_t step) {
  transform_axes<F, F::kSides, F::kSides>(
      [](auto axis, const auto& line)
          __attribute__((always_inline)) { return axis.of_input(line); },
      [&](std::int64_t i)
          __attribute__((always_inline)) { return load_values(voxels[i] + c, kVector); },
      [&](std::int64_t i, const Vector& point)
          __attribute__((always_inline)) { store(point, to + i * step); });
}

/// Transforms the taps of kVector output channels, kernels[tap] in d,h,w order; point i goes to
/// `to` + i * step.
template <class F>
[[gnu::always_inline]] inline void transform_weights(const typename F::Kernels& kernels, float* to,
                                                     std::int64_t step) {
  transform_axes<F, F::kKernel, F::kSides>(
      [](auto axis, const auto& line)
          __attribute__((always_inline)) { return axis.of_weights(line); },
      [&](std::int64_t i)
          __attribute__((always_inline)) { return kernels[static_cast<std::size_t>(i)]; },
      [&](std::int64_t i, const Vector& point)
          __attribute__((always_inline)) { store(point, to + i * step); });
}

/// The outputs, in d,h,w order, of the sums of products at `from` + i * step.
template <class F>
[[gnu::always_inline]] inline typename F::Outputs transform_products(const float* from,
                                                                     std::int64_t step) {
  typename F::Outputs outputs;
  transform_axes<F, F::kSides, F::kWindow>(
      [](auto axis, const auto& line)
          __attribute__((always_inline)) { return axis.of_products(line); },
      [&](std::int64_t i) __attribute__((always_inline)) { return load(from + i * step); },
      [&](std::int64_t i, const Vector& output)
          __attribute__((always_inline)) { outputs[static_cast<std::size_t>(i)] = output; });
  return outputs;
}

/// Transforms one vector of channels of a tile's gradient, which has kOutputs voxels, as
/// transform_input() does the source.
template <class F, class T>
[[gnu::always_inline]] inline void transform_outputs(const T* const* voxels, std::int64_t c,
                                                     float* to, std::int64_t step) {
  transform_axes<F, F::kWindow, F::kSides>(
      [](auto axis, const auto& line)
          __attribute__((always_inline)) { return axis.of_outputs(line); },
      [&](std::int64_t i)
          __attribute__((always_inline)) { return load_values(voxels[i] + c, kVector); },
      [&](std::int64_t i, const Vector& point)
          __attribute__((always_inline)) { store(point, to + i * step); });
}

/// The gradient of the kernels' taps, in d,h,w order, from the gradient of the points at `from` + i
/// * step.
template <class F>
[[gnu::always_inline]] inline typename F::Kernels transform_sums(const float* from,
                                                                 std::int64_t step) {
  typename F::Kernels kernels;
  transform_axes<F, F::kSides, F::kKernel>(
      [](auto axis, const auto& line)
          __attribute__((always_inline)) { return axis.to_weights(line); },
      [&](std::int64_t i) __attribute__((always_inline)) { return load(from + i * step); },
      [&](std::int64_t i, const Vector& tap)
          __attribute__((always_inline)) { kernels[static_cast<std::size_t>(i)] = tap; });
  return kernels;
}

}  // namespace winograd
}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
