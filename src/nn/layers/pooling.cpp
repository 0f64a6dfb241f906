// SPDX-License-Identifier: Apache-2.0
// Pooling: see pooling.hpp.
#include "src/nn/layers/pooling.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "error.hpp"
#include "src/nn/kernels/float_types.hpp"
#include "src/nn/kernels/lanes.hpp"

namespace halomesh {
namespace {

// Calls body(Pixel) for each pixel of the box in each sample; rows are distributed over threads.
template <class Pixel, class Body>
void for_each_pixel(const Box& box, std::int64_t batch, const Body& body) {
  if (box.empty()) return;
  const std::int64_t depth = box.extent(kD), height = box.extent(kH);
  const std::int64_t rows = batch * depth * height;
#pragma omp parallel for schedule(static) if (rows * box.extent(kW) * box.extent(kC) > 16384)
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
      body(Pixel{row / (depth * height), box.lo[kD] + row / height % depth,
                 box.lo[kH] + row % height, w});
}

}  // namespace

// The elements under one window that lie inside the input.
template <class T>
struct Pooling::Taps {
  T* first;                          // the first tap inside
  std::array<Range, 3> inside;       // tap numbers on each axis
  std::array<std::int64_t, 3> step;  // elements between neighbours along d, h, w
  Spatial kernel;

  std::int32_t first_number() const {
    return static_cast<std::int32_t>((inside[0].lo * kernel[1] + inside[1].lo) * kernel[2] +
                                     inside[2].lo);
  }
  // Calls body(pointer to channel c of the tap, number of the tap) in d,h,w order.
  template <class Body>
  void for_each(std::int64_t c, const Body& body) const {
    for (std::int64_t kd = inside[0].lo; kd < inside[0].hi; ++kd)
      for (std::int64_t kh = inside[1].lo; kh < inside[1].hi; ++kh) {
        T* row = first + (kd - inside[0].lo) * step[0] + (kh - inside[1].lo) * step[1] + c;
        const auto number = static_cast<std::int32_t>((kd * kernel[1] + kh) * kernel[2]);
        for (std::int64_t kw = inside[2].lo; kw < inside[2].hi; ++kw, row += step[2])
          body(row, number + static_cast<std::int32_t>(kw));
      }
  }
};

template <class T>
Pooling::Taps<T> Pooling::taps_of(const Pixel& dst, TensorView<T> src, std::int64_t channel) const {
  const Box& span = src.span;
  Taps<T> taps;
  taps.inside = {taps_inside(0, dst.d), taps_inside(1, dst.h), taps_inside(2, dst.w)};
  taps.first = src.data + src.offset(dst.n, channel, first_plane(0, dst.d) + taps.inside[0].lo,
                                     first_plane(1, dst.h) + taps.inside[1].lo,
                                     first_plane(2, dst.w) + taps.inside[2].lo);
  taps.step[2] = span.extent(kC);
  taps.step[1] = taps.step[2] * span.extent(kW);
  taps.step[0] = taps.step[1] * span.extent(kH);
  taps.kernel = options_.kernel;
  return taps;
}

Range Pooling::taps_inside(std::size_t axis, std::int64_t dst) const {
  const std::int64_t first = first_plane(axis, dst);
  return {std::max<std::int64_t>(0, -first),
          std::min(window_[axis].kernel, src_extents_[axis] - first)};
}

std::int64_t Pooling::padded_end(std::size_t axis) const {
  switch (options_.padding) {
    case PaddingKind::kSame:
      return src_extents_[axis] + window_[axis].pad_after;
    case PaddingKind::kExplicit:
      return src_extents_[axis] + options_.pad_after[axis];
    case PaddingKind::kValid:
      break;
  }
  return src_extents_[axis];
}

template <class Body>
void Pooling::for_each_window_over(const Pixel& src, const Body& body) const {
  const Box& needed = context_.boxes.src_needed[0];
  const Range& rd = windows_over_[0][static_cast<std::size_t>(src.d - needed.lo[kD])];
  const Range& rh = windows_over_[1][static_cast<std::size_t>(src.h - needed.lo[kH])];
  const Range& rw = windows_over_[2][static_cast<std::size_t>(src.w - needed.lo[kW])];
  for (std::int64_t d = rd.lo; d < rd.hi; ++d)
    for (std::int64_t h = rh.lo; h < rh.hi; ++h)
      for (std::int64_t w = rw.lo; w < rw.hi; ++w)
        body(Pixel{src.n, d, h, w},
             static_cast<std::int32_t>(
                 ((src.d - first_plane(0, d)) * window_[1].kernel + src.h - first_plane(1, h)) *
                     window_[2].kernel +
                 src.w - first_plane(2, w)));
}

Pooling::Pooling(const WindowOptions& window, DataType type) : options_(window), type_(type) {
  require(window.dilation == Spatial{1, 1, 1},
          text("pooling with dilation {}x{}x{}", window.dilation[0], window.dilation[1],
               window.dilation[2]),
          "pooling supports only dilation 1");
}

Shape Pooling::dst_shape(std::span<const Shape> src) const {
  require(src.size() == 1, text("pooling of {} inputs", src.size()), "name one input for it");
  const Spatial extents = src[0].spatial();
  const Spatial dst = dst_extents(options_.resolve(extents), extents);
  return {src[0].c, dst[0], dst[1], dst[2]};
}

Box Pooling::needs(const Box& dst, std::size_t, std::span<const Shape> src) const {
  Box box = needed_box(options_.resolve(src[0].spatial()), dst, src[0]);
  box.lo[kC] = dst.lo[kC];  // each channel depends only on itself
  box.hi[kC] = dst.hi[kC];
  return box.normalized();
}

DataType Pooling::dst_type(std::span<const DataType> src) const {
  return require_type(src, type_, "pooling");
}

std::int64_t Pooling::forward_flops(std::span<const Shape> src) const {
  const Spatial& kernel = options_.kernel;
  return dst_shape(src).volume() * kernel[0] * kernel[1] * kernel[2];
}

void Pooling::prepare(const LayerContext& context, std::vector<ParameterView>) {
  context_ = context;
  src_extents_ = context.src_shapes[0].spatial();
  window_ = options_.resolve(src_extents_);
  const Box &src = context.boxes.src_needed[0], &dst = context.boxes.dst_produced;
  for (std::size_t a = 0; a < 3; ++a) {
    windows_over_[a].assign(static_cast<std::size_t>(src.extent(a + 1)), Range{});
    for (std::int64_t i = dst.lo[a + 1]; i < dst.hi[a + 1]; ++i) {
      const Range inside = taps_inside(a, i);
      for (std::int64_t t = inside.lo; t < inside.hi; ++t) {
        const std::int64_t plane = first_plane(a, i) + t - src.lo[a + 1];
        Range& windows = windows_over_[a][static_cast<std::size_t>(plane)];
        windows = {windows.extent() == 0 ? i : windows.lo, i + 1};
      }
    }
  }
}

MaxPooling::MaxPooling(const WindowOptions& window, DataType type) : Pooling(window, type) {
  const Spatial& k = window.kernel;
  require(k[0] * k[1] * k[2] <= 255,
          text("max pooling with a window of {}x{}x{}", k[0], k[1], k[2]),
          "a window may have at most 255 elements: the argmax is stored in one byte");
}

void MaxPooling::prepare(const LayerContext& context, std::vector<ParameterView> parameters) {
  Pooling::prepare(context, std::move(parameters));
  if (!context.training) return;
  const Box& produced = context.boxes.dst_produced;
  storage_ = AlignedBuffer<std::uint8_t>(context.batch * produced.volume());
  argmax_ = {storage_.data(), produced, context.batch};
}

void MaxPooling::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst,
                         const Box& chunk) {
  const bool remember = context().training;
  with_float_type(type(), [&](auto zero) {
    using T = decltype(zero);
    const auto from = src[0].as<T>();
    const auto to = dst.as<T>();
    for_each_pixel<Pixel>(chunk, to.batch, [&](const Pixel& at) {
      const Taps<const T> taps = taps_of(at, from, chunk.lo[kC]);
      T* const y = to.data + to.offset(at.n, chunk.lo[kC], at.d, at.h, at.w);
      std::uint8_t* const largest =
          remember ? argmax_.data + argmax_.offset(at.n, chunk.lo[kC], at.d, at.h, at.w) : nullptr;
      for_each_lane_block(0, chunk.extent(kC), [&](std::int64_t c, auto lanes) {
        FloatLanes best = FloatLanes{} - std::numeric_limits<float>::infinity();
        IntLanes tap_of_best = IntLanes{} + taps.first_number();
        taps.for_each(c, [&](const T* x, std::int32_t tap) {
          const FloatLanes value = load_values(x, lanes);
          const IntLanes take = (value > best) | (value != value);  // larger, or NaN
          best = take ? value : best;
          tap_of_best = take ? IntLanes{} + tap : tap_of_best;
        });
        store_values(best, lanes, y + c);
        if (remember) store(bytes_of(tap_of_best), lanes, largest + c);
      });
    });
  });
}

void MaxPooling::backward_data(const Pass&, const ForwardValues&, AnyConstView diff_dst,
                               std::size_t, AnyView diff_src) {
  // Windows that touch without overlapping tile src_needed, so that each can write its own block.
  const bool tiles = std::all_of(window().begin(), window().end(),
                                 [](const AxisWindow& w) { return w.stride == w.kernel; });
  with_float_type(type(), [&](auto zero) {
    using T = decltype(zero);
    tiles ? scatter<T>(diff_dst.as<T>(), diff_src.as<T>())
          : gather<T>(diff_dst.as<T>(), diff_src.as<T>());
  });
}

template <class T>
void MaxPooling::scatter(TensorView<const T> diff_dst, TensorView<T> diff_src) const {
  const Box& box = context().boxes.dst_produced;
  for_each_pixel<Pixel>(box, diff_dst.batch, [&](const Pixel& at) {
    const Taps<T> taps = taps_of(at, diff_src, box.lo[kC]);
    const T* const dy = diff_dst.data + diff_dst.offset(at.n, box.lo[kC], at.d, at.h, at.w);
    const std::uint8_t* const argmax =
        argmax_.data + argmax_.offset(at.n, box.lo[kC], at.d, at.h, at.w);
    for_each_lane_block(0, box.extent(kC), [&](std::int64_t c, auto lanes) {
      ByteLanes largest;
      load(argmax + c, lanes, largest);
      const SpreadValue<T> diff(load_values(dy + c, lanes), lanes_of(largest));
      taps.for_each(c, [&](T* dx, std::int32_t tap) { diff.store_at(tap, lanes, dx); });
    });
  });
}

template <class T>
void MaxPooling::gather(TensorView<const T> diff_dst, TensorView<T> diff_src) const {
  const Box& box = context().boxes.src_needed[0];
  for_each_pixel<Pixel>(box, diff_src.batch, [&](const Pixel& at) {
    T* const dx = diff_src.data + diff_src.offset(at.n, box.lo[kC], at.d, at.h, at.w);
    for_each_lane_block(0, box.extent(kC), [&](std::int64_t c, auto lanes) {
      FloatLanes sum{};
      for_each_window_over(at, [&](const Pixel& window, std::int32_t tap) {
        const FloatLanes diff = load_values(
            diff_dst.data + diff_dst.offset(window.n, box.lo[kC] + c, window.d, window.h, window.w),
            lanes);
        ByteLanes largest;
        load(argmax_.data + argmax_.offset(window.n, box.lo[kC] + c, window.d, window.h, window.w),
             lanes, largest);
        sum += lanes_of(largest) == tap ? diff : FloatLanes{};
      });
      store_values(sum, lanes, dx + c);
    });
  });
}

void AveragePooling::prepare(const LayerContext& context, std::vector<ParameterView> parameters) {
  Pooling::prepare(context, std::move(parameters));
  const Box& dst = context.boxes.dst_produced;
  for (std::size_t a = 0; a < 3; ++a) {
    counts_[a].clear();
    for (std::int64_t i = dst.lo[a + 1]; i < dst.hi[a + 1]; ++i)
      counts_[a].push_back(count_ == PaddingCount::kInclude
                               ? std::min(window()[a].kernel, padded_end(a) - first_plane(a, i))
                               : taps_inside(a, i).extent());
  }
}

float AveragePooling::weight(const Pixel& dst) const {
  const Box& box = context().boxes.dst_produced;
  return 1.0f / static_cast<float>(counts_[0][static_cast<std::size_t>(dst.d - box.lo[kD])] *
                                   counts_[1][static_cast<std::size_t>(dst.h - box.lo[kH])] *
                                   counts_[2][static_cast<std::size_t>(dst.w - box.lo[kW])]);
}

void AveragePooling::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst,
                             const Box& chunk) {
  with_float_type(type(), [&](auto zero) {
    using T = decltype(zero);
    const auto from = src[0].as<T>();
    const auto to = dst.as<T>();
    for_each_pixel<Pixel>(chunk, to.batch, [&](const Pixel& at) {
      const Taps<const T> taps = taps_of(at, from, chunk.lo[kC]);
      const float scale = weight(at);
      T* const y = to.data + to.offset(at.n, chunk.lo[kC], at.d, at.h, at.w);
      for_each_lane_block(0, chunk.extent(kC), [&](std::int64_t c, auto lanes) {
        FloatLanes sum{};
        taps.for_each(c, [&](const T* x, std::int32_t) { sum += load_values(x, lanes); });
        store_values(sum * scale, lanes, y + c);
      });
    });
  });
}

void AveragePooling::backward_data(const Pass&, const ForwardValues&, AnyConstView diff_dst,
                                   std::size_t, AnyView diff_src) {
  const Box& box = context().boxes.src_needed[0];
  with_float_type(type(), [&](auto zero) {
    using T = decltype(zero);
    const auto from = diff_dst.as<T>();
    const auto to = diff_src.as<T>();
    for_each_pixel<Pixel>(box, to.batch, [&](const Pixel& at) {
      T* const dx = to.data + to.offset(at.n, box.lo[kC], at.d, at.h, at.w);
      for_each_lane_block(0, box.extent(kC), [&](std::int64_t c, auto lanes) {
        FloatLanes sum{};
        for_each_window_over(at, [&](const Pixel& window, std::int32_t) {
          const std::int64_t dy =
              from.offset(window.n, box.lo[kC] + c, window.d, window.h, window.w);
          sum += load_values(from.data + dy, lanes) * weight(window);
        });
        store_values(sum, lanes, dx + c);
      });
    });
  });
}

}  // namespace halomesh
