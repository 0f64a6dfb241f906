// SPDX-License-Identifier: Apache-2.0
// Normalization with given moments: see normalize.hpp.
#include "src/nn/layers/normalize.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

#include "src/nn/kernels/float_types.hpp"
#include "src/nn/kernels/weight_and_bias.hpp"
#include "src/nn/pack.hpp"
#include "src/nn/runs.hpp"

namespace halomesh {
namespace {

double value_of(float x) { return static_cast<double>(x); }
double value_of(Bfloat16 x) { return static_cast<double>(static_cast<float>(x)); }

// The derivative of a rectifier at `value`. Selects by bits, because GCC 12 turns a condition into
// a branch, and does not vectorize the loop, on CPUs without mask registers.
struct Rectifier {
  double slope;
  double operator()(double value) const {
    const auto rises = -static_cast<std::uint64_t>(value > 0);
    return std::bit_cast<double>((std::bit_cast<std::uint64_t>(1.0) & rises) |
                                 (std::bit_cast<std::uint64_t>(slope) & ~rises));
  }
};
struct NoRectifier {
  double operator()(double) const { return 1; }
};

}  // namespace

Normalize::Normalize(float epsilon, DataType type, std::int64_t samples, float slope, bool affine,
                     float momentum)
    : epsilon_(epsilon),
      type_(type),
      samples_(samples),
      slope_(slope),
      affine_(affine),
      momentum_(momentum) {
  require(std::isfinite(epsilon) && epsilon > 0.0F,
          text("normalization with epsilon {:g}", epsilon), "use a positive number, e.g. 1e-5");
  require(samples >= 0, text("normalization over {} samples", samples),
          "use a positive number, or 0 for each sample by itself");
  require(std::isfinite(slope), text("normalization with a leaky ReLU of slope {:g}", slope),
          "use a finite slope, or 1 for none");
  require(momentum > 0 && momentum <= 1, text("normalization with a momentum of {:g}", momentum),
          "use a number above 0 and up to 1, e.g. 0.1");
}

Shape Normalize::dst_shape(std::span<const Shape> src) const {
  require(src.size() == 2, text("normalization of {} inputs", src.size()),
          "name two inputs for it: a tensor and its moments");
  const Shape& moments = src[1];
  require(moments.spatial() == Spatial{1, 1, 1} && moments.c % 2 == 0 &&
              src[0].c % (moments.c / 2) == 0,
          text("normalization of {} with moments {}", src[0], moments),
          "its second input must be the moments of the first");
  const std::int64_t channels = src[0].c / (moments.c / 2);
  require(src[0].volume() / src[0].c * channels * std::max<std::int64_t>(samples_, 1) > 1,
          text("normalization of {} with a single value for each mean", src[0]),
          "a single value always becomes 0: use larger extents, or more samples together");
  return src[0];
}

Box Normalize::needs(const Box& dst, std::size_t input, std::span<const Shape> src) const {
  if (input == 0 || dst.empty()) return dst;
  const std::int64_t size = src[0].c / (src[1].c / 2);
  return {{dst.lo[kC] / size * 2, 0, 0, 0}, {((dst.hi[kC] - 1) / size + 1) * 2, 1, 1, 1}};
}

std::vector<ParameterGeometry> Normalize::parameters(std::span<const Shape> src) const {
  constexpr InitialValues kZeros{InitialValues::Kind::kConstant, 0.0F};
  constexpr InitialValues kOnes{InitialValues::Kind::kConstant, 1.0F};
  std::vector<ParameterGeometry> all = weight_and_bias(affine_, affine_, src[0].c);
  if (samples_ > 0) {
    all.push_back({"running_mean", src[0].c, kOnePerChannel, false, 0, 0, kZeros, momentum_});
    all.push_back({"running_variance", src[0].c, kOnePerChannel, false, 0, 0, kOnes, momentum_});
  }
  return all;
}

DataType Normalize::dst_type(std::span<const DataType> src) const {
  require_type(src.subspan(1), DataType::kFloat64, "moments for a normalization");
  return require_type(src.first(1), type_, "normalization");
}

std::string Normalize::kernel_name() const {
  return fmt::format("normalize {}{}", slope_ == 1 ? "" : "and rectify ", name_of(type_));
}

std::int64_t Normalize::forward_flops(std::span<const Shape> src) const {
  return 3 * src[0].volume();
}

void Normalize::prepare(const LayerContext& context, std::vector<ParameterView> parameters) {
  context_ = context;
  channels_ = context.boxes.dst_produced.extent(kC);
  parameters_ = with_fixed(std::move(parameters), affine_, affine_, channels_, fixed_);
  factors_ = AlignedBuffer<double>(3 * channels_);
  if (!context.training) return;
  sums_ = ChannelSums(channels_, 2);
  diff_sums_ = AlignedBuffer<double>(2 * channels_ * context.batch);
}

// Calls body(channel, group) for each produced channel.
template <class Body>
void Normalize::for_each_channel(const Body& body) const {
  const std::int64_t size = context_.src_shapes[0].c / (context_.src_shapes[1].c / 2);
  const std::int64_t first = context_.boxes.dst_produced.lo[kC];
  std::int64_t group = first / size, left = size - first % size;
  for (std::int64_t c = 0; c < channels_; ++c) {
    body(c, group);
    if (--left == 0) {
      ++group;
      left = size;
    }
  }
}

Normalize::Factors Normalize::factors() {
  return {factors_.data(), factors_.data() + channels_, factors_.data() + 2 * channels_};
}

void Normalize::set_factors(std::int64_t channel, double mean, double variance) {
  const Factors f = factors();
  f.mean[channel] = mean;
  f.inverse[channel] = 1 / std::sqrt(variance + value_of(epsilon_));
  f.scale[channel] =
      value_of(parameters_[0].values[static_cast<std::size_t>(channel)]) * f.inverse[channel];
}

Normalize::Factors Normalize::find_running_factors() {
  for (std::int64_t c = 0; c < channels_; ++c) {
    const auto at = static_cast<std::size_t>(c);
    set_factors(c, value_of(parameters_[2].values[at]), value_of(parameters_[3].values[at]));
  }
  return factors();
}

Normalize::Factors Normalize::find_factors(AnyConstView moments, std::int64_t n) {
  const auto view = moments.as<double>();
  for_each_channel([&](std::int64_t c, std::int64_t group) {
    const double* const m = &view.at(n, 2 * group, 0, 0, 0);
    // Rounding may make the variance of a constant negative.
    set_factors(c, m[0], std::max(m[1] - m[0] * m[0], 0.0));
  });
  return factors();
}

// Calls body with zero of the element type and the rectifier's derivative.
template <class Body>
void Normalize::with_rectifier(const Body& body) const {
  with_float_type(type_, [&](auto zero) {
    if (slope_ == 1)
      body(zero, NoRectifier());
    else
      body(zero, Rectifier{value_of(slope_)});
  });
}

void Normalize::forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
                        const Box& chunk) {
  const bool running = samples_ > 0 && !pass.training;
  has_diff_sums_ = false;
  const float* const bias = parameters_[1].values.data();
  for (std::int64_t n = 0; n < dst.batch; ++n) {
    const Factors factors = running ? find_running_factors() : find_factors(src[1], n);
    with_rectifier([&](auto zero, auto rectifier) {
      using T = decltype(zero);
      const auto from = src[0].as<T>();
      const auto to = dst.as<T>();
      visit_runs(chunk, 1, false, [&](const Run& run) {
        const T* const x = from.data + from.offset(n, chunk.lo[kC], run.d, run.h, run.w);
        T* const y = to.data + to.offset(n, chunk.lo[kC], run.d, run.h, run.w);
        for (std::int64_t c = 0; c < run.length; ++c) {
          const double value =
              factors.scale[c] * (value_of(x[c]) - factors.mean[c]) + value_of(bias[c]);
          y[c] = T(static_cast<float>(value * rectifier(value)));
        }
      });
    });
  }
}

// Fills diff_sums_ and, unless it is null, diff_src, reading each value once for both.
void Normalize::sum_diffs(std::span<const AnyConstView> src, AnyConstView diff_dst,
                          const AnyView* diff_src) {
  const Box& box = context_.boxes.dst_produced;
  const float* const bias = parameters_[1].values.data();
  const std::int64_t channels = channels_;
  for (std::int64_t n = 0; n < context_.batch; ++n) {
    const Factors factors = find_factors(src[1], n);
    double* const sums_of_sample = diff_sums_.data() + n * 2 * channels;
    with_rectifier([&](auto zero, auto rectifier) {
      using T = decltype(zero);
      const auto at = [&](auto view, std::int64_t d, std::int64_t h, std::int64_t w) {
        return view.data + view.offset(n, box.lo[kC], d, h, w);
      };
      const auto values = src[0].as<T>(), diffs = diff_dst.as<T>();
      const auto sum = [&](const auto& row_of) {
        const auto totals =
            sums_.over(box, n, 1, [&](auto, auto d, auto h, auto w, double* const sums) {
              const T *const x = at(values, d, h, w), *const dy = at(diffs, d, h, w);
              const auto write = row_of(d, h, w);
#pragma omp simd  // nothing overlaps
              for (std::int64_t c = 0; c < channels; ++c) {
                const double centred = value_of(x[c]) - factors.mean[c];
                const double diff =
                    value_of(dy[c]) * rectifier(factors.scale[c] * centred + value_of(bias[c]));
                write(c, factors.scale[c] * diff);
                sums[c] += diff * centred;
                sums[channels + c] += diff;
              }
            });
        for (std::int64_t c = 0; c < channels; ++c) {
          sums_of_sample[c] = factors.inverse[c] * totals[static_cast<std::size_t>(c)];
          sums_of_sample[channels + c] = totals[static_cast<std::size_t>(channels + c)];
        }
      };
      if (diff_src == nullptr)
        sum([](auto...) { return [](std::int64_t, double) {}; });
      else
        sum([&, to = diff_src->as<T>()](auto d, auto h, auto w) {
          return [dx = at(to, d, h, w)](std::int64_t c, double diff) {
            dx[c] = T(static_cast<float>(diff));
          };
        });
    });
  }
  has_diff_sums_ = true;
}

// With r = 1 / sqrt(variance + epsilon) and x^ = r (x - mean), d(mean) = -r sum of weight dy, and
// d(variance) = -r^2 / 2 sum of weight dy x^. The variance is m[1] - m[0]^2, so that d(m[0]) is
// d(mean) - 2 mean d(variance).
void Normalize::diff_of_moments(AnyConstView moments, AnyView diff_src) {
  clear(diff_src, context_.boxes.src_needed[1]);
  const auto to = diff_src.as<double>();
  for (std::int64_t n = 0; n < to.batch; ++n) {
    const Factors factors = find_factors(moments, n);
    const double* const sums = diff_sums_.data() + n * 2 * channels_;
    for_each_channel([&](std::int64_t c, std::int64_t group) {
      const double diff_variance = -factors.scale[c] * factors.inverse[c] / 2 * sums[c];
      double* const diff = &to.at(n, 2 * group, 0, 0, 0);
      diff[0] -= factors.scale[c] * sums[channels_ + c] + 2 * factors.mean[c] * diff_variance;
      diff[1] += diff_variance;
    });
  }
}

void Normalize::backward_data(const Pass&, const ForwardValues& values, AnyConstView diff_dst,
                              std::size_t input, AnyView diff_src) {
  if (input == 0) return sum_diffs(values.src, diff_dst, &diff_src);
  if (!has_diff_sums_) sum_diffs(values.src, diff_dst, nullptr);
  diff_of_moments(values.src[1], diff_src);
}

// Writes the contribution of the local samples, and of the pixels that this part produces, to the
// means over the global batch.
void Normalize::write_statistics(const Pass& pass, AnyConstView moments) {
  const Shape& src = context_.src_shapes[0];
  const std::int64_t group = src.c / (context_.src_shapes[1].c / 2);  // channels
  const std::int64_t produced = context_.boxes.dst_produced.volume() / channels_;
  const auto pixels = static_cast<double>(src.d * src.h * src.w);
  const double elements = static_cast<double>(samples_ * group) * pixels;
  const double unbiased = elements > 1 ? elements / (elements - 1) : 1;
  const double share =
      static_cast<double>(produced) / pixels / static_cast<double>(pass.global_batch);
  const auto view = moments.as<double>();
  for_each_channel([&](std::int64_t c, std::int64_t of) {
    double mean = 0, variance = 0;
    for (std::int64_t n = 0; n < context_.batch; ++n) {
      const double* const m = &view.at(n, 2 * of, 0, 0, 0);
      mean += share * m[0];
      variance += share * unbiased * std::max(m[1] - m[0] * m[0], 0.0);
    }
    parameters_[2].diffs[static_cast<std::size_t>(c)] = static_cast<float>(mean);
    parameters_[3].diffs[static_cast<std::size_t>(c)] = static_cast<float>(variance);
  });
}

void Normalize::backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                                    AnyConstView diff_dst) {
  if (samples_ > 0) write_statistics(pass, src[1]);
  if (!has_diff_sums_) sum_diffs(src, diff_dst, nullptr);
  for (std::int64_t c = 0; c < channels_; ++c) {
    double weight = 0, bias = 0;
    for (std::int64_t n = 0; n < context_.batch; ++n) {
      weight += diff_sums_.data()[n * 2 * channels_ + c];
      bias += diff_sums_.data()[(n * 2 + 1) * channels_ + c];
    }
    parameters_[0].diffs[static_cast<std::size_t>(c)] = static_cast<float>(weight);
    parameters_[1].diffs[static_cast<std::size_t>(c)] = static_cast<float>(bias);
  }
}

}  // namespace halomesh
