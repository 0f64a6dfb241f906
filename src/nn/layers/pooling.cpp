// SPDX-License-Identifier: Apache-2.0
// Pooling: see pooling.hpp.
#include "src/nn/layers/pooling.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

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

// The taps of the window of dst plane `dst` that lie inside an input of `extent` planes.
Range taps_inside(const AxisWindow& w, std::int64_t extent, std::int64_t dst) {
  const std::int64_t first = dst * w.stride - w.pad_before, end = extent - first;
  return {first < 0 ? (w.dilation - 1 - first) / w.dilation : 0,
          end > 0 ? std::min(w.kernel, (end + w.dilation - 1) / w.dilation) : 0};
}

Spatial pooled_extents(const WindowOptions& options, const Spatial& src) {
  const Window window = options.resolve(src);
  const Spatial dst = dst_extents(window, src);
  for (std::size_t a = 0; a < 3; ++a)
    for (std::int64_t i = 0; i < dst[a]; ++i)
      require(taps_inside(window[a], src[a], i).extent() > 0,
              text("pooling {} of {} planes along axis {}: window {} contains only padding",
                   text_of(options), src[a], a, i),
              "use less padding or dilation, or a larger input");
  return dst;
}

}  // namespace

// The elements under one window that lie inside the input.
template <class T>
struct MaxPooling::Taps {
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
MaxPooling::Taps<T> MaxPooling::taps_of(const Pixel& dst, TensorView<T> src,
                                        std::int64_t channel) const {
  const Box& span = src.span;
  Taps<T> taps;
  const Spatial at{dst.d, dst.h, dst.w};
  Spatial first{};
  taps.step[2] = span.extent(kC);
  taps.step[1] = taps.step[2] * span.extent(kW);
  taps.step[0] = taps.step[1] * span.extent(kH);
  for (std::size_t a = 0; a < 3; ++a) {
    const AxisWindow& w = window_[a];
    taps.inside[a] = taps_inside(w, src_extents_[a], at[a]);
    first[a] = at[a] * w.stride - w.pad_before + taps.inside[a].lo * w.dilation;
    taps.step[a] *= w.dilation;
  }
  taps.first = src.data + src.offset(dst.n, channel, first[0], first[1], first[2]);
  taps.kernel = options_.kernel;
  return taps;
}

template <class Body>
void MaxPooling::for_each_window_over(const Pixel& src, const Body& body) const {
  const Box& needed = context_.boxes.src_needed[0];
  const Range& rd = windows_over_[0][static_cast<std::size_t>(src.d - needed.lo[kD])];
  const Range& rh = windows_over_[1][static_cast<std::size_t>(src.h - needed.lo[kH])];
  const Range& rw = windows_over_[2][static_cast<std::size_t>(src.w - needed.lo[kW])];
  const auto tap = [&](std::size_t a, std::int64_t plane, std::int64_t dst) {
    const AxisWindow& w = window_[a];
    return (plane + w.pad_before - dst * w.stride) / w.dilation;
  };
  for (std::int64_t d = rd.lo; d < rd.hi; d += window_steps_[0])
    for (std::int64_t h = rh.lo; h < rh.hi; h += window_steps_[1])
      for (std::int64_t w = rw.lo; w < rw.hi; w += window_steps_[2])
        body(Pixel{src.n, d, h, w},
             static_cast<std::int32_t>((tap(0, src.d, d) * window_[1].kernel + tap(1, src.h, h)) *
                                           window_[2].kernel +
                                       tap(2, src.w, w)));
}

MaxPooling::MaxPooling(const WindowOptions& window, DataType type) : options_(window), type_(type) {
  const Spatial& k = window.kernel;
  require(k[0] * k[1] * k[2] <= 255,
          text("max pooling with a window of {}x{}x{}", k[0], k[1], k[2]),
          "a window may have at most 255 elements: the argmax is stored in one byte");
}

Shape MaxPooling::dst_shape(std::span<const Shape> src) const {
  require(src.size() == 1, text("pooling of {} inputs", src.size()), "name one input for it");
  const Spatial dst = pooled_extents(options_, src[0].spatial());
  return {src[0].c, dst[0], dst[1], dst[2]};
}

Box MaxPooling::needs(const Box& dst, std::size_t, std::span<const Shape> src) const {
  Box box = needed_box(options_.resolve(src[0].spatial()), dst, src[0]);
  box.lo[kC] = dst.lo[kC];  // each channel depends only on itself
  box.hi[kC] = dst.hi[kC];
  return box.normalized();
}

DataType MaxPooling::dst_type(std::span<const DataType> src) const {
  return require_type(src, type_, "pooling");
}

std::string MaxPooling::kernel_name() const {
  return fmt::format("max pooling {} {}", text_of(options_), name_of(type_));
}

std::int64_t MaxPooling::forward_flops(std::span<const Shape> src) const {
  const Spatial& kernel = options_.kernel;
  return dst_shape(src).volume() * kernel[0] * kernel[1] * kernel[2];
}

void MaxPooling::prepare(const LayerContext& context, std::vector<ParameterView>) {
  context_ = context;
  src_extents_ = context.src_shapes[0].spatial();
  window_ = options_.resolve(src_extents_);
  const Box &src = context.boxes.src_needed[0], &dst = context.boxes.dst_produced;
  for (std::size_t a = 0; a < 3; ++a) {
    const AxisWindow& w = window_[a];
    window_steps_[a] = w.dilation / std::gcd(w.stride, w.dilation);
    windows_over_[a].assign(static_cast<std::size_t>(src.extent(a + 1)), Range{});
    for (std::int64_t i = dst.lo[a + 1]; i < dst.hi[a + 1]; ++i) {
      const Range inside = taps_inside(w, src_extents_[a], i);
      for (std::int64_t t = inside.lo; t < inside.hi; ++t) {
        const std::int64_t plane = i * w.stride - w.pad_before + t * w.dilation - src.lo[a + 1];
        Range& windows = windows_over_[a][static_cast<std::size_t>(plane)];
        windows = {windows.extent() == 0 ? i : windows.lo, i + 1};
      }
    }
  }
  if (!context.training) return;
  storage_ = AlignedBuffer<std::uint8_t>(context.batch * dst.volume());
  argmax_ = {storage_.data(), dst, context.batch};
}

void MaxPooling::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst,
                         const Box& chunk) {
  const bool remember = context_.training;
  with_float_type(type_, [&](auto zero) {
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
  const bool tiles = std::all_of(window_.begin(), window_.end(), [](const AxisWindow& w) {
    return w.stride == w.kernel && w.dilation == 1;
  });
  with_float_type(type_, [&](auto zero) {
    using T = decltype(zero);
    tiles ? scatter<T>(diff_dst.as<T>(), diff_src.as<T>())
          : gather<T>(diff_dst.as<T>(), diff_src.as<T>());
  });
}

template <class T>
void MaxPooling::scatter(TensorView<const T> diff_dst, TensorView<T> diff_src) const {
  const Box& box = context_.boxes.dst_produced;
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
  const Box& box = context_.boxes.src_needed[0];
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

// Each window takes up to six planes, as seven would be too many for three axes.
std::vector<WindowOptions> global_max_windows(Spatial extents) {
  std::vector<WindowOptions> windows;
  while (extents != Spatial{1, 1, 1}) {
    WindowOptions& w = windows.emplace_back();
    w.padding = PaddingKind::kValid;
    w.ceil = true;
    for (std::size_t a = 0; a < 3; ++a)
      w.kernel[a] = w.stride[a] = std::min<std::int64_t>(extents[a], 6);
    extents = pooled_extents(w, extents);
  }
  return windows;
}

std::string AveragePooling::kernel_name() const {
  return fmt::format("average pooling {} {}", text_of(options_), name_of(type()));
}

Spatial AveragePooling::extents_of(const Spatial& src) const {
  return pooled_extents(options_, src);
}

void AveragePooling::append_row(const Spatial& src, std::size_t axis, std::int64_t dst,
                                std::vector<Term>& row) const {
  const AxisWindow w = options_.resolve(src)[axis];
  const Range inside = taps_inside(w, src[axis], dst);
  std::int64_t count = inside.extent();
  if (count_ == PaddingCount::kInclude) {
    WindowOptions floor = options_;
    floor.ceil = false;  // the padding that a last window adds does not count
    count = taps_inside(w, src[axis] + floor.resolve(src)[axis].pad_after, dst).hi;
  }
  for (std::int64_t t = inside.lo; t < inside.hi; ++t)
    row.push_back({dst * w.stride - w.pad_before + t * w.dilation, 1 / static_cast<double>(count)});
}

}  // namespace halomesh
