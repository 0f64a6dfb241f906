// SPDX-License-Identifier: Apache-2.0
// One filter per channel: see depthwise_convolution.hpp.
#include "src/nn/layers/depthwise_convolution.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "src/nn/layers/float_types.hpp"
#include "src/nn/layers/lanes.hpp"

namespace halomesh {
namespace {

// So many sums of a chunk of rows and a block of channels, if there are rows enough, are shared by
// any number of threads.
constexpr std::int64_t kPartialSums = 128;
// Pixels of a row that share the weights in registers.
constexpr std::int64_t kPixels = 8;

std::int64_t rows_of(const Box& box, std::int64_t batch) {
  return batch * box.extent(kD) * box.extent(kH);
}

std::int64_t blocks_of(std::int64_t channels) { return (channels + kLanes - 1) / kLanes; }

// Up to kLanes channels from `first` on, the first `done` of which the block before has, too: where
// there are enough channels, the last block begins early, so that it is whole.
struct ChannelBlock {
  ChannelBlock(std::int64_t index, std::int64_t channels)
      : first(std::max<std::int64_t>(std::min(index * kLanes, channels - kLanes), 0)),
        count(std::min(kLanes, channels)),
        done(index * kLanes - first) {}
  std::int64_t first, count, done;
};

// Calls body(lanes) with a constant if the vector is whole.
template <class Body>
void with_lanes(std::int64_t lanes, const Body& body) {
  if (lanes == kLanes)
    body(std::integral_constant<std::int64_t, kLanes>());
  else
    body(lanes);
}

// The chunks of rows that are added up apart; the more channels, the fewer.
std::int64_t chunks_of(std::int64_t rows, std::int64_t blocks) {
  return std::clamp<std::int64_t>((kPartialSums + blocks - 1) / std::max<std::int64_t>(blocks, 1),
                                  1, std::max<std::int64_t>(rows, 1));
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
  const std::int64_t blocks = blocks_of(dst.extent(kC));
  return {equal("forward", rows), equal("weight gradient", chunks_of(rows, blocks) * blocks)};
}

void DepthwiseConvolution::Taps::find_runs(std::int64_t pixels, std::int64_t planes) {
  pixel_step = pixels;
  plane_step = planes;
  runs.clear();
  const AxisTaps& row = axes[2];
  const std::int64_t end = row.lo + static_cast<std::int64_t>(row.first.size()) - 1;
  for (std::int64_t phase = row.lo; phase < std::min(row.lo + pixel_step, end); ++phase)
    for (std::int64_t w = phase; w < end; w += pixel_step) {
      const auto follows = [&](const Tap& before, const Tap& tap) {
        return tap.tap == before.tap && tap.plane == before.plane + plane_step;
      };
      if (w > phase && std::ranges::equal(row.of(w - pixel_step), row.of(w), follows))
        ++runs.back().count;
      else
        runs.push_back({w, 1});
    }
}

// The sums of all taps, and of the bias, of one chunk of rows and one block of channels.
float* DepthwiseConvolution::partial_sums(std::int64_t chunk, std::int64_t block) {
  return gradients_.data() + (chunk * blocks_of(channels_) + block) * (tap_count() + 1) * kLanes;
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
    AxisTaps& forward = forward_taps_.axes[a];
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
    AxisTaps& data = data_taps_.axes[a];
    data = {src.lo[a + 1], {0}, {}};
    auto next = pairs.begin();
    for (std::int64_t plane = src.lo[a + 1]; plane < src.hi[a + 1]; ++plane) {
      for (; next != pairs.end() && (*next)[0] == plane; ++next)
        data.taps.push_back({(*next)[1], (*next)[2]});
      data.first.push_back(data.taps.size());
    }
  }
  const std::int64_t stride = window[2].stride;
  forward_taps_.find_runs(1, stride);
  data_taps_.find_runs(stride, 1);
  tap_pixels_.clear();
  for (std::int64_t t = 0; t < window[2].kernel; ++t) {
    TapPixels pixels{t, 0, 0, 0};
    for (std::int64_t w = dst.lo[kW]; w < dst.hi[kW]; ++w)
      for (const Tap& tap : forward_taps_.axes[2].of(w))
        if (tap.tap == t && pixels.count++ == 0) pixels = {t, w, tap.plane, 1};
    if (pixels.count > 0) tap_pixels_.push_back(pixels);
  }
  packed_ = AlignedBuffer<float>((tap_count() + 1) * channels_);
  if (context.training)
    gradients_ = AlignedBuffer<float>(chunks_of(rows_of(dst, context.batch), blocks_of(channels_)) *
                                      blocks_of(channels_) * (tap_count() + 1) * kLanes);
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
  const std::int64_t height = box.extent(kH), rows = box.extent(kD) * height;
  const std::int64_t from_pixel = from.span.extent(kC), to_pixel = to.span.extent(kC);
  const float* const bias = packed_.data() + tap_count() * channels_;
  const auto sum_row = [&](std::int64_t n, std::int64_t d, std::int64_t h, std::int64_t first,
                           auto lanes) {
    const std::int64_t c = box.lo[kC] + first;
    // A group of a run: each weight is read once for all of its pixels.
    const auto sum_pixels = [&](std::int64_t w, auto pixels) {
      std::array<FloatLanes, pixels> sums{};
      if (with_bias) sums.fill(load_values(bias + first, lanes));
      for (const Tap& td : taps.axes[0].of(d))
        for (const Tap& th : taps.axes[1].of(h)) {
          const float* const weights =
              packed_.data() + (td.tap * k[1] + th.tap) * k[2] * channels_ + first;
          const T* const row = from.data + from.offset(n, c, td.plane, th.plane, from.span.lo[kW]);
          for (const Tap& tw : taps.axes[2].of(w)) {
            const FloatLanes weight = load_values(weights + tw.tap * channels_, lanes);
            const T* const x = row + (tw.plane - from.span.lo[kW]) * from_pixel;
            for (std::size_t p = 0; p < pixels; ++p)
              sums[p] += weight * load_values(x + static_cast<std::int64_t>(p) * taps.plane_step *
                                                      from_pixel,
                                              lanes);
          }
        }
      T* const y = to.data + to.offset(n, c, d, h, w);
      for (std::size_t p = 0; p < pixels; ++p)
        store_values(sums[p], lanes, y + static_cast<std::int64_t>(p) * taps.pixel_step * to_pixel);
    };
    for (const PixelRun& run : taps.runs) {
      const std::int64_t step = taps.pixel_step;
      const std::int64_t begin = std::max<std::int64_t>((box.lo[kW] - run.w + step - 1) / step, 0);
      const std::int64_t end = std::min((box.hi[kW] - run.w + step - 1) / step, run.count);
      if (end - begin < kPixels)
        for (std::int64_t i = begin; i < end; ++i)
          sum_pixels(run.w + i * step, std::integral_constant<std::size_t, 1>());
      else  // the last group begins early, so that it is whole
        for (std::int64_t i = begin; i < end; i += kPixels)
          sum_pixels(run.w + std::min(i, end - kPixels) * step,
                     std::integral_constant<std::size_t, kPixels>());
    }
  };
  for (std::int64_t n = 0; n < to.batch; ++n) {
#pragma omp parallel for schedule(static) if (box.volume() > 4096)
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t b = 0; b < blocks_of(channels_); ++b) {
        const ChannelBlock block(b, channels_);
        with_lanes(block.count, [&](auto lanes) {
          sum_row(n, box.lo[kD] + row / height, box.lo[kH] + row % height, block.first, lanes);
        });
      }
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

// The gradients of one block of channels from one chunk of the rows of all samples.
template <class T>
void DepthwiseConvolution::add_weight_gradient(TensorView<const T> src,
                                               TensorView<const T> diff_dst, std::int64_t chunk,
                                               std::int64_t chunks, std::int64_t block_index) {
  const Box& box = context_.boxes.dst_produced;
  const Spatial& k = options_.window.kernel;
  const ChannelBlock block(block_index, channels_);
  const std::int64_t taps = tap_count(), depth = box.extent(kD), height = box.extent(kH);
  const std::int64_t rows = src.batch * depth * height, c = box.lo[kC] + block.first;
  const std::int64_t src_step = forward_taps_.plane_step * src.span.extent(kC),
                     diff_step = diff_dst.span.extent(kC);
  float* const sums = partial_sums(chunk, block_index);
  std::fill_n(sums, (taps + 1) * kLanes, 0.0F);
  // Adds term(i), for i from 0 to `count`, to the sum of a tap, in turn to one of several running
  // sums: each waits for its last addition.
  const auto add = [&](std::int64_t tap, std::int64_t count, const auto& term) {
    constexpr std::int64_t kSums = 4;
    FloatLanes s[kSums]{};
    std::int64_t i = 0;
    for (; i + kSums <= count; i += kSums)
      for (std::int64_t j = 0; j < kSums; ++j) s[j] += term(i + j);
    for (; i < count; ++i) s[0] += term(i);
    float* const sum = sums + tap * kLanes;
    store_values(load_values(sum, kLanes) + ((s[0] + s[1]) + (s[2] + s[3])), kLanes, sum);
  };
  with_lanes(block.count, [&](auto lanes) {
    for (std::int64_t row = chunk * rows / chunks; row < (chunk + 1) * rows / chunks; ++row) {
      const std::int64_t n = row / (depth * height), d = box.lo[kD] + row / height % depth,
                         h = box.lo[kH] + row % height;
      const T* const diffs = diff_dst.data + diff_dst.offset(n, c, d, h, box.lo[kW]);
      const auto diff = [&](const T* from, std::int64_t i) __attribute__((always_inline)) {
        return load_values(from + i * diff_step, lanes);
      };
      add(
          taps, box.extent(kW), [&](std::int64_t i) __attribute__((always_inline)) {
            return diff(diffs, i);
          });
      for (const Tap& td : forward_taps_.axes[0].of(d))
        for (const Tap& th : forward_taps_.axes[1].of(h))
          for (const TapPixels& tw : tap_pixels_) {
            const T* const x = src.data + src.offset(n, c, td.plane, th.plane, tw.plane);
            const T* const dy = diffs + (tw.w - box.lo[kW]) * diff_step;
            add((td.tap * k[1] + th.tap) * k[2] + tw.tap,
                tw.count, [&](std::int64_t i) __attribute__((always_inline)) {
                  return diff(dy, i) * load_values(x + i * src_step, lanes);
                });
          }
    }
  });
}

void DepthwiseConvolution::backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                                               AnyConstView diff_dst) {
  const std::int64_t taps = tap_count(), blocks = blocks_of(channels_);
  const std::int64_t chunks =
      chunks_of(rows_of(context_.boxes.dst_produced, context_.batch), blocks);
  with_float_type(options_.type, [&](auto zero) {
    using T = decltype(zero);
    const auto x = src[0].as<T>(), dy = diff_dst.as<T>();
#pragma omp parallel for schedule(static) collapse(2)
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
      for (std::int64_t block = 0; block < blocks; ++block)
        add_weight_gradient<T>(x, dy, chunk, chunks, block);
  });
  pass.progress();
#pragma omp parallel for schedule(static)
  for (std::int64_t b = 0; b < blocks; ++b) {
    const ChannelBlock block(b, channels_);
    for (std::int64_t t = 0; t < taps + (options_.bias ? 1 : 0); ++t) {
      std::array<double, kLanes> sums{};
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
        for (std::size_t i = 0; i < kLanes; ++i)
          sums[i] += static_cast<double>(
              partial_sums(chunk, b)[t * kLanes + static_cast<std::int64_t>(i)]);
      const auto diffs = parameters_[t < taps ? 0 : 1].diffs;
      for (std::int64_t i = block.done; i < block.count; ++i) {
        const std::int64_t c = block.first + i;
        diffs[static_cast<std::size_t>(t < taps ? c * taps + t : c)] =
            static_cast<float>(sums[static_cast<std::size_t>(i)]);
      }
    }
  }
}

}  // namespace halomesh
