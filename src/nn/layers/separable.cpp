// SPDX-License-Identifier: Apache-2.0
// Layers that are a matrix along each axis: see separable.hpp.
#include "src/nn/layers/separable.hpp"

#include <algorithm>

#include "src/nn/kernels/float_types.hpp"
#include "src/nn/kernels/lanes.hpp"
#include "src/nn/runs.hpp"

namespace halomesh {

Shape Separable::dst_shape(std::span<const Shape> src) const {
  require(src.size() == 1, text("{} of {} inputs", name_, src.size()), "name one input for it");
  const Spatial dst = extents_of(src[0].spatial());
  return {src[0].c, dst[0], dst[1], dst[2]};
}

Box Separable::needs(const Box& dst, std::size_t, std::span<const Shape> src) const {
  if (dst.empty()) return {};
  Box box = dst;
  for (std::size_t a = 0; a < 3; ++a) {
    std::vector<Term> terms;
    for (std::int64_t i = dst.lo[a + 1]; i < dst.hi[a + 1]; ++i)
      append_row(src[0].spatial(), a, i, terms);
    if (terms.empty()) return {};
    const auto [low, high] = std::ranges::minmax_element(terms, {}, &Term::plane);
    box.lo[a + 1] = low->plane;
    box.hi[a + 1] = high->plane + 1;
  }
  return box;
}

DataType Separable::dst_type(std::span<const DataType> src) const {
  return require_type(src, type_, name_);
}

std::int64_t Separable::forward_flops(std::span<const Shape> src) const {
  const Shape dst = dst_shape(src);
  std::int64_t flops = 2 * dst.volume();
  for (std::size_t a = 0; a < 3; ++a) {
    std::vector<Term> row;
    append_row(src[0].spatial(), a, dst.spatial()[a] / 2, row);
    flops *= std::max<std::int64_t>(std::ssize(row), 1);
  }
  return flops;
}

void Separable::prepare(const LayerContext& context, std::vector<ParameterView>) {
  context_ = context;
  const Box &src = context.boxes.src_needed[0], &dst = context.boxes.dst_produced;
  for (std::size_t a = 0; a < 3; ++a) {
    Rows &rows = forward_[a] = {dst.lo[a + 1]}, &columns = backward_[a] = {src.lo[a + 1]};
    std::vector<std::vector<Term>> of_plane(static_cast<std::size_t>(src.extent(a + 1)));
    for (std::int64_t i = dst.lo[a + 1]; i < dst.hi[a + 1]; ++i) {
      append_row(context.src_shapes[0].spatial(), a, i, rows.terms);
      for (const Term& term : std::span(rows.terms).subspan(rows.first.back()))
        if (!src.empty())
          of_plane[static_cast<std::size_t>(term.plane - columns.lo)].push_back({i, term.weight});
      rows.first.push_back(rows.terms.size());
    }
    for (const std::vector<Term>& column : of_plane) {
      columns.terms.insert(columns.terms.end(), column.begin(), column.end());
      columns.first.push_back(columns.terms.size());
    }
  }
}

// Writes `box` of all samples.
template <class T>
void Separable::multiply(const Pass& pass, const Matrix& matrix, TensorView<const T> from,
                         TensorView<T> to, const Box& box, float outside) const {
  const std::int64_t step = from.span.extent(kC);
  const auto write_pixel = [&](const Run& at, T* y) {
    const auto rd = matrix[0].of(at.d), rh = matrix[1].of(at.h), rw = matrix[2].of(at.w);
    if (rd.empty() || rh.empty() || rw.empty())
      return std::fill_n(y, at.length, T(outside)), void();
    for_each_lane_block(0, at.length, [&](std::int64_t c, auto lanes) {
      FloatLanes sum{};
      for (const Term& d : rd)
        for (const Term& h : rh) {
          const T* const x =
              from.data + from.offset(at.n, box.lo[kC] + c, d.plane, h.plane, from.span.lo[kW]);
          for (const Term& w : rw)
            sum += static_cast<float>(d.weight * h.weight * w.weight) *
                   load_values(x + (w.plane - from.span.lo[kW]) * step, lanes);
        }
      store_values(sum, lanes, y + c);
    });
  };
  visit_runs(box, to.batch, false,
             [&](const Run& run) { write_pixel(run, run.begin_in(to, box)); });
  pass.progress();
}

void Separable::forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
                        const Box& chunk) {
  with_float_type(type_, [&](auto zero) {
    using T = decltype(zero);
    multiply<T>(pass, forward_, src[0].as<T>(), dst.as<T>(), chunk, outside_);
  });
}

void Separable::backward_data(const Pass& pass, const ForwardValues&, AnyConstView diff_dst,
                              std::size_t input, AnyView diff_src) {
  const Box& box = context_.boxes.src_needed[input];
  with_float_type(type_, [&](auto zero) {
    using T = decltype(zero);
    multiply<T>(pass, backward_, diff_dst.as<T>(), diff_src.as<T>(), box, 0);
  });
}

}  // namespace halomesh
