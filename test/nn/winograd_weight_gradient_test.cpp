// SPDX-License-Identifier: Apache-2.0
// Weight gradients by Winograd's filtering against direct sums in double precision: as accurate as
// the library's, for any number of threads. On cut boxes: convolution_test.cpp.
#include "src/nn/kernels/winograd_weight_gradient.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "error.hpp"
#include "rng.hpp"
#include "src/nn/onednn/onednn.hpp"

namespace halomesh {
namespace {

// One sample with SAME padding.
struct Sample {
  Spatial kernel, window, before, after;
  std::int64_t taps, ci, co;
  Spatial extents;
  Tensor src, diff;
  std::vector<double> exact;  // order out,in,kd,kh,kw

  Sample(const Spatial& k, std::int64_t in, std::int64_t out, const Spatial& n, bool large = false)
      : kernel(k),
        window(large ? winograd::large_window_of(k) : winograd::window_of(k)),
        before{(k[0] - 1) / 2, (k[1] - 1) / 2, (k[2] - 1) / 2},
        after{k[0] / 2, k[1] / 2, k[2] / 2},
        taps(k[0] * k[1] * k[2]),
        ci(in),
        co(out),
        extents(n),
        src(Box::whole({ci, n[0], n[1], n[2]}), 1),
        diff(Box::whole({co, n[0], n[1], n[2]}), 1),
        exact(static_cast<std::size_t>(co * ci * taps)) {
    const CounterRng rng(53, RandomUse::kSynth, static_cast<std::uint32_t>(k[0] * in));
    std::uint64_t next = 0;
    for (const View& view : {src.view(), diff.view()})
      for (std::int64_t i = 0; i < view.sample_volume(); ++i)
        view.data[i] = 2 * rng.uniform(next++) - 1;
    const Box box = diff.view().span;
    for (std::int64_t d = 0; d < box.hi[kD]; ++d)
      for (std::int64_t h = 0; h < box.hi[kH]; ++h)
        for (std::int64_t w = 0; w < box.hi[kW]; ++w) add_voxel({d, h, w});
  }
  void add_voxel(const Spatial& v) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const Spatial from{v[0] + tap / kernel[2] / kernel[1] - before[0],
                         v[1] + tap / kernel[2] % kernel[1] - before[1],
                         v[2] + tap % kernel[2] - before[2]};
      bool inside = true;
      for (std::size_t a = 0; a < 3; ++a) inside = inside && from[a] >= 0 && from[a] < extents[a];
      for (std::int64_t o = 0; inside && o < co; ++o)
        for (std::int64_t i = 0; i < ci; ++i)
          exact[static_cast<std::size_t>((o * ci + i) * taps + tap)] +=
              static_cast<double>(src.view().at(0, i, from[0], from[1], from[2])) *
              static_cast<double>(diff.view().at(0, o, v[0], v[1], v[2]));
    }
  }
  WinogradWeightGradient::Geometry geometry() const { return {ci, co, kernel, window}; }
  std::vector<float> by_winograd(int threads, std::vector<float>& bias) const {
    WinogradWeightGradient gradient(geometry(), true, threads);
    const Spatial corner{-before[0], -before[1], -before[2]};
    gradient.add(
        {src.view().data, {extents[1] * extents[2] * ci, extents[2] * ci, ci}, extents, corner},
        diff.view(), diff.view().span, 0, true);
    std::vector<float> weight(exact.size());
    bias.resize(static_cast<std::size_t>(co));
    gradient.store_sums(weight.data(), bias.data());
    return weight;
  }
  std::vector<float> by_library() const {
    ConvolutionKernels kernels({DataType::kFloat32, DataType::kFloat32, false, false});
    const std::size_t number = kernels.add_backward_weights({src.view().span.shape(),
                                                             diff.view().span.shape(),
                                                             kernel,
                                                             {1, 1, 1},
                                                             {1, 1, 1},
                                                             before,
                                                             after});
    kernels.allocate({}, false);
    kernels.backward_weights(number, src.view().data, diff.view().data);
    std::vector<float> weight(exact.size());
    kernels.store_diff_weights(weight.data(), nullptr);
    return weight;
  }
  double largest() const {
    double most = 0;
    for (const double value : exact) most = std::max(most, std::abs(value));
    return most;
  }
  // Root of the mean square, and the largest.
  struct Errors {
    double rms = 0, largest = 0;
  };
  Errors errors_of(const std::vector<float>& weight) const {
    Errors errors;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double error = std::abs(static_cast<double>(weight[i]) - exact[i]);
      errors.largest = std::max(errors.largest, error);
      errors.rms += error * error;
    }
    errors.rms = std::sqrt(errors.rms / static_cast<double>(exact.size()));
    return errors;
  }
};

// Measured with AVX-512, relative to direct sums: rms 2.1 to 2.3 for kernel 2, less than 2 for
// kernels of 3, 3.7 to 5.6 with large windows: points are sums of several voxels, so that their
// products are larger than the result.
TEST_CASE("Winograd weight gradient errs little more than direct sums, on any threads") {
  // The last has more sums than a second-level cache holds, and several blocks of tiles.
  std::vector<Sample> samples;
  for (const Spatial& kernel : {Spatial{2, 2, 2}, Spatial{3, 3, 3}, Spatial{3, 1, 3}})
    for (const Spatial& extents : {Spatial{8, 8, 8}, Spatial{9, 7, 13}})
      samples.emplace_back(kernel, 32, 48, extents);
  samples.emplace_back(Spatial{3, 1, 3}, 128, 160, Spatial{20, 1, 21});
  for (const Spatial& kernel : {Spatial{3, 3, 3}, Spatial{3, 1, 3}})
    samples.emplace_back(kernel, 32, 48, Spatial{9, 7, 13}, true);
  std::int64_t compared = 0;
  for (const Sample& s : samples) {
    const Spatial &kernel = s.kernel, &extents = s.extents;
    const Sample::Errors direct = s.errors_of(s.by_library());
    for (const int threads : {1, 2, 4, 7}) {
      std::vector<float> bias;
      const Sample::Errors errors = s.errors_of(s.by_winograd(threads, bias));
      INFO(
          fmt::format("kernel {}x{}x{}, {} threads: rms {:.2f}, largest error {:.2f} of direct "
                      "sums'",
                      kernel[0], kernel[1], kernel[2], threads, errors.rms / direct.rms,
                      errors.largest / direct.largest));
      CHECK(direct.rms > 0);
      const double most = WinogradConvolution::is_large(s.geometry()) ? 6 : 3;
      CHECK(errors.rms <= most * direct.rms);
      CHECK(errors.largest <= most * direct.largest);
      CHECK(errors.largest < 1e-5 * s.largest());
      for (std::int64_t o = 0; o < s.co; ++o) {
        double sum = 0, magnitude = 0;
        for (std::int64_t v = 0; v < extents[0] * extents[1] * extents[2]; ++v) {
          const auto term = static_cast<double>(s.diff.view().data[v * s.co + o]);
          sum += term;
          magnitude += std::abs(term);
        }
        const auto terms = static_cast<double>(extents[0] * extents[1] * extents[2]);
        const auto got = static_cast<double>(bias[static_cast<std::size_t>(o)]);
        CHECK(std::abs(got - sum) <= terms * 0x1p-24 * magnitude);
        ++compared;
      }
    }
  }
  CHECK(compared == 4 * ((3 * 2 + 2) * 48 + 160));
}

TEST_CASE("Winograd weight gradient: further samples are added, and what it refuses") {
  const Sample s({3, 3, 3}, 16, 16, {4, 6, 4});
  WinogradWeightGradient gradient(s.geometry(), false, 2);
  const auto add = [&](bool first) {
    gradient.add({s.src.view().data, {6 * 4 * 16, 4 * 16, 16}, s.extents, {-1, -1, -1}},
                 s.diff.view(), s.diff.view().span, 0, first);
  };
  std::vector<float> once(s.exact.size()), twice(s.exact.size());
  add(true);
  gradient.store_sums(once.data(), nullptr);
  add(true);
  add(false);
  gradient.store_sums(twice.data(), nullptr);
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(twice[i] == 2 * once[i]);
  CHECK_FALSE(WinogradWeightGradient::supports({16, 17, {3, 3, 3}, {2, 2, 2}}));
  CHECK_THROWS_AS(WinogradWeightGradient({17, 16, {3, 3, 3}, {2, 2, 2}}, false, 1), Error);
}

}  // namespace
}  // namespace halomesh
