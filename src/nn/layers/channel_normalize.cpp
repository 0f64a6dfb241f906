// SPDX-License-Identifier: Apache-2.0
// Normalization over the channels of each voxel: see channel_normalize.hpp.
#include "src/nn/layers/channel_normalize.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/nn/kernels/float_types.hpp"
#include "src/nn/kernels/weight_and_bias.hpp"
#include "src/nn/runs.hpp"

namespace halomesh {
namespace {

using ChannelNormKind = ChannelNormalizeOptions::Kind;

double in_double(float x) { return static_cast<double>(x); }
double in_double(Bfloat16 x) { return static_cast<double>(static_cast<float>(x)); }

/// With y the softmax of x, and `shift` the logarithm of the sum of its exponentials: the gradient
/// y (dy - sum of y dy), or dy - y sum of dy where the output is the logarithm of y.
template <class T>
void softmax_gradient(const T* x, double shift, bool logarithm, std::int64_t count, const T* dy,
                      T* dx) {
  const auto y = [&](std::int64_t c) { return std::exp(in_double(x[c]) - shift); };
  double sum = 0;
  for (std::int64_t c = 0; c < count; ++c) sum += in_double(dy[c]) * (logarithm ? 1 : y(c));
  for (std::int64_t c = 0; c < count; ++c) {
    const double g = in_double(dy[c]);
    dx[c] = T(static_cast<float>(logarithm ? g - y(c) * sum : y(c) * (g - sum)));
  }
}

}  // namespace

ChannelNormalize::ChannelNormalize(const ChannelNormalizeOptions& options) : options_(options) {
  require(std::isfinite(options.epsilon) && options.epsilon > 0,
          text("normalization over channels with epsilon {:g}", options.epsilon),
          "use a positive number, e.g. 1e-5");
  require(!is_softmax() || !(options.weight || options.bias), "a softmax with a weight or bias",
          "scale its output by another layer");
}

Box ChannelNormalize::needs(const Box& dst, std::size_t, std::span<const Shape> src) const {
  Box box = dst;
  box.lo[kC] = 0;
  box.hi[kC] = dst.empty() ? 0 : src[0].c;
  return box;
}

std::vector<ParameterGeometry> ChannelNormalize::parameters(std::span<const Shape> src) const {
  return weight_and_bias(options_.weight, options_.bias, src[0].c);
}

DataType ChannelNormalize::dst_type(std::span<const DataType> src) const {
  return require_type(src, options_.type, "normalization over channels");
}

std::string ChannelNormalize::kernel_name() const {
  return fmt::format("normalize channels {}", name_of(options_.type));
}

std::int64_t ChannelNormalize::forward_flops(std::span<const Shape> src) const {
  return 8 * src[0].volume();
}

void ChannelNormalize::prepare(const LayerContext& context, std::vector<ParameterView> parameters) {
  Pointwise::prepare(context, {});
  channels_ = context.src_shapes[0].c;
  parameters_ =
      with_fixed(std::move(parameters), options_.weight, options_.bias, channels_, fixed_);
  if (context.training) sums_ = ChannelSums(channels_, 2);
}

// Sums in an order that depends only on the number of channels.
template <class T>
ChannelNormalize::Factors ChannelNormalize::factors_of(const T* x) const {
  const auto count = static_cast<double>(channels_), epsilon = in_double(options_.epsilon);
  Factors f;
  if (is_softmax()) {
    const double largest = in_double(
        *std::max_element(x, x + channels_, [](T a, T b) { return in_double(a) < in_double(b); }));
    double sum = 0;
    for (std::int64_t c = 0; c < channels_; ++c) sum += std::exp(in_double(x[c]) - largest);
    return {largest + std::log(sum), 1, 0};
  }
  if (options_.kind == ChannelNormKind::kLayer) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < channels_; ++c) sum += in_double(x[c]);
    f.mean = sum / count;
  }
  double squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t c = 0; c < channels_; ++c) {
    const double centred = in_double(x[c]) - f.mean;
    squares += centred * centred;
  }
  if (options_.kind == ChannelNormKind::kNorm) {
    const double norm = std::sqrt(squares);
    f.inverse = 1 / std::max(norm, epsilon);
    f.share = norm > epsilon ? 1 : 0;
  } else {
    f.inverse = 1 / std::sqrt(squares / count + epsilon);
    f.share = 1 / count;
  }
  return f;
}

void ChannelNormalize::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst,
                               const Box& chunk) {
  const float *const weight = parameters_[0].values.data(), *const bias =
                                                                parameters_[1].values.data();
  with_float_type(options_.type, [&](auto zero) {
    using T = decltype(zero);
    const auto from = src[0].as<T>();
    const auto to = dst.as<T>();
    visit_runs(chunk, to.batch, false, [&](const Run& run) {
      const T* const x = run.begin_in(from, chunk);
      T* const y = run.begin_in(to, chunk);
      const Factors f = factors_of(x);
      if (options_.kind == ChannelNormKind::kSoftmax) {
        for (std::int64_t c = 0; c < run.length; ++c)
          y[c] = T(static_cast<float>(std::exp(in_double(x[c]) - f.mean)));
        return;
      }
      for (std::int64_t c = 0; c < run.length; ++c)
        y[c] = T(static_cast<float>(in_double(weight[c]) * (in_double(x[c]) - f.mean) * f.inverse +
                                    in_double(bias[c])));
    });
  });
}

// With x^ = r (x - mean) and g = weight dy: dx = r (g - mean of g - share x^ sum of g x^), the mean
// only where there is one.
void ChannelNormalize::backward_data(const Pass&, const ForwardValues& values,
                                     AnyConstView diff_dst, std::size_t input, AnyView diff_src) {
  const Box& box = context().boxes.src_needed[input];
  const float* const weight = parameters_[0].values.data();
  const auto count = static_cast<double>(channels_);
  with_float_type(options_.type, [&](auto zero) {
    using T = decltype(zero);
    const auto read = values.src[0].as<T>(), from = diff_dst.as<T>();
    const auto to = diff_src.as<T>();
    visit_runs(box, to.batch, false, [&](const Run& run) {
      const T *const x = run.begin_in(read, box), *const dy = run.begin_in(from, box);
      T* const dx = run.begin_in(to, box);
      const Factors f = factors_of(x);
      if (is_softmax()) {
        const bool logarithm = options_.kind == ChannelNormKind::kLogSoftmax;
        softmax_gradient(x, f.mean, logarithm, run.length, dy, dx);
        return;
      }
      double sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
      for (std::int64_t c = 0; c < run.length; ++c) {
        const double g = in_double(weight[c]) * in_double(dy[c]);
        sum += g;
        product += g * (in_double(x[c]) - f.mean);
      }
      const double mean = options_.kind == ChannelNormKind::kLayer ? sum / count : 0;
      const double slope = f.share * f.inverse * f.inverse * product;
      for (std::int64_t c = 0; c < run.length; ++c) {
        const double g = in_double(weight[c]) * in_double(dy[c]);
        dx[c] = T(static_cast<float>(f.inverse * (g - mean - slope * (in_double(x[c]) - f.mean))));
      }
    });
  });
}

void ChannelNormalize::backward_parameters(const Pass&, std::span<const AnyConstView> src,
                                           AnyConstView diff_dst) {
  const Box& box = context().boxes.dst_produced;
  with_float_type(options_.type, [&](auto zero) {
    using T = decltype(zero);
    const auto values = src[0].as<T>(), diffs = diff_dst.as<T>();
    const auto totals = sums_.over(
        box, 0, context().batch, [&](auto n, auto d, auto h, auto w, double* const sums) {
          const T* const x = values.data + values.offset(n, 0, d, h, w);
          const T* const dy = diffs.data + diffs.offset(n, 0, d, h, w);
          const Factors f = factors_of(x);
          for (std::int64_t c = 0; c < channels_; ++c) {
            sums[c] += in_double(dy[c]) * (in_double(x[c]) - f.mean) * f.inverse;
            sums[channels_ + c] += in_double(dy[c]);
          }
        });
    for (std::int64_t p = 0; p < 2; ++p)
      std::transform(totals.begin() + p * channels_, totals.begin() + (p + 1) * channels_,
                     parameters_[static_cast<std::size_t>(p)].diffs.begin(),
                     [](double sum) { return static_cast<float>(sum); });
  });
}

}  // namespace halomesh
