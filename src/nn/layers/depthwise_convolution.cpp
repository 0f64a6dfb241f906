// SPDX-License-Identifier: Apache-2.0
// One filter per channel: see depthwise_convolution.hpp.
#include "src/nn/layers/depthwise_convolution.hpp"

#include <algorithm>
#include <utility>

#include "src/nn/layers/float_types.hpp"
#include "src/nn/layers/lanes.hpp"

namespace halomesh {
namespace {

// Rows of pixels are added up in this many chunks, whatever the number of threads is.
constexpr std::int64_t kChunks = 32;
// Pixels of a row that share the weights in registers.
constexpr std::int64_t kPixels = 4;

std::int64_t rows_of(const Box& box, std::int64_t batch) {
  return batch * box.extent(kD) * box.extent(kH);
}

}  // namespace

DepthwiseConvolution::DepthwiseConvolution(const DepthwiseOptions& options) : options_(options) {
  require(options.type != DataType::kInt16, "depthwise convolution of int16", "use fp32 or bf16");
}

std::int64_t DepthwiseConvolution::tap_count() const {
  const Spatial& k = options_.window.kernel;
  return k[0] * k[1] * k[2];
}

Shape DepthwiseConvolution::dst_shape(std::span<const Shape> src) const {
  require(src.size() == 1, text("depthwise convolution of {} inputs", src.size()),
          "name one input for it");
  const Spatial extents = dst_extents(options_.window.resolve(src[0].spatial()), src[0].spatial());
  return {src[0].c, extents[0], extents[1], extents[2]};
}

Box DepthwiseConvolution::needs(const Box& dst, std::size_t, std::span<const Shape> src) const {
  Box box = needed_box(options_.window.resolve(src[0].spatial()), dst, src[0]);
  box.lo[kC] = dst.lo[kC];
  box.hi[kC] = dst.hi[kC];
  return box.normalized();
}

std::vector<ParameterGeometry> DepthwiseConvolution::parameters(std::span<const Shape> src) const {
  const Spatial& k = options_.window.kernel;
  const std::int64_t taps = tap_count(), channels = src[0].c;
  const bool random_bias = options_.initial == InitialValues::Kind::kFanInUniform;
  std::vector<ParameterGeometry> parameters{
      {"weight", channels, {1, k[0], k[1], k[2]}, false, taps, taps, {options_.initial}}};
  if (options_.bias)
    parameters.push_back({"bias",
                          channels,
                          {1, 1, 1, 1},
                          false,
                          random_bias ? taps : 0,
                          0,
                          {random_bias ? options_.initial : InitialValues::Kind::kGlorotUniform}});
  return parameters;
}

DataType DepthwiseConvolution::dst_type(std::span<const DataType> src) const {
  return require_type(src, options_.type, "depthwise convolution");
}

std::string DepthwiseConvolution::kernel_name() const {
  return fmt::format("depthwise {}{} {}", text_of(options_.window),
                     options_.bias ? "" : " without bias", name_of(options_.type));
}

std::int64_t DepthwiseConvolution::forward_flops(std::span<const Shape> src) const {
  return 2 * dst_shape(src).volume() * tap_count();
}

std::vector<ThreadShare> DepthwiseConvolution::thread_shares(std::span<const Shape>, const Box& dst,
                                                             int threads) const {
  const auto equal = [&](const char* loop, std::int64_t units) {
    const std::int64_t busiest = (units + threads - 1) / threads;
    return ThreadShare{loop, units,
                       static_cast<double>(busiest * threads) / static_cast<double>(units)};
  };
  if (dst.empty()) return {};
  const std::int64_t rows = rows_of(dst, 1);
  const std::int64_t blocks = (dst.extent(kC) + kLanes - 1) / kLanes;
  return {equal("forward", rows), equal("weight gradient", std::min(rows, kChunks) * blocks)};
}

void DepthwiseConvolution::prepare(const LayerContext& context,
                                   std::vector<ParameterView> parameters) {
  context_ = context;
  parameters_ = std::move(parameters);
  const Box &src = context.boxes.src_needed[0], &dst = context.boxes.dst_produced;
  channels_ = dst.extent(kC);
  const Window window = options_.window.resolve(context.src_shapes[0].spatial());
  for (std::size_t a = 0; a < 3; ++a) {
    const AxisWindow& w = window[a];
    // (plane of src, tap, plane of dst) for all pairs inside of the two blocks.
    std::vector<std::array<std::int64_t, 3>> pairs;
    AxisTaps& forward = forward_taps_[a];
    forward = {dst.lo[a + 1], {0}, {}};
    for (std::int64_t i = dst.lo[a + 1]; i < dst.hi[a + 1]; ++i) {
      for (std::int64_t t = 0; t < w.kernel; ++t) {
        const std::int64_t plane = i * w.stride - w.pad_before + t * w.dilation;
        if (plane < src.lo[a + 1] || plane >= src.hi[a + 1]) continue;
        forward.taps.push_back({t, plane});
        pairs.push_back({plane, t, i});
      }
      forward.first.push_back(forward.taps.size());
    }
    std::sort(pairs.begin(), pairs.end());
    AxisTaps& data = data_taps_[a];
    data = {src.lo[a + 1], {0}, {}};
    auto next = pairs.begin();
    for (std::int64_t plane = src.lo[a + 1]; plane < src.hi[a + 1]; ++plane) {
      for (; next != pairs.end() && (*next)[0] == plane; ++next)
        data.taps.push_back({(*next)[1], (*next)[2]});
      data.first.push_back(data.taps.size());
    }
  }
  packed_ = AlignedBuffer<float>((tap_count() + 1) * channels_);
  if (context.training)
    gradients_ =
        AlignedBuffer<float>(std::clamp<std::int64_t>(rows_of(dst, context.batch), 1, kChunks) *
                             (tap_count() + 1) * channels_);
}

void DepthwiseConvolution::load_parameters() {
  const std::int64_t taps = tap_count();
  for (std::int64_t c = 0; c < channels_; ++c)
    for (std::int64_t t = 0; t < taps; ++t)
      packed_.data()[t * channels_ + c] =
          parameters_[0].values[static_cast<std::size_t>(c * taps + t)];
  if (options_.bias)
    std::copy_n(parameters_[1].values.data(), channels_, packed_.data() + taps * channels_);
}

// Each pixel of `box` in `to` becomes the sum of its taps in `from`, times their weights.
template <class T>
void DepthwiseConvolution::gather(const Pass& pass, const Taps& taps, TensorView<const T> from,
                                  TensorView<T> to, const Box& box, bool with_bias) const {
  if (box.empty()) return;
  const Spatial& k = options_.window.kernel;
  const std::int64_t height = box.extent(kH);
  const auto taps_in_row = static_cast<std::size_t>(k[2]);
  const float* const bias = packed_.data() + tap_count() * channels_;
  const auto row_of = [&](std::int64_t n, std::int64_t d, std::int64_t h) {
    for (std::int64_t w0 = box.lo[kW]; w0 < box.hi[kW]; w0 += kPixels) {
      const auto pixels = static_cast<std::size_t>(std::min(kPixels, box.hi[kW] - w0));
      std::array<std::span<const Tap>, kPixels> row_taps;
      bool inner = pixels == kPixels;  // all of them have all taps of the row
      for (std::size_t p = 0; p < pixels; ++p) {
        row_taps[p] = taps[2].of(w0 + static_cast<std::int64_t>(p));
        inner = inner && row_taps[p].size() == taps_in_row;
      }
      for_each_lane_block(0, channels_, [&](std::int64_t c, auto lanes) {
        std::array<FloatLanes, kPixels> sums{};
        for (std::size_t p = 0; with_bias && p < pixels; ++p)
          sums[p] = load_values(bias + c, lanes);
        for (const Tap& td : taps[0].of(d))
          for (const Tap& th : taps[1].of(h)) {
            const float* const weights =
                packed_.data() + (td.tap * k[1] + th.tap) * k[2] * channels_ + c;
            const T* const row =
                from.data + from.offset(n, box.lo[kC] + c, td.plane, th.plane, from.span.lo[kW]);
            const auto value = [&](const Tap& tw) __attribute__((always_inline)) {
              return load_values(row + (tw.plane - from.span.lo[kW]) * from.span.extent(kC), lanes);
            };
            for (std::size_t t = 0; inner && t < taps_in_row; ++t) {  // one weight for all pixels
              const FloatLanes weight =
                  load_values(weights + static_cast<std::int64_t>(t) * channels_, lanes);
              for (std::size_t p = 0; p < kPixels; ++p) sums[p] += weight * value(row_taps[p][t]);
            }
            for (std::size_t p = 0; !inner && p < pixels; ++p)
              for (const Tap& tw : row_taps[p])
                sums[p] += load_values(weights + tw.tap * channels_, lanes) * value(tw);
          }
        for (std::size_t p = 0; p < pixels; ++p)
          store_values(
              sums[p], lanes,
              to.data + to.offset(n, box.lo[kC] + c, d, h, w0 + static_cast<std::int64_t>(p)));
      });
    }
  };
  for (std::int64_t n = 0; n < to.batch; ++n) {
    const std::int64_t rows = box.extent(kD) * height;
#pragma omp parallel for schedule(static) if (box.volume() > 4096)
    for (std::int64_t row = 0; row < rows; ++row)
      row_of(n, box.lo[kD] + row / height, box.lo[kH] + row % height);
    pass.progress();
  }
}

void DepthwiseConvolution::forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
                                   const Box& chunk) {
  with_float_type(options_.type, [&](auto zero) {
    using T = decltype(zero);
    gather<T>(pass, forward_taps_, src[0].as<T>(), dst.as<T>(), chunk, options_.bias);
  });
}

void DepthwiseConvolution::backward_data(const Pass& pass, const ForwardValues&,
                                         AnyConstView diff_dst, std::size_t, AnyView diff_src) {
  with_float_type(options_.type, [&](auto zero) {
    using T = decltype(zero);
    gather<T>(pass, data_taps_, diff_dst.as<T>(), diff_src.as<T>(), context_.boxes.src_needed[0],
              false);
  });
}

// The gradients of kLanes channels from one chunk of the rows of all samples.
template <class T>
void DepthwiseConvolution::add_weight_gradient(TensorView<const T> src,
                                               TensorView<const T> diff_dst, std::int64_t chunk,
                                               std::int64_t chunks, std::int64_t channel) {
  const Box& box = context_.boxes.dst_produced;
  const Spatial& k = options_.window.kernel;
  const std::int64_t lanes = std::min(kLanes, channels_ - channel), taps = tap_count();
  const std::int64_t depth = box.extent(kD), height = box.extent(kH),
                     rows = src.batch * depth * height;
  float* const sums = gradients_.data() + chunk * (taps + 1) * channels_ + channel;
  for (std::int64_t t = 0; t <= taps; ++t) std::fill_n(sums + t * channels_, lanes, 0.0F);
  const auto add = [&](std::int64_t tap, const FloatLanes& term) {
    float* const sum = sums + tap * channels_;
    store_values(load_values(sum, lanes) + term, lanes, sum);
  };
  for (std::int64_t row = chunk * rows / chunks; row < (chunk + 1) * rows / chunks; ++row) {
    const std::int64_t n = row / (depth * height), d = box.lo[kD] + row / height % depth,
                       h = box.lo[kH] + row % height, c = box.lo[kC] + channel;
    const auto dy = [&](std::int64_t w) __attribute__((always_inline)) {
      return load_values(diff_dst.data + diff_dst.offset(n, c, d, h, w), lanes);
    };
    FloatLanes bias{};
    for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w) bias += dy(w);
    add(taps, bias);
    for (const Tap& td : forward_taps_[0].of(d))
      for (const Tap& th : forward_taps_[1].of(h)) {
        const std::int64_t first = (td.tap * k[1] + th.tap) * k[2];
        const T* const x = src.data + src.offset(n, c, td.plane, th.plane, src.span.lo[kW]);
        for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w) {
          const FloatLanes diff = dy(w);
          for (const Tap& tw : forward_taps_[2].of(w))
            add(first + tw.tap,
                diff * load_values(x + (tw.plane - src.span.lo[kW]) * src.span.extent(kC), lanes));
        }
      }
  }
}

void DepthwiseConvolution::backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                                               AnyConstView diff_dst) {
  const std::int64_t taps = tap_count(), blocks = (channels_ + kLanes - 1) / kLanes;
  const std::int64_t chunks =
      std::clamp<std::int64_t>(rows_of(context_.boxes.dst_produced, context_.batch), 1, kChunks);
  with_float_type(options_.type, [&](auto zero) {
    using T = decltype(zero);
    const auto x = src[0].as<T>(), dy = diff_dst.as<T>();
#pragma omp parallel for schedule(static) collapse(2)
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
      for (std::int64_t block = 0; block < blocks; ++block)
        add_weight_gradient<T>(x, dy, chunk, chunks, block * kLanes);
  });
  pass.progress();
  const auto total = [&](std::int64_t tap, std::int64_t c) {
    double sum = 0;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
      sum += static_cast<double>(gradients_.data()[(chunk * (taps + 1) + tap) * channels_ + c]);
    return static_cast<float>(sum);
  };
  for (std::int64_t c = 0; c < channels_; ++c) {
    for (std::int64_t t = 0; t < taps; ++t)
      parameters_[0].diffs[static_cast<std::size_t>(c * taps + t)] = total(t, c);
    if (options_.bias) parameters_[1].diffs[static_cast<std::size_t>(c)] = total(taps, c);
  }
}

}  // namespace halomesh
