// SPDX-License-Identifier: Apache-2.0
// The transforms of Winograd's minimal filtering F(2, 2) and F(2, 3) in three dimensions, on
// vectors of channels in registers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/nn/layers/isa.hpp"
#include "src/nn/layers/pooled_weight_tile.hpp"

namespace halomesh {
inline namespace HALOMESH_ISA {
namespace winograd {

using pooled_weight::kVector;
using pooled_weight::load;
using pooled_weight::store;
using pooled_weight::unroll;
using pooled_weight::Vector;

/// What the windows of a box read of one sample: a block of memory outside of which is zero.
struct Source {
  const float* data = nullptr;  ///< of the block's first voxel
  Spatial step{};               ///< elements from one voxel to the next along each axis
  Spatial extents{};            ///< of the block
  Spatial corner{};             ///< of the first window, relative to the block
};

/// Of window number `window` of a box, in d,h,w order, relative to its first.
inline Spatial place_of(std::int64_t window, const Spatial& extents) {
  return {window / extents[2] / extents[1], window / extents[2] % extents[1], window % extents[2]};
}

inline bool is_inside(const Source& src, std::size_t axis, std::int64_t place) {
  return place >= 0 && place < src.extents[axis];
}

/// The kSide^3 voxels from the first of the window at `place` on, in d,h,w order: those outside of
/// the source are at `zeros`. Windows are two voxels apart.
template <std::int64_t kSide>
void find_voxels(const Source& src, const Spatial& place, const float* zeros,
                 const float** voxels) {
  Spatial first{};
  bool inside = true;
  for (std::size_t a = 0; a < 3; ++a) {
    first[a] = src.corner[a] + 2 * place[a];
    inside = inside && first[a] >= 0 && first[a] + kSide <= src.extents[a];
  }
  const float* const corner =
      src.data + first[0] * src.step[0] + first[1] * src.step[1] + first[2] * src.step[2];
  for (std::int64_t d = 0; d < kSide; ++d)
    for (std::int64_t h = 0; h < kSide; ++h, voxels += kSide) {
      const float* const row = corner + d * src.step[0] + h * src.step[1];
      const bool row_inside =
          inside || (is_inside(src, 0, first[0] + d) && is_inside(src, 1, first[1] + h));
      unroll<kSide>([&](auto w) {
        voxels[w] = inside || (row_inside && is_inside(src, 2, first[2] + w))
                        ? row + w * src.step[2]
                        : zeros;
      });
    }
}

/// Two outputs of a kernel of kKernel taps, 2 or 3, from kSide inputs: A^T ((G g) * (B^T d)), where
/// * multiplies element by element, instead of 2 kKernel products (S. Winograd, Arithmetic
/// Complexity of Computations, 1980; A. Lavin and S. Gray, Fast Algorithms for Convolutional Neural
/// Networks, arXiv:1509.09308, section 4). In three dimensions each matrix is applied along each
/// axis: kPoints products instead of 8 kKernel^3.
template <std::int64_t kKernel>
struct Filtering {
  static_assert(kKernel == 2 || kKernel == 3);
  static constexpr std::int64_t kSide = kKernel + 1, kArea = kSide * kSide;
  static constexpr std::int64_t kPoints = kSide * kArea, kTaps = kKernel * kKernel * kKernel;
  /// Point (1, 1, 1), which each of the eight outputs contains with weight 1.
  static constexpr std::int64_t kPointOfBias = kArea + kSide + 1;

  using Line = std::array<Vector, kSide>;

  /// B^T d.
  [[gnu::always_inline]] static Line of_input(const Line& d) {
    if constexpr (kKernel == 2)
      return {d[0] - d[1], d[1], d[2] - d[1]};
    else
      return {d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]};
  }
  /// G g.
  [[gnu::always_inline]] static Line of_weights(const std::array<Vector, kKernel>& g) {
    if constexpr (kKernel == 2) {
      return {g[0], g[0] + g[1], g[1]};
    } else {
      const Vector outer = (g[0] + g[2]) * 0.5F, inner = g[1] * 0.5F;
      return {g[0], outer + inner, outer - inner, g[2]};
    }
  }
  /// A y: the adjoint of A^T.
  [[gnu::always_inline]] static Line of_outputs(const std::array<Vector, 2>& y) {
    if constexpr (kKernel == 2)
      return {y[0], y[0] + y[1], y[1]};
    else
      return {y[0], y[0] + y[1], y[0] - y[1], -y[1]};
  }
  /// G^T m: the adjoint of G.
  [[gnu::always_inline]] static std::array<Vector, kKernel> to_weights(const Line& m) {
    if constexpr (kKernel == 2) {
      return {m[0] + m[1], m[1] + m[2]};
    } else {
      const Vector sum = (m[1] + m[2]) * 0.5F, difference = (m[1] - m[2]) * 0.5F;
      return {m[0] + sum, difference, sum + m[3]};
    }
  }
  /// A^T m.
  [[gnu::always_inline]] static std::array<Vector, 2> of_products(const Line& m) {
    if constexpr (kKernel == 2)
      return {m[0] + m[1], m[1] + m[2]};
    else
      return {m[0] + m[1] + m[2], m[1] - m[2] - m[3]};
  }
};

/// Transforms one vector of channels of a tile: its kPoints voxels, in d,h,w order, are at
/// `voxels` + c; point i goes to `to` + i * step.
template <std::int64_t kKernel>
[[gnu::always_inline]] inline void transform_input(const float* const* voxels, std::int64_t c,
                                                   float* to, std::int64_t step) {
  using F = Filtering<kKernel>;
  constexpr std::int64_t kSide = F::kSide;
  std::array<typename F::Line, F::kArea> columns;  // along d
  unroll<kSide>([&](auto d) {
    std::array<typename F::Line, kSide> rows;
    unroll<kSide>([&](auto h) {
      typename F::Line row;
      unroll<kSide>([&](auto w) { row[w] = load(voxels[d * F::kArea + h * kSide + w] + c); });
      rows[h] = F::of_input(row);
    });
    unroll<kSide>([&](auto w) {
      typename F::Line column;
      unroll<kSide>([&](auto h) { column[h] = rows[h][w]; });
      column = F::of_input(column);
      unroll<kSide>([&](auto h) { columns[h * kSide + w][d] = column[h]; });
    });
  });
  unroll<F::kArea>([&](auto i) {
    const typename F::Line points = F::of_input(columns[i]);
    unroll<kSide>([&](auto d) { store(points[d], to + (d * F::kArea + i) * step); });
  });
}

/// Transforms the taps of kVector output channels, kernels[tap] in d,h,w order; point i goes to
/// `to` + i * step.
template <std::int64_t kKernel>
[[gnu::always_inline]] inline void transform_weights(
    const std::array<Vector, Filtering<kKernel>::kTaps>& kernels, float* to, std::int64_t step) {
  using F = Filtering<kKernel>;
  constexpr std::int64_t kSide = F::kSide, kArea = kKernel * kKernel;
  std::array<std::array<Vector, kKernel>, F::kArea> columns;
  unroll<kKernel>([&](auto d) {
    std::array<typename F::Line, kKernel> rows;
    unroll<kKernel>([&](auto h) {
      std::array<Vector, kKernel> row;
      unroll<kKernel>([&](auto w) { row[w] = kernels[d * kArea + h * kKernel + w]; });
      rows[h] = F::of_weights(row);
    });
    unroll<kSide>([&](auto w) {
      std::array<Vector, kKernel> column;
      unroll<kKernel>([&](auto h) { column[h] = rows[h][w]; });
      const typename F::Line points = F::of_weights(column);
      unroll<kSide>([&](auto h) { columns[h * kSide + w][d] = points[h]; });
    });
  });
  unroll<F::kArea>([&](auto i) {
    const typename F::Line points = F::of_weights(columns[i]);
    unroll<kSide>([&](auto d) { store(points[d], to + (d * F::kArea + i) * step); });
  });
}

/// The eight outputs, in d,h,w order, of the sums of products at `from` + i * step.
template <std::int64_t kKernel>
[[gnu::always_inline]] inline std::array<Vector, 8> transform_products(const float* from,
                                                                       std::int64_t step) {
  using F = Filtering<kKernel>;
  constexpr std::int64_t kSide = F::kSide;
  std::array<typename F::Line, 4> columns;
  unroll<kSide>([&](auto d) {
    std::array<std::array<Vector, 2>, kSide> rows;
    unroll<kSide>([&](auto h) {
      typename F::Line row;
      unroll<kSide>([&](auto w) { row[w] = load(from + (d * F::kArea + h * kSide + w) * step); });
      rows[h] = F::of_products(row);
    });
    unroll<2>([&](auto w) {
      typename F::Line column;
      unroll<kSide>([&](auto h) { column[h] = rows[h][w]; });
      const std::array<Vector, 2> pair = F::of_products(column);
      columns[w][d] = pair[0];
      columns[2 + w][d] = pair[1];
    });
  });
  std::array<Vector, 8> outputs;
  unroll<4>([&](auto i) {
    const std::array<Vector, 2> pair = F::of_products(columns[i]);
    outputs[i] = pair[0];
    outputs[4 + i] = pair[1];
  });
  return outputs;
}

/// Transforms one vector of channels of a tile's gradient, as transform_input() its voxels: there
/// are eight.
template <std::int64_t kKernel>
[[gnu::always_inline]] inline void transform_outputs(const float* const* voxels, std::int64_t c,
                                                     float* to, std::int64_t step) {
  using F = Filtering<kKernel>;
  constexpr std::int64_t kSide = F::kSide;
  std::array<std::array<Vector, 2>, F::kArea> columns;  // along d
  unroll<2>([&](auto d) {
    std::array<typename F::Line, 2> rows;
    unroll<2>([&](auto h) {
      rows[h] =
          F::of_outputs({load(voxels[d * 4 + h * 2] + c), load(voxels[d * 4 + h * 2 + 1] + c)});
    });
    unroll<kSide>([&](auto w) {
      const typename F::Line column = F::of_outputs({rows[0][w], rows[1][w]});
      unroll<kSide>([&](auto h) { columns[h * kSide + w][d] = column[h]; });
    });
  });
  unroll<F::kArea>([&](auto i) {
    const typename F::Line points = F::of_outputs(columns[i]);
    unroll<kSide>([&](auto d) { store(points[d], to + (d * F::kArea + i) * step); });
  });
}

/// The gradient of the kernels' taps, in d,h,w order, from that of the points at `from` + i * step.
template <std::int64_t kKernel>
[[gnu::always_inline]] inline std::array<Vector, Filtering<kKernel>::kTaps> transform_sums(
    const float* from, std::int64_t step) {
  using F = Filtering<kKernel>;
  constexpr std::int64_t kSide = F::kSide, kArea = kKernel * kKernel;
  std::array<typename F::Line, kArea> columns;
  unroll<kSide>([&](auto d) {
    std::array<std::array<Vector, kKernel>, kSide> rows;
    unroll<kSide>([&](auto h) {
      typename F::Line row;
      unroll<kSide>([&](auto w) { row[w] = load(from + (d * F::kArea + h * kSide + w) * step); });
      rows[h] = F::to_weights(row);
    });
    unroll<kKernel>([&](auto w) {
      typename F::Line column;
      unroll<kSide>([&](auto h) { column[h] = rows[h][w]; });
      const std::array<Vector, kKernel> taps = F::to_weights(column);
      unroll<kKernel>([&](auto h) { columns[h * kKernel + w][d] = taps[h]; });
    });
  });
  std::array<Vector, F::kTaps> kernels;
  unroll<kArea>([&](auto i) {
    const std::array<Vector, kKernel> taps = F::to_weights(columns[i]);
    unroll<kKernel>([&](auto d) { kernels[d * kArea + i] = taps[d]; });
  });
  return kernels;
}

}  // namespace winograd
}  // namespace HALOMESH_ISA
}  // namespace halomesh
