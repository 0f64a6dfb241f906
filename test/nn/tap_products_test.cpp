// SPDX-License-Identifier: Apache-2.0
// Convolutions as products of taps equal naive loops over all small windows, and read nothing
// beside their input.
#include "src/nn/onednn/tap_products.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

namespace halomesh {
namespace {

using onednn::TapProducts;

constexpr std::int64_t kIn = 3, kOut = 5;

// Small integers, of which every sum is exact.
float value(std::int64_t i, std::int64_t of) { return static_cast<float>(i * i % of - of / 2); }

std::vector<float> values(std::int64_t size, std::int64_t of) {
  std::vector<float> all;
  for (std::int64_t i = 0; i < size; ++i) all.push_back(value(i, of));
  return all;
}

struct Results {
  std::vector<float> dst, diff_src;
};

std::int64_t taps_in(const Spatial& kernel) { return kernel[0] * kernel[1] * kernel[2]; }

Results naive(const ConvolutionGeometry& g, const std::vector<float>& src,
              const std::vector<float>& diff_dst, const std::vector<float>& weight,
              const std::vector<float>& bias) {
  Results r;
  r.diff_src.resize(static_cast<std::size_t>(g.src.volume()));
  const Spatial extents = g.src.spatial();
  const std::int64_t taps = taps_in(g.kernel);
  std::int64_t voxel = 0;
  for (std::int64_t d = 0; d < g.dst.d; ++d)
    for (std::int64_t h = 0; h < g.dst.h; ++h)
      for (std::int64_t w = 0; w < g.dst.w; ++w, ++voxel) {
        std::vector<float> sums = bias;
        for (std::int64_t tap = 0; tap < taps; ++tap) {
          const Spatial at{tap / (g.kernel[1] * g.kernel[2]), tap / g.kernel[2] % g.kernel[1],
                           tap % g.kernel[2]};
          Spatial from{d, h, w};
          bool inside = true;
          for (std::size_t a = 0; a < 3; ++a) {
            from[a] = from[a] * g.stride[a] + at[a] * g.dilation[a] - g.pad_before[a];
            inside = inside && from[a] >= 0 && from[a] < extents[a];
          }
          if (!inside) continue;
          const std::int64_t pixel = (from[0] * extents[1] + from[1]) * extents[2] + from[2];
          for (std::int64_t o = 0; o < kOut; ++o)
            for (std::int64_t i = 0; i < kIn; ++i) {
              const float factor = weight[static_cast<std::size_t>((o * kIn + i) * taps + tap)];
              const auto src_at = static_cast<std::size_t>(pixel * kIn + i);
              sums[static_cast<std::size_t>(o)] += factor * src[src_at];
              r.diff_src[src_at] += factor * diff_dst[static_cast<std::size_t>(voxel * kOut + o)];
            }
        }
        r.dst.insert(r.dst.end(), sums.begin(), sums.end());
      }
  return r;
}

std::vector<float> run(const ConvolutionGeometry& g, TapProducts::Role role,
                       const std::vector<float>& from, const std::vector<float>& weight,
                       const float* bias, std::int64_t size) {
  std::vector<std::string> names;
  TapProducts products(g, role, names);
  std::vector<bool> used;
  products.mark_taps(used);
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> packed(weight.size(), kNaN), to(static_cast<std::size_t>(size), kNaN);
  onednn::pack_by_taps(weight.data(), kIn * kOut, used, packed.data());
  AlignedBuffer<std::byte> scratch(products.scratch_bytes());
  std::fill_n(reinterpret_cast<float*>(scratch.data()), scratch.size() / 4, kNaN);
  products.run(from.data(), packed.data(), bias, to.data(), scratch.data());
  return to;
}

// One axis has the given window, the next a padded kernel of 3, the last a kernel of 1.
void expect_products(std::size_t axis, std::int64_t extent, std::int64_t kernel,
                     std::int64_t stride, std::int64_t dilation, std::int64_t before,
                     std::int64_t after) {
  ConvolutionGeometry g;
  Spatial src{2, 2, 2}, dst{2, 2, 2};
  const std::size_t other = (axis + 1) % 3;
  g.kernel[other] = 3;
  g.pad_before[other] = g.pad_after[other] = 1;
  g.kernel[axis] = kernel;
  g.stride[axis] = stride;
  g.dilation[axis] = dilation;
  g.pad_before[axis] = before;
  g.pad_after[axis] = after;
  src[axis] = extent;
  dst[axis] = (extent + before + after - (kernel - 1) * dilation - 1) / stride + 1;
  g.src = {kIn, src[0], src[1], src[2]};
  g.dst = {kOut, dst[0], dst[1], dst[2]};
  CAPTURE(axis);
  CAPTURE(extent);
  CAPTURE(kernel);
  CAPTURE(stride);
  CAPTURE(dilation);
  CAPTURE(before);
  CAPTURE(after);
  const std::vector<float> from = values(g.src.volume(), 5), diff = values(g.dst.volume(), 7);
  const std::vector<float> weight = values(kIn * kOut * taps_in(g.kernel), 11);
  const std::vector<float> bias = values(kOut, 3);
  const Results exact = naive(g, from, diff, weight, bias);
  using enum TapProducts::Role;
  CHECK(run(g, kForward, from, weight, bias.data(), g.dst.volume()) == exact.dst);
  CHECK(run(g, kBackwardData, diff, weight, nullptr, g.src.volume()) == exact.diff_src);
}

TEST_CASE("products of taps equal naive loops over all small windows") {
  std::int64_t compared = 0;
  for (std::size_t axis = 0; axis < 3; ++axis)
    for (std::int64_t kernel = 1; kernel <= 3; ++kernel)
      for (std::int64_t stride = 1; stride <= 2; ++stride)
        for (std::int64_t dilation = 1; dilation <= 3; ++dilation)
          for (std::int64_t extent = 1; extent <= 4; ++extent) {
            const std::int64_t reach = (kernel - 1) * dilation;
            for (std::int64_t before = 0; before <= reach; before += 2)
              for (std::int64_t after = 0; after <= reach; ++after) {
                if (extent + before + after <= reach) continue;
                expect_products(axis, extent, kernel, stride, dilation, before, after);
                ++compared;
              }
          }
  CHECK(compared > 500);
}

TEST_CASE("products of taps pay where a dilation meets much padding") {
  ConvolutionGeometry g;
  g.src = g.dst = {64, 12, 1, 18};
  g.kernel = {3, 1, 3};
  g.dilation = {6, 1, 6};
  g.pad_before = g.pad_after = {6, 0, 6};
  using enum TapProducts::Role;
#if defined(__x86_64__)
  for (const auto role : {kForward, kBackwardData}) {
    CHECK(TapProducts::pay(g, role));
    ConvolutionGeometry other = g;
    other.src.c = 63;
    CHECK(!TapProducts::pay(other, role));
    other = g;
    other.dilation = {1, 1, 1};
    CHECK(!TapProducts::pay(other, role));
    other = g;
    other.dilation = {2, 1, 2};
    other.pad_before = other.pad_after = {2, 0, 2};
    CHECK(!TapProducts::pay(other, role));
    other = g;
    other.groups = 2;
    CHECK(!TapProducts::pay(other, role));
  }
#else
  CHECK(!TapProducts::pay(g, kForward));
#endif
}

}  // namespace
}  // namespace halomesh
