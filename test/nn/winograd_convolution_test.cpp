// SPDX-License-Identifier: Apache-2.0
// Forward passes by Winograd's minimal filtering against direct sums in double precision: within a
// bound that follows from the transforms alone, as accurate as the library's direct sums, and the
// same bits for any cut and number of threads.
#include "src/nn/kernels/winograd_convolution.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "error.hpp"
#include "rng.hpp"
#include "src/nn/kernels/pooled_activation.hpp"
#include "src/nn/onednn/onednn.hpp"

namespace halomesh {
namespace {

constexpr float kSlope = 0.3F;
constexpr std::array<Spatial, 3> kKernels{{{2, 2, 2}, {3, 3, 3}, {3, 1, 3}}};

// The matrices of one axis, as published (Lavin and Gray 2016, equation 8, for kernel 3).
struct Matrices {
  std::vector<std::array<double, 6>> input, weights;  // B^T and G: a row for each point
  std::array<std::array<double, 6>, 4> output;        // A^T
  double additions;                                   // rounded on the way to an element, per axis
};

// Polynomials are multiplied by their values at 0, +-3/4, +-3/2 and infinity (A. L. Toom, 1963):
// the row of a point in B^T has the coefficients of the product of all x - other point, and that in
// G the powers of the point, divided by the value of that product at the point.
Matrices matrices_of_four() {
  constexpr std::array kPoints{0.0, 0.75, -0.75, 1.5, -1.5};
  Matrices m{{}, {}, {}, 11};
  for (std::size_t at = 0; at <= kPoints.size(); ++at) {  // the last is infinity
    std::array<double, 6> product{1};
    double derivative = 1;
    for (std::size_t other = 0; other < kPoints.size(); ++other) {
      if (other == at) continue;
      for (std::size_t power = 5; power > 0; --power)
        product[power] = product[power - 1] - kPoints[other] * product[power];
      product[0] *= -kPoints[other];
      if (at < kPoints.size()) derivative *= kPoints[at] - kPoints[other];
    }
    m.input.push_back(product);
    m.weights.push_back({0, 0, 1});
    for (std::size_t power = 0; power < 4; ++power)
      m.output[power][at] = at < kPoints.size() ? std::pow(kPoints[at], power) : power == 3 ? 1 : 0;
    for (std::size_t power = 0; at < kPoints.size() && power < 3; ++power)
      m.weights.back()[power] = std::pow(kPoints[at], power) / derivative;
  }
  return m;
}

Matrices matrices_of(std::int64_t kernel, std::int64_t window) {
  if (window == 4) return matrices_of_four();
  if (kernel == 1) return {{{1}}, {{1}}, {{{1}}}, 0};
  if (kernel == 2)
    return {{{1, -1}, {0, 1}, {0, -1, 1}}, {{1}, {1, 1}, {0, 1}}, {{{1, 1}, {0, 1, 1}}}, 3};
  return {{{1, 0, -1}, {0, 1, 1}, {0, -1, 1}, {0, 1, 0, -1}},
          {{1}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}},
          {{{1, 1, 1}, {0, 1, -1, -1}}},
          5};
}

// One sample of drawn values with SAME padding, and what a forward pass makes of it.
struct Sample {
  Spatial kernel, window;  // the latter of the pooling
  std::int64_t taps, ci, co;
  Spatial extents;
  std::vector<float> weight, bias;
  Tensor src, dst;
  std::vector<std::uint8_t> argmax;
  std::array<Matrices, 3> matrices;

  // Activations behind a leaky ReLU and Glorot's uniform weights, as CosmoFlow has.
  Sample(const Spatial& k, std::int64_t in, std::int64_t out, const Spatial& n, bool large = false)
      : kernel(k),
        window(large ? winograd::large_window_of(k)
                     : Spatial{k[0] > 1 ? 2 : 1, k[1] > 1 ? 2 : 1, k[2] > 1 ? 2 : 1}),
        taps(k[0] * k[1] * k[2]),
        ci(in),
        co(out),
        extents(n),
        weight(static_cast<std::size_t>(co * ci * taps)),
        bias(static_cast<std::size_t>(co)),
        src(Box::whole({ci, n[0], n[1], n[2]}), 1),
        dst(Box::whole({co, n[0] / window[0], n[1] / window[1], n[2] / window[2]}), 1),
        argmax(static_cast<std::size_t>(dst.view().sample_volume())),
        matrices{matrices_of(k[0], window[0]), matrices_of(k[1], window[1]),
                 matrices_of(k[2], window[2])} {
    const CounterRng rng(51, RandomUse::kSynth, static_cast<std::uint32_t>(k[0] * in));
    std::uint64_t next = 0;
    const auto uniform = [&] { return 2 * rng.uniform(next++) - 1; };
    const double limit = std::sqrt(6.0 / static_cast<double>(taps * 3 * ci));
    for (float& w : weight) w = static_cast<float>(limit * uniform());
    for (float& b : bias) b = static_cast<float>(0.1 * uniform());
    for (std::int64_t i = 0; i < src.view().sample_volume(); ++i) {
      const double x = 4 * uniform() + 1;
      src.view().data[i] = static_cast<float>(x > 0 ? x : x * static_cast<double>(kSlope));
    }
  }
  WinogradConvolution::Geometry geometry() const { return {ci, co, kernel, window}; }
  std::int64_t before(std::size_t axis) const { return (kernel[axis] - 1) / 2; }
  // What tap number `tap` of voxel v reads.
  Spatial read_by(const Spatial& v, std::int64_t tap) const {
    return {v[0] + tap / kernel[2] / kernel[1] - before(0),
            v[1] + tap / kernel[2] % kernel[1] - before(1), v[2] + tap % kernel[2] - before(2)};
  }
  std::int64_t outputs() const { return window[0] * window[1] * window[2]; }
  // The voxel of output e of a window.
  Spatial output(const Spatial& w, std::int64_t e) const {
    return {window[0] * w[0] + e / window[2] / window[1],
            window[1] * w[1] + e / window[2] % window[1], window[2] * w[2] + e % window[2]};
  }
  // The windows of `box`, read from the whole sample.
  void forward(WinogradConvolution& convolution, const Box& box) {
    const ConstView from = src.view();
    Spatial corner{};
    for (std::size_t a = 0; a < 3; ++a) corner[a] = window[a] * box.lo[a + 1] - before(a);
    convolution.forward(
        {from.data, {extents[1] * extents[2] * ci, extents[2] * ci, ci}, extents, corner}, box, 0,
        kSlope, dst.any_view(), {argmax.data(), dst.view().span, 1});
  }
  double at(std::int64_t c, const Spatial& v) const {
    for (std::size_t a = 0; a < 3; ++a)
      if (v[a] < 0 || v[a] >= extents[a]) return 0;
    const ConstView from = src.view();
    return static_cast<double>(from.at(0, c, v[0], v[1], v[2]));
  }
  double weight_at(std::int64_t o, std::int64_t i, std::int64_t tap) const {
    return static_cast<double>(weight[static_cast<std::size_t>((o * ci + i) * taps + tap)]);
  }
  // The element of the convolution at voxel v.
  double direct(std::int64_t o, const Spatial& v) const {
    auto sum = static_cast<double>(bias[static_cast<std::size_t>(o)]);
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const Spatial from = read_by(v, tap);
      for (std::int64_t i = 0; i < ci; ++i) sum += weight_at(o, i, tap) * at(i, from);
    }
    return sum;
  }
  double bound(std::int64_t o, const Spatial& place);
  // The window whose bound was asked for last, and its input_magnitudes().
  Spatial inputs_of{-1, -1, -1};
  std::vector<double> inputs;
};

// Points along each axis.
Spatial sides_of(const Sample& s) {
  return {s.kernel[0] + s.window[0] - 1, s.kernel[1] + s.window[1] - 1,
          s.kernel[2] + s.window[2] - 1};
}

// Element `number` of a block of `extents`.
Spatial place_in(const Spatial& extents, std::int64_t number) {
  return {number / extents[2] / extents[1], number / extents[2] % extents[1], number % extents[2]};
}

// An element of the product of three matrices, one per axis, in magnitude.
double factor(const Sample& s, decltype(&Matrices::input) matrix, const Spatial& point,
              const Spatial& columns) {
  double product = 1;
  for (std::size_t a = 0; a < 3; ++a)
    product *= std::abs(
        (s.matrices[a].*
         matrix)[static_cast<std::size_t>(point[a])][static_cast<std::size_t>(columns[a])]);
  return product;
}

// |B^T| |d| at each point of a window's tile, for each channel.
std::vector<double> input_magnitudes(const Sample& s, const Spatial& window) {
  const Spatial sides = sides_of(s);
  const std::int64_t points = sides[0] * sides[1] * sides[2];
  std::vector<double> sums;
  for (std::int64_t p = 0; p < points; ++p)
    for (std::int64_t i = 0; i < s.ci; ++i) {
      double& sum = sums.emplace_back();
      for (std::int64_t t = 0; t < points; ++t) {
        const Spatial offset = place_in(sides, t);
        Spatial voxel{};
        for (std::size_t a = 0; a < 3; ++a)
          voxel[a] = s.window[a] * window[a] - s.before(a) + offset[a];
        sum += factor(s, &Matrices::input, place_in(sides, p), offset) * std::abs(s.at(i, voxel));
      }
    }
  return sums;
}

// The sum over channels of |G| |g| times |B^T| |d| at point p of a tile.
double magnitude_at(const Sample& s, std::int64_t o, std::int64_t p,
                    const std::vector<double>& inputs) {
  const Spatial point = place_in(sides_of(s), p);
  double sum = 0;
  for (std::int64_t i = 0; i < s.ci; ++i) {
    double weights = 0;
    for (std::int64_t t = 0; t < s.taps; ++t)
      weights += factor(s, &Matrices::weights, point, place_in(s.kernel, t)) *
                 std::abs(s.weight_at(o, i, t));
    sum += weights * inputs[static_cast<std::size_t>(p * s.ci + i)];
  }
  return sum;
}

// The largest error that rounding can make of any element of a window: gamma_n |A^T| (|G| |g| *
// |B^T| |d|), where n counts the roundings on the way from an input to an element: the sum over
// input channels, and along each axis one addition for B^T, two (kernel 2: one) for G and as many
// for A^T. That is the mixed bound of B. Barabasz, A. Anderson, K. Soodhalter and D. Gregg (Error
// Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks, ACM TOMS
// 46(4), 2020, theorem 3) by elements instead of norms.
double Sample::bound(std::int64_t o, const Spatial& place) {
  double additions = 0;
  for (const Matrices& each : matrices) additions += each.additions;
  const double roundings = (static_cast<double>(ci) + 1 + additions) * 0x1p-24;
  double largest = 0;
  const Spatial sides = sides_of(*this);
  std::vector<double> sums(static_cast<std::size_t>(outputs()));
  if (inputs_of != place) {
    inputs = input_magnitudes(*this, place);
    inputs_of = place;
  }
  for (std::int64_t p = 0; p < sides[0] * sides[1] * sides[2]; ++p) {
    const Spatial point = place_in(sides, p);
    const double magnitude = magnitude_at(*this, o, p, inputs);
    for (std::int64_t e = 0; e < outputs(); ++e) {
      const Spatial output = place_in(window, e);
      double factor = 1;
      for (std::size_t a = 0; a < 3; ++a)
        factor *= std::abs(matrices[a].output[static_cast<std::size_t>(output[a])]
                                             [static_cast<std::size_t>(point[a])]);
      sums[static_cast<std::size_t>(e)] += factor * magnitude;
    }
  }
  for (const double sum : sums)
    largest =
        std::max(largest, sum + std::abs(static_cast<double>(bias[static_cast<std::size_t>(o)])));
  return roundings / (1 - roundings) * largest;
}

struct Window {
  std::vector<double> elements;
  double most, active;
};
Window window_of(const Sample& s, std::int64_t o, const Spatial& w) {
  Window window{};
  for (std::int64_t e = 0; e < s.outputs(); ++e)
    window.elements.push_back(s.direct(o, s.output(w, e)));
  window.most = *std::max_element(window.elements.begin(), window.elements.end());
  window.active = window.most > 0 ? window.most : window.most * static_cast<double>(kSlope);
  return window;
}

template <class Body>
void for_each_window(const Sample& s, const Body& body) {
  const Box& box = s.dst.view().span;
  for (std::int64_t d = 0; d < box.hi[kD]; ++d)
    for (std::int64_t h = 0; h < box.hi[kH]; ++h)
      for (std::int64_t w = 0; w < box.hi[kW]; ++w)
        for (std::int64_t o = 0; o < s.co; ++o) body(o, Spatial{d, h, w});
}

// Returns how many windows had their maximum at each place.
std::array<std::int64_t, 8> expect_within_bound(Sample& s) {
  std::array<std::int64_t, 8> places{};
  for_each_window(s, [&](std::int64_t o, const Spatial& w) {
    const Window window = window_of(s, o, w);
    const double bound = s.bound(o, w);
    const ConstView dst = s.dst.view();
    const std::int64_t at = dst.offset(0, o, w[0], w[1], w[2]);
    const auto got = static_cast<double>(dst.data[at]);
    CHECK(std::abs(got - window.active) <= bound + std::abs(window.active) * 0x1p-23);
    const std::uint8_t won = s.argmax[static_cast<std::size_t>(at)];
    const std::size_t place = won & (kSlopeBit - 1U);
    CHECK(window.elements[place] >= window.most - 2 * bound);  // unless two nearly tie, the largest
    CHECK(((won & kSlopeBit) == 0) == (got > 0));
    ++places[place];
  });
  return places;
}

TEST_CASE("Winograd convolution stays within the bound of its transforms") {
  std::array<std::int64_t, 8> places{};
  for (const Spatial& kernel : kKernels)
    for (const std::int64_t ci : {16, 48})
      for (const std::int64_t co : {1, 33})
        for (const Spatial& extents : {Spatial{2, 2, 2}, Spatial{5, 4, 7}, Spatial{2, 4, 14}}) {
          Sample s(kernel, ci, co, extents);
          CAPTURE(kernel[0]);
          CAPTURE(kernel[1]);
          CAPTURE(ci);
          CAPTURE(co);
          const Box& box = s.dst.view().span;
          WinogradConvolution convolution(s.geometry(), box.volume() / co, 2);
          convolution.load_weights(s.weight.data(), s.bias.data());
          s.forward(convolution, box);
          const auto seen = expect_within_bound(s);
          for (std::size_t e = 0; e < 8; ++e) places[e] += seen[e];
        }
  for (const std::int64_t windows : places) CHECK(windows > 100);
}

// The convolution of a box without pooling, read from what the box needs alone.
void convolve(Sample& s, WinogradConvolution& convolution, const Box& box, View to) {
  Box needed = box;
  Spatial corner{}, strides{s.extents[1] * s.extents[2] * s.ci, s.extents[2] * s.ci, s.ci};
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t before = s.before(a);
    needed.lo[a + 1] = std::max<std::int64_t>(0, box.lo[a + 1] - before);
    needed.hi[a + 1] = std::min(s.extents[a], box.hi[a + 1] + s.kernel[a] - 1 - before);
    corner[a] = box.lo[a + 1] - before - needed.lo[a + 1];
  }
  needed.hi[kC] = s.ci;
  convolution.convolve(
      {s.src.view().begin_of(0, needed), strides, needed.shape().spatial(), corner}, box, 0, to);
}

// Calls body(channel, voxel, direct sum, bound of its window) for the voxels of `counts` windows,
// in every fourth channel.
template <class Body>
void for_each_output(Sample& s, const Spatial& counts, const Body& body) {
  for (std::int64_t w = 0; w < counts[0] * counts[1] * counts[2]; ++w)
    for (std::int64_t o = 0; o < s.co; o += 4) {
      const Spatial window = place_in(counts, w);
      const double bound = s.bound(o, window);
      for (std::int64_t e = 0; e < s.outputs(); ++e) {
        const Spatial v = s.output(window, e);
        if (v[0] < s.extents[0] && v[1] < s.extents[1] && v[2] < s.extents[2])
          body(o, v, s.direct(o, v), bound);
      }
    }
}

TEST_CASE("Winograd convolution without pooling: within its bound, the same bits for any cut") {
  std::int64_t compared = 0, checked = 0;
  for (const Spatial& kernel : kKernels)
    for (const std::int64_t co : {5, 33, 160}) {  // more windows than channels, and fewer
      Sample s(kernel, 16, co, {5, 6, 7});
      const Box all = Box::whole({co, 5, 6, 7});
      const std::int64_t windows = WinogradConvolution::windows_of(all, s.window).volume() / co;
      Tensor whole(all, 1);
      WinogradConvolution once(s.geometry(), windows, 2);
      once.load_weights(s.weight.data(), s.bias.data());
      convolve(s, once, all, whole.view());
      const Spatial counts{3, kernel[1] > 1 ? 3 : 6, 4};
      CHECK(windows == counts[0] * counts[1] * counts[2]);
      for_each_output(
          s, counts, [&](std::int64_t o, const Spatial& v, double direct, double bound) {
            const auto value = static_cast<double>(whole.view().at(0, o, v[0], v[1], v[2]));
            CHECK(std::abs(value - direct) <= bound);
            ++checked;
          });
      for (std::size_t axis = kD; axis <= kW; ++axis)
        for (std::int64_t at = 1; at < 4; ++at) {
          Box first = all, second = all;
          first.hi[axis] = second.lo[axis] = at;
          Tensor cut(all, 1);
          for (const Box& box : {first, second}) convolve(s, once, box, cut.view());
          CHECK(std::memcmp(cut.view().data, whole.view().data,
                            static_cast<std::size_t>(all.volume()) * sizeof(float)) == 0);
          compared += all.volume();
        }
    }
  CHECK(compared > 0);
  CHECK(checked == 3 * 210 * (2 + 9 + 40));
}

// Elements of large windows depend on more than they read, so that cuts may change their last bits.
TEST_CASE("Winograd convolution with large windows: within its bound, on any cut") {
  std::int64_t compared = 0;
  for (const Spatial& kernel : {Spatial{3, 3, 3}, Spatial{3, 1, 3}})
    for (const std::int64_t co : {5, 33, 160}) {
      Sample s(kernel, 16, co, {5, 6, 11}, true);
      const Box all = Box::whole({co, 5, 6, 11});
      const std::int64_t windows = WinogradConvolution::windows_of(all, s.window).volume() / co;
      const Spatial counts = kernel[1] > 1 ? Spatial{3, 2, 3} : Spatial{2, 6, 3};
      CHECK(windows == counts[0] * counts[1] * counts[2]);
      WinogradConvolution convolution(s.geometry(), windows, 2);
      convolution.load_weights(s.weight.data(), s.bias.data());
      std::vector<Tensor> results;
      for (const std::size_t axis : {kC, kD, kH, kW}) {  // kC: not cut
        Box first = all, second = all;
        if (axis != kC) first.hi[axis] = second.lo[axis] = 3;
        const Tensor& got = results.emplace_back(all, 1);
        for (const Box& box : {first, second}) convolve(s, convolution, box, got.view());
      }
      for_each_output(
          s, counts, [&](std::int64_t o, const Spatial& v, double direct, double bound) {
            for (const Tensor& got : results) {
              const auto value = static_cast<double>(got.view().at(0, o, v[0], v[1], v[2]));
              CHECK(std::abs(value - direct) <= bound);
              ++compared;
            }
          });
    }
  CHECK(compared == 2 * 4 * 330 * (2 + 9 + 40));
}

// Measured with AVX-512: 0.5e-6 to 2e-6.
TEST_CASE("Winograd convolution with large windows errs by less than 1e-5 of the largest element") {
  for (const Spatial& kernel : {Spatial{3, 3, 3}, Spatial{3, 1, 3}})
    for (const std::int64_t ci : {32, 64, 128, 256, 512}) {
      Sample s(kernel, ci, 8, {4, 8, 8}, true);
      const Box all = Box::whole({8, 4, 8, 8});
      WinogradConvolution convolution(s.geometry(), all.volume(), 1);
      convolution.load_weights(s.weight.data(), s.bias.data());
      Tensor got(all, 1);
      convolve(s, convolution, all, got.view());
      double largest = 0, error = 0;
      for (std::int64_t v = 0; v < 4 * 8 * 8; ++v)
        for (std::int64_t o = 0; o < 8; ++o) {
          const Spatial at = place_in({4, 8, 8}, v);
          const double exact = s.direct(o, at);
          largest = std::max(largest, std::abs(exact));
          error = std::max(
              error,
              std::abs(static_cast<double>(got.view().at(0, o, at[0], at[1], at[2])) - exact));
        }
      INFO(fmt::format("kernel {}x{}x{}, {} channels: {:.1e} of the largest", kernel[0], kernel[1],
                       kernel[2], ci, error / largest));
      CHECK(largest > 0);
      CHECK(error < 1e-5 * largest);
    }
}

struct Errors {
  double largest = 0, squares = 0;
  void add(double error) {
    largest = std::max(largest, std::abs(error));
    squares += error * error;
  }
};

// The library's direct sums, pooled.
Tensor direct_forward(const Sample& s) {
  Spatial before{}, after{};
  for (std::size_t a = 0; a < 3; ++a) {
    before[a] = s.before(a);
    after[a] = s.kernel[a] - 1 - before[a];
  }
  const Shape conv{s.co, s.extents[0], s.extents[1], s.extents[2]};
  ConvolutionKernels kernels({DataType::kFloat32, DataType::kFloat32, false});
  const std::size_t kernel = kernels.add_forward(
      {s.src.view().span.shape(), conv, s.kernel, {1, 1, 1}, {1, 1, 1}, before, after});
  kernels.allocate({}, false);
  kernels.load_weights(s.weight.data(), s.bias.data());
  Tensor planes(Box::whole(conv), 1), dst(s.dst.view().span, 1);
  kernels.forward(kernel, s.src.view().data, planes.view().data);
  PooledActivation{s.window, kSlope}.forward(
      {planes.any_view().data, DataType::kFloat32, {0, s.extents[0]}}, dst.view().span, 0,
      dst.any_view(), {});
  return dst;
}

// Measured with AVX-512, relative to direct sums: rms 0.3 to 0.9, largest error 0.2 to 0.8:
// its sums are shorter.
TEST_CASE("Winograd convolution is at most twice as wrong as direct sums, for each layer") {
  for (const Spatial& kernel : kKernels)
    for (const std::int64_t ci : {32, 64, 128, 256}) {
      Sample s(kernel, ci, 32, {8, 8, 8});
      WinogradConvolution convolution(s.geometry(), s.dst.view().sample_volume() / s.co, 1);
      convolution.load_weights(s.weight.data(), s.bias.data());
      s.forward(convolution, s.dst.view().span);
      const Tensor direct = direct_forward(s);
      Errors of_direct, of_winograd;
      for_each_window(s, [&](std::int64_t o, const Spatial& w) {
        const double exact = window_of(s, o, w).active;
        const ConstView dst = s.dst.view();
        const std::int64_t at = dst.offset(0, o, w[0], w[1], w[2]);
        of_winograd.add(static_cast<double>(dst.data[at]) - exact);
        of_direct.add(static_cast<double>(direct.view().data[at]) - exact);
      });
      const double rms = std::sqrt(of_winograd.squares / of_direct.squares);
      INFO(fmt::format(
          "kernel {}x{}x{}, {} channels: rms {:.2f} and largest {:.2f} of that of direct sums",
          kernel[0], kernel[1], kernel[2], ci, rms, of_winograd.largest / of_direct.largest));
      CHECK(of_direct.squares > 0);
      CHECK(rms <= 2);
      CHECK(of_winograd.largest <= 2 * of_direct.largest);
    }
}

TEST_CASE("Winograd convolution has the same bits for any cut and number of threads") {
  std::int64_t compared = 0;
  for (const Spatial& kernel : kKernels)
    for (const std::int64_t co : {8, 40, 200}) {  // more windows than channels, and fewer
      Sample whole(kernel, 32, co, {8, 9, 14});
      const Box& all = whole.dst.view().span;
      WinogradConvolution once(whole.geometry(), all.volume() / co, 1);
      once.load_weights(whole.weight.data(), whole.bias.data());
      whole.forward(once, all);
      for (const int threads : {1, 2, 3, 7})
        for (const std::size_t axis : {kD, kH, kW}) {
          Sample cut(kernel, 32, co, {8, 9, 14});
          Box first = all, second = all;
          first.hi[axis] = second.lo[axis] = 1;
          WinogradConvolution convolution(cut.geometry(), second.volume() / co, threads);
          convolution.load_weights(cut.weight.data(), cut.bias.data());
          cut.forward(convolution, first);
          cut.forward(convolution, second);
          CHECK(std::memcmp(cut.dst.view().data, whole.dst.view().data,
                            static_cast<std::size_t>(all.volume()) * sizeof(float)) == 0);
          CHECK(cut.argmax == whole.argmax);
          compared += all.volume();
        }
    }
  CHECK(compared > 0);
}

TEST_CASE("Winograd convolution: the first of equal elements wins, and every NaN") {
  std::int64_t nan = 0, ties = 0;
  for (const Spatial& kernel : kKernels) {
    Sample s(kernel, 16, 17, {8, 8, 8});
    std::fill_n(s.src.view().data, s.src.view().sample_volume(), 1.25F);
    WinogradConvolution convolution(s.geometry(), s.dst.view().sample_volume() / s.co, 1);
    convolution.load_weights(s.weight.data(), s.bias.data());
    s.forward(convolution, s.dst.view().span);
    const auto at = [&](std::int64_t o, const Spatial& w) {
      return static_cast<std::size_t>(s.dst.view().offset(0, o, w[0], w[1], w[2]));
    };
    for_each_window(s, [&](std::int64_t o, const Spatial& w) {
      for (std::size_t a = 0; a < 3; ++a)
        if (kernel[a] > 1 && (w[a] == 0 || w[a] == 3)) return;  // reads padding
      CHECK((s.argmax[at(o, w)] & (kSlopeBit - 1)) == 0);
      ++ties;
    });
    s.src.view().at(0, 3, 4, 4, 5) = std::numeric_limits<float>::quiet_NaN();
    s.forward(convolution, s.dst.view().span);
    for_each_window(s, [&](std::int64_t o, const Spatial& w) {
      const Window window = window_of(s, o, w);
      const bool expected = std::any_of(window.elements.begin(), window.elements.end(),
                                        [](double e) { return std::isnan(e); });
      CHECK(std::isnan(s.dst.view().data[at(o, w)]) == expected);
      nan += expected ? 1 : 0;
    });
  }
  CHECK(ties == (2 * 8 + 2 * 8 * 2) * 17);
  CHECK(nan > 0);
}

TEST_CASE("Winograd convolution refuses other shapes, and pays for many windows") {
  const auto supports = [](std::int64_t ci, std::int64_t kernel, std::int64_t pool) {
    return WinogradConvolution::supports({ci, 8, {kernel, kernel, kernel}, {pool, pool, pool}});
  };
  CHECK(supports(16, 2, 2));
  CHECK(supports(32, 3, 2));
  CHECK_FALSE(supports(17, 3, 2));
  CHECK_FALSE(supports(16, 4, 2));
  CHECK_FALSE(supports(16, 3, 1));
  CHECK_THROWS_WITH_AS(WinogradConvolution({17, 8, {3, 3, 3}, {2, 2, 2}}, 1, 1),
                       doctest::Contains("17 to 8 channels, kernel 3x3x3"), Error);
  CHECK(WinogradConvolution::supports({16, 8, {3, 1, 3}, {2, 1, 2}}));
  CHECK(WinogradConvolution::supports({16, 8, {3, 1, 3}, {4, 1, 4}}));
  CHECK_FALSE(WinogradConvolution::supports({16, 8, {2, 2, 2}, {2, 4, 4}}));
  CHECK_FALSE(WinogradConvolution::supports({16, 8, {3, 1, 3}, {2, 2, 2}}));
  CHECK_FALSE(WinogradConvolution::supports({16, 8, {3, 3, 1}, {2, 2, 1}}));
  for (const Spatial& kernel : kKernels) {
    const WinogradConvolution::Geometry g{256, 512, kernel, {2, kernel[1] > 1 ? 2 : 1, 2}};
    CHECK_FALSE(WinogradConvolution::pays(g, 1));
    CHECK(WinogradConvolution::pays(g, 64));
  }
}

}  // namespace
}  // namespace halomesh
