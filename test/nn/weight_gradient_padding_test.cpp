// SPDX-License-Identifier: Apache-2.0
// Weight gradients under any padding read nothing beside their input: all windows of up to 5 planes
// on up to 5, along d and along h (by taps, along w, too), on one thread (generated kernels share
// planes among threads).
#include <doctest/doctest.h>
#include <omp.h>

#include <cstring>
#include <limits>
#include <vector>

#include "src/nn/onednn/library.hpp"
#include "src/nn/onednn/onednn.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kChannels = 16, kOther = 2;

// Small integers, of which every sum is exact in either type.
float value(std::int64_t i, std::int64_t of) {
  const std::int64_t integer = i * i % of - of / 2;
  return static_cast<float>(integer);
}

// Values in the memory of a type, with NaN before and behind them.
class Guarded {
 public:
  Guarded(std::int64_t size, std::int64_t of, DataType type)
      : bytes_(static_cast<std::size_t>((size + 2 * kGuard) * size_of(type))),
        begin_(bytes_.data() + kGuard * size_of(type)) {
    for (std::int64_t i = -kGuard; i < size + kGuard; ++i) {
      const bool inside = i >= 0 && i < size;
      const float x = inside ? value(i, of) : std::numeric_limits<float>::quiet_NaN();
      const Bfloat16 half(x);
      std::byte* const at = begin_ + i * size_of(type);
      if (type == DataType::kBfloat16)
        std::memcpy(at, &half, sizeof half);
      else
        std::memcpy(at, &x, sizeof x);
    }
  }
  const std::byte* data() const { return begin_; }

 private:
  static constexpr std::int64_t kGuard = 4096;
  std::vector<std::byte> bytes_;
  std::byte* begin_;
};

// The window of one axis on an extent; the others have kernel 1.
ConvolutionGeometry along(std::size_t axis, std::int64_t extent, std::int64_t kernel,
                          std::int64_t stride, std::int64_t before, std::int64_t after) {
  ConvolutionGeometry g;
  g.kernel[axis] = kernel;
  g.stride[axis] = stride;
  g.pad_before[axis] = before;
  g.pad_after[axis] = after;
  Spatial src{kOther, kOther, kOther}, dst = src;
  src[axis] = extent;
  dst[axis] = (extent + before + after - kernel) / stride + 1;
  g.src = {kChannels, src[0], src[1], src[2]};
  g.dst = {kChannels, dst[0], dst[1], dst[2]};
  return g;
}

std::vector<float> naive(const ConvolutionGeometry& g, std::size_t axis) {
  const std::int64_t taps = g.kernel[axis];
  std::vector<float> sums(static_cast<std::size_t>(kChannels * kChannels * taps));
  const auto pixel = [](const Shape& s, const Spatial& at) {
    return ((at[0] * s.h + at[1]) * s.w + at[2]) * s.c;
  };
  for (std::int64_t d = 0; d < g.dst.d; ++d)
    for (std::int64_t h = 0; h < g.dst.h; ++h)
      for (std::int64_t w = 0; w < g.dst.w; ++w)
        for (std::int64_t t = 0; t < taps; ++t) {
          Spatial from{d, h, w};
          from[axis] = from[axis] * g.stride[axis] - g.pad_before[axis] + t;
          if (from[axis] < 0 || from[axis] >= g.src.spatial()[axis]) continue;
          const std::int64_t src = pixel(g.src, from), dst = pixel(g.dst, {d, h, w});
          for (std::int64_t o = 0; o < kChannels; ++o)
            for (std::int64_t i = 0; i < kChannels; ++i)
              sums[static_cast<std::size_t>((o * kChannels + i) * taps + t)] +=
                  value(src + i, 5) * value(dst + o, 3);
        }
  return sums;
}

void expect_equal(const std::vector<float>& got, const ConvolutionGeometry& g, std::size_t axis,
                  DataType type, const char* kernels) {
  CHECK_MESSAGE(got == naive(g, axis), kernels, ", ", name_of(type), ", axis ", axis, ", kernel ",
                g.kernel[axis], " stride ", g.stride[axis], " on ", g.src.spatial()[axis],
                ", padding ", g.pad_before[axis], " and ", g.pad_after[axis]);
}

void expect_weights(const ConvolutionGeometry& g, std::size_t axis, DataType type) {
  ConvolutionKernels kernels({type, type, false, false});
  kernels.add_backward_weights(g);
  kernels.allocate({}, false);
  const Guarded src(g.src.volume(), 5, type), diff(g.dst.volume(), 3, type);
  std::vector<float> got(static_cast<std::size_t>(kChannels * kChannels * g.kernel[axis]));
  kernels.backward_weights(0, src.data(), diff.data());
  kernels.store_diff_weights(got.data(), nullptr);
  expect_equal(got, g, axis, type, "the library's kernel");
}

void expect_weights_by_taps(const ConvolutionGeometry& g, std::size_t axis, DataType type) {
  TapGradients taps(g, type, false);
  Scratch scratch;
  taps.take(scratch);
  const Guarded src(g.src.volume(), 5, type), diff(g.dst.volume(), 3, type);
  std::vector<float> got(static_cast<std::size_t>(kChannels * kChannels * g.kernel[axis]));
  taps.add(src.data(), diff.data());
  taps.store(got.data(), nullptr);
  expect_equal(got, g, axis, type, "taps");
}

// Of all windows along the axes. Returns how many there were.
std::int64_t for_each_window(const std::vector<std::size_t>& axes,
                             void (*expect)(const ConvolutionGeometry&, std::size_t, DataType)) {
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  std::int64_t compared = 0;
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16})
    for (const std::size_t axis : axes)
      for (std::int64_t kernel = 2; kernel <= 5; ++kernel)
        for (std::int64_t stride = 1; stride <= 3; ++stride)
          for (std::int64_t extent = 1; extent <= 5; ++extent)
            for (std::int64_t before = 0; before < kernel; ++before)
              for (std::int64_t after = 0; after < kernel; ++after) {
                if (extent + before + after < kernel) continue;
                if (type == DataType::kBfloat16 && !cpu_computes_bf16()) continue;
                expect(along(axis, extent, kernel, stride, before, after), axis, type);
                ++compared;
              }
  omp_set_num_threads(threads);
  return compared;
}

TEST_CASE("weight gradients read nothing beside their input, whatever the padding") {
  CHECK(for_each_window({0, 1}, expect_weights) > 1000);
}

TEST_CASE("weight gradients tap by tap equal naive sums for any stride, and read nothing else") {
  CHECK(for_each_window({0, 1, 2}, expect_weights_by_taps) > 1500);
}

}  // namespace
}  // namespace halomesh
