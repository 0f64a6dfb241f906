// SPDX-License-Identifier: Apache-2.0
// Functions of two tensors: see binary.hpp.
#include "src/nn/layers/binary.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <type_traits>

#include "src/nn/kernels/float_types.hpp"
#include "src/nn/runs.hpp"

namespace halomesh {
namespace {

constexpr const char* kBinaryNames[] = {"add",    "subtract", "multiply",
                                        "divide", "maximum",  "minimum"};

// Calls body(value(a, b), slopes in a and b as functions of a and b).
template <class Body>
void with_binary(BinaryKind kind, const Body& body) {
  const auto one = [](float, float) { return 1.0F; };
  const auto share = [](bool less, bool more) { return less ? 0.0F : more ? 1.0F : 0.5F; };
  const auto above = [=](float a, float b) { return share(a<b, a> b); };
  const auto below = [=](float a, float b) { return share(a > b, a < b); };
  switch (kind) {
    case BinaryKind::kAdd:
      return body([](float a, float b) { return a + b; }, one, one);
    case BinaryKind::kSubtract:
      return body([](float a, float b) { return a - b; }, one, [](float, float) { return -1.0F; });
    case BinaryKind::kMultiply:
      return body([](float a, float b) { return a * b; }, [](float, float b) { return b; },
                  [](float a, float) { return a; });
    case BinaryKind::kDivide:
      return body([](float a, float b) { return a / b; }, [](float, float b) { return 1 / b; },
                  [](float a, float b) { return -a / b / b; });
    case BinaryKind::kMaximum:
      return body([](float a, float b) { return a > b || a != a ? a : b; }, above,
                  [=](float a, float b) { return below(a, b); });
    case BinaryKind::kMinimum:
      return body([](float a, float b) { return a < b || a != a ? a : b; }, below,
                  [=](float a, float b) { return above(a, b); });
  }
}

// The two inputs of a layer and their shapes, which may have extents of 1 where that of dst is not.
template <class T>
struct BinaryInputs {
  BinaryInputs(std::span<const AnyConstView> src, std::span<const Shape> src_shapes)
      : views{src[0].as<T>(), src[1].as<T>()}, shapes{src_shapes[0], src_shapes[1]} {}

  // Calls body(i, f(a, b)) for `count` channels from number `c` of a pixel of dst, or pixels of a
  // row, on. The steps from one channel to the next are constants, since compilers vectorize no
  // other loops.
  template <class Function, class Body>
  void each(const Run& at, std::int64_t c, std::int64_t count, const Function& f,
            const Body& body) const {
    const auto begin = [&](std::size_t i) {
      const Shape& s = shapes[i];
      return views[i].data + views[i].offset(at.n, s.c == 1 ? 0 : c, s.d == 1 ? 0 : at.d,
                                             s.h == 1 ? 0 : at.h, s.w == 1 ? 0 : at.w);
    };
    const T *const a = begin(0), *const b = begin(1);
    const auto loop = [&](auto step_a, auto step_b) {
      for (std::int64_t i = 0; i < count; ++i)
        body(i, f(static_cast<float>(a[i * step_a]), static_cast<float>(b[i * step_b])));
    };
    using Zero = std::integral_constant<std::int64_t, 0>;
    using One = std::integral_constant<std::int64_t, 1>;
    if (shapes[0].c == shapes[1].c)
      loop(One(), One());
    else
      shapes[0].c == 1 ? loop(Zero(), One()) : loop(One(), Zero());
  }

  std::array<TensorView<const T>, 2> views;
  std::array<Shape, 2> shapes;
};

}  // namespace

Shape Binary::dst_shape(std::span<const Shape> src) const {
  require(src.size() == 2,
          text("{} of {} inputs", kBinaryNames[static_cast<std::size_t>(kind_)], src.size()),
          "name two inputs for it");
  const auto extent = [&](std::int64_t a, std::int64_t b) {
    require(a == b || a == 1 || b == 1,
            text("{} of {} and {}", kBinaryNames[static_cast<std::size_t>(kind_)], src[0], src[1]),
            "extents must be equal, or one of them 1");
    return std::max(a, b);
  };
  return {extent(src[0].c, src[1].c), extent(src[0].d, src[1].d), extent(src[0].h, src[1].h),
          extent(src[0].w, src[1].w)};
}

Box Binary::needs(const Box& dst, std::size_t input, std::span<const Shape> src) const {
  if (dst.empty()) return {};
  const Box whole = Box::whole(src[input]);
  Box box = dst;
  for (std::size_t a = 0; a < 4; ++a)
    if (whole.hi[a] == 1) {
      box.lo[a] = 0;
      box.hi[a] = 1;
    }
  return box;
}

DataType Binary::dst_type(std::span<const DataType> src) const {
  return require_type(src, type_, kBinaryNames[static_cast<std::size_t>(kind_)]);
}

std::string Binary::kernel_name() const {
  return fmt::format("{} {}", kBinaryNames[static_cast<std::size_t>(kind_)], name_of(type_));
}

void Binary::prepare(const LayerContext& context, std::vector<ParameterView>) {
  context_ = context;
  if (context.training) sums_ = ChannelSums(context.boxes.dst_produced.extent(kC), 1);
}

void Binary::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst,
                     const Box& chunk) {
  with_binary(kind_, [&](const auto& value, const auto&, const auto&) {
    with_float_type(type_, [&](auto zero) {
      using T = decltype(zero);
      const BinaryInputs<T> inputs(src, context_.src_shapes);
      const auto to = dst.as<T>();
      const bool rows = inputs.shapes[0] == inputs.shapes[1] &&
                        has_all_channels(chunk, inputs.views[0], inputs.views[1], to);
      visit_runs(chunk, to.batch, rows, [&](const Run& run) {
        T* const y = run.begin_in(to, chunk);
        inputs.each(run, chunk.lo[kC], run.length, value,
                    [y](std::int64_t i, float v) { y[i] = T(v); });
      });
    });
  });
}

// Writes the gradient of an input: to each of its elements the sum over the elements of dst that it
// belongs to. each_diff(pixel of dst, body) calls body(i, diff) for the produced channels.
template <class T, class EachDiff>
void Binary::write_diffs(TensorView<T> diff_src, std::size_t input, const EachDiff& each_diff) {
  const Box &box = context_.boxes.src_needed[input], &dst = context_.boxes.dst_produced;
  const Spatial extents = context_.src_shapes[input].spatial();
  const bool sums_channels = box.extent(kC) != dst.extent(kC);
  const auto sums_along = [&](std::size_t axis) { return box.extent(axis) != dst.extent(axis); };
  if (!sums_along(kD) && !sums_along(kH) && !sums_along(kW))
    return visit_runs(dst, diff_src.batch, false, [&](const Run& run) {
      T* const dx =
          diff_src.data + diff_src.offset(run.n, box.lo[kC], extents[0] == 1 ? 0 : run.d,
                                          extents[1] == 1 ? 0 : run.h, extents[2] == 1 ? 0 : run.w);
      if (!sums_channels)
        return each_diff(run, [dx](std::int64_t i, float diff) { dx[i] = T(diff); });
      double sum = 0;
      each_diff(run, [&](std::int64_t, float diff) { sum += static_cast<double>(diff); });
      *dx = T(static_cast<float>(sum));
    });
  visit_runs_of_thread(box, diff_src.batch, false, 0, 1, [&](const Run& run) {
    Box pixels = dst;
    const Spatial at{run.d, run.h, run.w};
    for (std::size_t a = 0; a < 3; ++a)
      if (extents[a] != 1) {
        pixels.lo[a + 1] = at[a];
        pixels.hi[a + 1] = at[a] + 1;
      }
    const auto totals =
        sums_.over(pixels, run.n, 1, [&](auto n, auto d, auto h, auto w, double* const sums) {
          each_diff(Run{n, d, h, w},
                    [sums](std::int64_t i, float diff) { sums[i] += static_cast<double>(diff); });
        });
    T* const dx = run.begin_in(diff_src, box);
    if (sums_channels)
      *dx = T(static_cast<float>(std::accumulate(totals.begin(), totals.end(), 0.0)));
    else
      std::transform(totals.begin(), totals.end(), dx,
                     [](double sum) { return T(static_cast<float>(sum)); });
  });
}

void Binary::backward_data(const Pass&, const ForwardValues& values, AnyConstView diff_dst,
                           std::size_t input, AnyView diff_src) {
  const Box& box = context_.boxes.dst_produced;
  with_binary(kind_, [&](const auto&, const auto& slope0, const auto& slope1) {
    with_float_type(type_, [&](auto zero) {
      using T = decltype(zero);
      const BinaryInputs<T> inputs(values.src, context_.src_shapes);
      const auto from = diff_dst.as<T>();
      const auto write = [&](const auto& slope) {
        write_diffs(diff_src.as<T>(), input, [&](const Run& at, const auto& body) {
          const T* const dy = at.begin_in(from, box);
          inputs.each(at, box.lo[kC], box.extent(kC), slope, [&](std::int64_t i, float factor) {
            body(i, static_cast<float>(dy[i]) * factor);
          });
        });
      };
      input == 0 ? write(slope0) : write(slope1);
    });
  });
}

}  // namespace halomesh
