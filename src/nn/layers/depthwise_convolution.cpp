// SPDX-License-Identifier: Apache-2.0
// One filter per channel: see depthwise_convolution.hpp.
#include "src/nn/layers/depthwise_convolution.hpp"

#include <omp.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "src/nn/kernels/float_types.hpp"
#include "src/nn/kernels/lanes.hpp"

namespace halomesh {
namespace {

// Threads share the weight gradients as tasks that do not depend on the number of threads: a chunk
// of at least two rows of pixels, for a part of the channels of up to kPartBlocks vectors. Narrower
// parts would read memory in pieces too short to be prefetched.
constexpr std::int64_t kTasks = 32, kPartBlocks = 16;
// Pixels that share the weights in registers. With few pixels, a pass over the channels reads few
// streams of memory, which are prefetched. With two pixels, DeepCAM's layers on a Zen 3 take 0.65
// of the time with eight in the forward pass and 0.6 in the gradient of src.
constexpr std::int64_t kPixels = 2;

std::int64_t rows_of(const Box& box, std::int64_t batch) {
  return batch * box.extent(kD) * box.extent(kH);
}

std::int64_t blocks_of(std::int64_t channels) { return (channels + kLanes - 1) / kLanes; }

// Up to kLanes channels from `first` on; the first `done` of them belong to the previous block,
// too: where there are enough channels, the last block begins early to be whole.
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

std::int64_t parts_of(std::int64_t channels) {
  return (blocks_of(channels) + kPartBlocks - 1) / kPartBlocks;
}

std::int64_t chunks_of(std::int64_t rows, std::int64_t parts) {
  return std::clamp<std::int64_t>(kTasks / std::max<std::int64_t>(parts, 1), 1,
                                  std::max<std::int64_t>(rows / 2, 1));
}

// Adds gradient(i) * value(term, i) for the pixels i of a run to the sum of each term from `next`
// on, kCount terms at a time while there are enough: their sums are in registers, and each gradient
// is read once for all. Returns the next term.
template <std::size_t kCount, class Term>
std::size_t add_products(std::span<const Term> terms, std::size_t next, std::int64_t pixels,
                         const auto& gradient, const auto& value, float* sums) {
  for (; next + kCount <= terms.size(); next += kCount) {
    std::array<FloatLanes, kCount> s;
    for (std::size_t t = 0; t < kCount; ++t)
      s[t] = load_values(sums + terms[next + t].tap * kLanes, kLanes);
    for (std::int64_t i = 0; i < pixels; ++i) {
      const FloatLanes diff = gradient(i);
      for (std::size_t t = 0; t < kCount; ++t) s[t] += diff * value(terms[next + t], i);
    }
    for (std::size_t t = 0; t < kCount; ++t)
      store_values(s[t], kLanes, sums + terms[next + t].tap * kLanes);
  }
  return next;
}

}  // namespace

DepthwiseConvolution::DepthwiseConvolution(const DepthwiseOptions& options) : options_(options) {
  require(options.type != DataType::kInt16, "depthwise convolution of int16", "use fp32 or bf16");
  if (options.transposed) transposed_window().check();
}

std::int64_t DepthwiseConvolution::tap_count() const {
  const Spatial& k = options_.window.kernel;
  return k[0] * k[1] * k[2];
}

Shape DepthwiseConvolution::dst_shape(std::span<const Shape> src) const {
  require(src.size() == 1, text("depthwise convolution of {} inputs", src.size()),
          "name one input for it");
  const Spatial from = src[0].spatial();
  const Spatial extents = options_.transposed ? transposed_window().dst_extents(from)
                                              : dst_extents(options_.window.resolve(from), from);
  return {src[0].c, extents[0], extents[1], extents[2]};
}

Box DepthwiseConvolution::needs(const Box& dst, std::size_t, std::span<const Shape> src) const {
  Box box = options_.transposed
                ? transposed_window().needed_box(dst, src[0])
                : needed_box(options_.window.resolve(src[0].spatial()), dst, src[0]);
  if (box.empty()) return {};
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
  return fmt::format("{}depthwise {}{} {}", options_.transposed ? "transposed " : "",
                     text_of(options_.window), options_.bias ? "" : " without bias",
                     name_of(options_.type));
}

std::int64_t DepthwiseConvolution::forward_flops(std::span<const Shape> src) const {
  return 2 * (options_.transposed ? src[0] : dst_shape(src)).volume() * tap_count();
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
  const std::int64_t parts = parts_of(dst.extent(kC));
  return {equal("forward", rows), equal("weight gradient", chunks_of(rows, parts) * parts)};
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

// The taps of pixel (n,d,h,w), and the offsets in `from` of the pixels that they reach. Valid until
// the next call of the same thread.
template <class T>
std::span<const DepthwiseConvolution::Term> DepthwiseConvolution::find_terms(
    const Taps& taps, TensorView<const T> from, std::int64_t n, std::int64_t d, std::int64_t h,
    std::int64_t w) {
  const Spatial& k = options_.window.kernel;
  const auto room = static_cast<std::size_t>(tap_count());
  const std::span<Term> terms =
      std::span(terms_).subspan(static_cast<std::size_t>(omp_get_thread_num()) * room, room);
  std::size_t count = 0;
  for (const Tap& td : taps.axes[0].of(d))
    for (const Tap& th : taps.axes[1].of(h))
      for (const Tap& tw : taps.axes[2].of(w))
        terms[count++] = {(td.tap * k[1] + th.tap) * k[2] + tw.tap,
                          from.offset(n, from.span.lo[kC], td.plane, th.plane, tw.plane)};
  return terms.first(count);
}

// The sums for all taps, and for the bias, of one chunk of rows and one block of channels.
float* DepthwiseConvolution::partial_sums(std::int64_t chunk, std::int64_t block) {
  return gradients_.data() + (chunk * blocks_of(channels_) + block) * (tap_count() + 1) * kLanes;
}

void DepthwiseConvolution::prepare(const LayerContext& context,
                                   std::vector<ParameterView> parameters) {
  context_ = context;
  parameters_ = std::move(parameters);
  const Box &src = context.boxes.src_needed[0], &dst = context.boxes.dst_produced;
  channels_ = dst.extent(kC);
  const Spatial extents = context.src_shapes[0].spatial();
  const bool transposed = options_.transposed;
  const Window window =
      transposed ? transposed_window().resolve(extents) : options_.window.resolve(extents);
  // Planes at which windows begin, and those that their taps reach.
  const Box &begins = transposed ? src : dst, &reached = transposed ? dst : src;
  Taps &by_window = transposed ? data_taps_ : forward_taps_,
       &by_plane = transposed ? forward_taps_ : data_taps_;
  for (std::size_t a = 0; a < 3; ++a) {
    const AxisWindow& w = window[a];
    // (plane that is reached, tap, window) for all pairs inside the two blocks.
    std::vector<std::array<std::int64_t, 3>> pairs;
    AxisTaps& windows = by_window.axes[a];
    windows = {begins.lo[a + 1], {0}, {}};
    for (std::int64_t i = begins.lo[a + 1]; i < begins.hi[a + 1]; ++i) {
      for (std::int64_t t = 0; t < w.kernel; ++t) {
        const std::int64_t plane = i * w.stride - w.pad_before + t * w.dilation;
        if (plane < reached.lo[a + 1] || plane >= reached.hi[a + 1]) continue;
        windows.taps.push_back({t, plane});
        pairs.push_back({plane, t, i});
      }
      windows.first.push_back(windows.taps.size());
    }
    std::sort(pairs.begin(), pairs.end());
    AxisTaps& planes = by_plane.axes[a];
    planes = {reached.lo[a + 1], {0}, {}};
    auto next = pairs.begin();
    for (std::int64_t plane = reached.lo[a + 1]; plane < reached.hi[a + 1]; ++plane) {
      for (; next != pairs.end() && (*next)[0] == plane; ++next)
        planes.taps.push_back({(*next)[1], (*next)[2]});
      planes.first.push_back(planes.taps.size());
    }
  }
  by_window.find_runs(1, window[2].stride);
  by_plane.find_runs(window[2].stride, 1);
  packed_ = AlignedBuffer<float>((tap_count() + 1) * channels_);
  if (context.training)
    gradients_ =
        AlignedBuffer<float>(chunks_of(rows_of(begins, context.batch), parts_of(channels_)) *
                             blocks_of(channels_) * (tap_count() + 1) * kLanes);
  if (context.training && transposed) bias_sums_ = ChannelSums(channels_, 1);
  terms_.resize(static_cast<std::size_t>(omp_get_max_threads() * tap_count()));
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

// Writes to each pixel of `box` in `to` the sum of its taps in `from`, times their weights.
template <class T>
void DepthwiseConvolution::gather(const Pass& pass, const Taps& taps, TensorView<const T> from,
                                  TensorView<T> to, const Box& box, bool with_bias) {
  if (box.empty()) return;
  const std::int64_t height = box.extent(kH), rows = box.extent(kD) * height;
  const std::int64_t pixel_step = taps.pixel_step;
  const std::int64_t from_step = taps.plane_step * from.span.extent(kC),
                     to_step = pixel_step * to.span.extent(kC);
  // Sums some pixels of a run, the first of them at y: each weight is read once for all.
  const auto sum_pixels = [&](std::span<const Term> terms, const float* weights, const T* x, T* y,
                              auto lanes, auto pixels) __attribute__((always_inline)) {
    std::array<FloatLanes, pixels> sums{};
    if (with_bias) sums.fill(load_values(weights + tap_count() * channels_, lanes));
    for (const Term& tap : terms) {
      const FloatLanes weight = load_values(weights + tap.tap * channels_, lanes);
      for (std::int64_t p = 0; p < pixels; ++p)
        sums[static_cast<std::size_t>(p)] +=
            weight * load_values(x + tap.offset + p * from_step, lanes);
    }
    for (std::int64_t p = 0; p < pixels; ++p)
      store_values(sums[static_cast<std::size_t>(p)], lanes, y + p * to_step);
  };
  const auto sum_row = [&](std::int64_t n, std::int64_t d, std::int64_t h) {
    for (const PixelRun& run : taps.runs) {
      const std::int64_t begin =
          std::max<std::int64_t>((box.lo[kW] - run.w + pixel_step - 1) / pixel_step, 0);
      const std::int64_t end =
          std::min((box.hi[kW] - run.w + pixel_step - 1) / pixel_step, run.count);
      if (begin >= end) continue;
      const std::span<const Term> terms = find_terms(taps, from, n, d, h, run.w);
      T* const y = to.data + to.offset(n, box.lo[kC], d, h, run.w);
      const T* const x = from.data + box.lo[kC] - from.span.lo[kC];
      const auto sum_channels = [&](std::int64_t i, auto pixels) {
        for (std::int64_t b = 0; b < blocks_of(channels_); ++b) {
          const ChannelBlock block(b, channels_);
          with_lanes(block.count, [&](auto lanes) {
            sum_pixels(terms, packed_.data() + block.first, x + block.first + i * from_step,
                       y + block.first + i * to_step, lanes, pixels);
          });
        }
      };
      std::int64_t i = begin;
      for (; i + kPixels <= end; i += kPixels)
        sum_channels(i, std::integral_constant<std::int64_t, kPixels>());
      for (; i < end; ++i) sum_channels(i, std::integral_constant<std::int64_t, 1>());
    }
  };
  for (std::int64_t n = 0; n < to.batch; ++n) {
#pragma omp parallel for schedule(static) if (box.volume() > 4096)
    for (std::int64_t row = 0; row < rows; ++row)
      sum_row(n, box.lo[kD] + row / height, box.lo[kH] + row % height);
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

// The block of pixels at which windows begin.
const Box& DepthwiseConvolution::windows() const {
  return options_.transposed ? context_.boxes.src_needed[0] : context_.boxes.dst_produced;
}

// Adds the gradients of one part of the channels from one chunk of the rows of all samples; those
// of a transposed convolution are the same with src and diff_dst exchanged, except for the bias.
template <class T>
void DepthwiseConvolution::add_weight_gradient(TensorView<const T> src,
                                               TensorView<const T> diff_dst, std::int64_t chunk,
                                               std::int64_t chunks, std::int64_t part,
                                               std::int64_t parts) {
  const Box& box = windows();
  const Taps& by_window = options_.transposed ? data_taps_ : forward_taps_;
  const std::int64_t taps = tap_count(), depth = box.extent(kD), height = box.extent(kH);
  const std::int64_t rows = src.batch * depth * height, blocks = blocks_of(channels_);
  const std::int64_t first_block = part * blocks / parts, end_block = (part + 1) * blocks / parts;
  const std::int64_t src_step = by_window.plane_step * src.span.extent(kC),
                     diff_step = diff_dst.span.extent(kC);
  std::fill(partial_sums(chunk, first_block), partial_sums(chunk, end_block), 0.0F);
  for (std::int64_t row = chunk * rows / chunks; row < (chunk + 1) * rows / chunks; ++row) {
    const std::int64_t n = row / (depth * height), d = box.lo[kD] + row / height % depth,
                       h = box.lo[kH] + row % height;
    for (const PixelRun& run : by_window.runs) {
      const std::span<const Term> terms = find_terms(by_window, src, n, d, h, run.w);
      for (std::int64_t b = first_block; b < end_block; ++b) {
        const ChannelBlock block(b, channels_);
        float* const sums = partial_sums(chunk, b);
        const std::int64_t c = box.lo[kC] + block.first;
        const T* const x = src.data + c - src.span.lo[kC];
        const T* const dy = diff_dst.data + diff_dst.offset(n, c, d, h, run.w);
        with_lanes(block.count, [&](auto lanes) {
          const auto gradient = [&](std::int64_t i) __attribute__((always_inline)) {
            return load_values(dy + i * diff_step, lanes);
          };
          const auto value = [&](const Term& term, std::int64_t i) __attribute__((always_inline)) {
            return load_values(x + term.offset + i * src_step, lanes);
          };
          std::size_t next = add_products<9>(terms, 0, run.count, gradient, value, sums);
          next = add_products<3>(terms, next, run.count, gradient, value, sums);
          add_products<1>(terms, next, run.count, gradient, value, sums);
          if (!options_.bias || options_.transposed) return;
          FloatLanes bias = load_values(sums + taps * kLanes, kLanes);
          for (std::int64_t i = 0; i < run.count; ++i) bias += gradient(i);
          store_values(bias, kLanes, sums + taps * kLanes);
        });
      }
    }
  }
}

template <class T>
void DepthwiseConvolution::sum_bias_gradient(TensorView<const T> diff_dst) {
  const Box& box = context_.boxes.dst_produced;
  const auto totals = bias_sums_.over(
      box, 0, context_.batch, [&](auto n, auto d, auto h, auto w, double* const sums) {
        const T* const dy = diff_dst.data + diff_dst.offset(n, box.lo[kC], d, h, w);
        for (std::int64_t c = 0; c < channels_; ++c)
          sums[c] += static_cast<double>(static_cast<float>(dy[c]));
      });
  std::transform(totals.begin(), totals.end(), parameters_[1].diffs.begin(),
                 [](double sum) { return static_cast<float>(sum); });
}

void DepthwiseConvolution::backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                                               AnyConstView diff_dst) {
  const std::int64_t taps = tap_count(), blocks = blocks_of(channels_), parts = parts_of(channels_);
  const std::int64_t chunks = chunks_of(rows_of(windows(), context_.batch), parts);
  with_float_type(options_.type, [&](auto zero) {
    using T = decltype(zero);
    const auto x = (options_.transposed ? diff_dst : src[0]).as<T>(),
               dy = (options_.transposed ? src[0] : diff_dst).as<T>();
#pragma omp parallel for schedule(static) collapse(2)
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
      for (std::int64_t part = 0; part < parts; ++part)
        add_weight_gradient<T>(x, dy, chunk, chunks, part, parts);
    if (options_.transposed && options_.bias) sum_bias_gradient(x);
  });
  pass.progress();
#pragma omp parallel for schedule(static)
  for (std::int64_t b = 0; b < blocks; ++b) {
    const ChannelBlock block(b, channels_);
    for (std::int64_t t = 0; t < taps + (options_.bias && !options_.transposed ? 1 : 0); ++t) {
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
