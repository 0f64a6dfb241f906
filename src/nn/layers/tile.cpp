// SPDX-License-Identifier: Apache-2.0
// One voxel repeated over space: see tile.hpp.
#include "src/nn/layers/tile.hpp"

#include <algorithm>

#include "src/nn/kernels/float_types.hpp"
#include "src/nn/runs.hpp"

namespace halomesh {

Tile::Tile(const Spatial& extents, DataType type) : extents_(extents), type_(type) {
  require(extents[0] > 0 && extents[1] > 0 && extents[2] > 0,
          text("tile to extents {}x{}x{}", extents[0], extents[1], extents[2]),
          "give extents of at least 1");
}

Shape Tile::dst_shape(std::span<const Shape> src) const {
  require(src.size() == 1, text("tile of {} inputs", src.size()), "name one input for it");
  require(src[0].spatial() == Spatial{1, 1, 1}, text("tile of an input {}", src[0]),
          "only an input of one voxel can be repeated");
  return {src[0].c, extents_[0], extents_[1], extents_[2]};
}

Box Tile::needs(const Box& dst, std::size_t, std::span<const Shape>) const {
  if (dst.empty()) return {};
  return {{dst.lo[kC], 0, 0, 0}, {dst.hi[kC], 1, 1, 1}};
}

DataType Tile::dst_type(std::span<const DataType> src) const {
  return require_type(src, type_, "tile");
}

std::string Tile::kernel_name() const { return fmt::format("tile {}", name_of(type_)); }

void Tile::prepare(const LayerContext& context, std::vector<ParameterView>) {
  context_ = context;
  if (context.training) sums_ = ChannelSums(context.boxes.dst_produced.extent(kC), 1);
}

void Tile::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst, const Box& chunk) {
  with_float_type(type_, [&](auto zero) {
    using T = decltype(zero);
    const auto from = src[0].as<T>();
    const auto to = dst.as<T>();
    visit_runs(chunk, to.batch, false, [&](const Run& run) {
      std::copy_n(from.data + from.offset(run.n, chunk.lo[kC], 0, 0, 0), run.length,
                  run.begin_in(to, chunk));
    });
  });
}

void Tile::backward_data(const Pass&, const ForwardValues&, AnyConstView diff_dst, std::size_t,
                         AnyView diff_src) {
  const Box& box = context_.boxes.dst_produced;
  const std::int64_t channels = box.extent(kC);
  with_float_type(type_, [&](auto zero) {
    using T = decltype(zero);
    const auto from = diff_dst.as<T>();
    const auto to = diff_src.as<T>();
    for (std::int64_t n = 0; n < to.batch; ++n) {
      const auto totals =
          sums_.over(box, n, 1, [&](auto sample, auto d, auto h, auto w, double* const sums) {
            const T* const dy = from.data + from.offset(sample, box.lo[kC], d, h, w);
            for (std::int64_t c = 0; c < channels; ++c)
              sums[c] += static_cast<double>(static_cast<float>(dy[c]));
          });
      T* const dx = to.data + to.offset(n, box.lo[kC], 0, 0, 0);
      for (std::int64_t c = 0; c < channels; ++c)
        dx[c] = T(static_cast<float>(totals[static_cast<std::size_t>(c)]));
    }
  });
}

}  // namespace halomesh
