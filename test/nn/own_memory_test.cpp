// SPDX-License-Identifier: Apache-2.0
// Trials of the library's kernels: what they find, what follows from it, and that all kernels that
// are used without a trial pass it, on the instruction set in use.
#include "src/nn/onednn/own_memory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "error.hpp"
#include "src/nn/onednn/library.hpp"
#include "src/nn/onednn/onednn.hpp"
#include "src/nn/onednn/tap_products.hpp"

namespace halomesh {
namespace {

using onednn::KernelTrial;
using onednn::Library;
using onednn::plain;
using onednn::Tag;
using onednn::TapProducts;
using onednn::TrialMemory;
using onednn::TriedKernels;
using enum KernelTrial::Pass;

// A window along each axis, the same or turned.
ConvolutionGeometry windows(std::int64_t in, std::int64_t out, std::int64_t kernel,
                            std::int64_t stride, std::int64_t dilation, std::int64_t before,
                            std::int64_t after, std::int64_t groups = 1) {
  ConvolutionGeometry g;
  const Spatial extents{5, 4, 7};
  Spatial dst{};
  const std::int64_t reach = (kernel - 1) * dilation + 1;
  g.kernel = {kernel, kernel, kernel};
  g.stride = {stride, stride, stride};
  g.dilation = {dilation, dilation, dilation};
  g.pad_before = {before, after, before};
  g.pad_after = {after, before, before};
  g.groups = groups;
  for (std::size_t a = 0; a < 3; ++a)
    dst[a] = (extents[a] + g.pad_before[a] + g.pad_after[a] - reach) / stride + 1;
  g.src = {in, extents[0], extents[1], extents[2]};
  g.dst = {out, dst[0], dst[1], dst[2]};
  return g;
}

// A kernel of our own that computes a pass in fp32, plain layouts.
void compute(const KernelTrial& trial, const TrialMemory& at) {
  const ConvolutionGeometry& g = trial.geometry;
  auto* const src = reinterpret_cast<float*>(at[0]);
  auto* const weights = reinterpret_cast<float*>(at[1]);
  auto* const dst = reinterpret_cast<float*>(at[2]);
  auto* const bias = reinterpret_cast<float*>(at[3]);
  const std::int64_t taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  const std::int64_t ins = g.src.c / g.groups, outs = g.dst.c / g.groups;
  if (trial.pass == kForward)
    for (std::int64_t i = 0; i < g.dst.volume(); ++i) dst[i] = bias ? bias[i % g.dst.c] : 0;
  else if (trial.pass == kBackwardData)
    std::fill_n(src, g.src.volume(), 0.0F);
  else
    std::fill_n(weights, g.dst.c * ins * taps, 0.0F);
  if (trial.pass == kBackwardWeights && bias != nullptr) {
    std::fill_n(bias, g.dst.c, 0.0F);
    for (std::int64_t i = 0; i < g.dst.volume(); ++i) bias[i % g.dst.c] += dst[i];
  }
  const Spatial from = g.src.spatial(), to = g.dst.spatial();
  for (std::int64_t voxel = 0; voxel < g.dst.volume() / g.dst.c; ++voxel)
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const Spatial x{voxel / (to[1] * to[2]), voxel / to[2] % to[1], voxel % to[2]};
      const Spatial k{tap / (g.kernel[1] * g.kernel[2]), tap / g.kernel[2] % g.kernel[1],
                      tap % g.kernel[2]};
      std::int64_t pixel = 0;
      bool inside = true;
      for (std::size_t a = 0; a < 3; ++a) {
        const std::int64_t place = x[a] * g.stride[a] + k[a] * g.dilation[a] - g.pad_before[a];
        inside = inside && place >= 0 && place < from[a];
        pixel = pixel * from[a] + place;
      }
      if (!inside) continue;
      for (std::int64_t o = 0; o < g.dst.c; ++o)
        for (std::int64_t i = 0; i < ins; ++i) {
          float& s = src[pixel * g.src.c + o / outs * ins + i];
          float& w = weights[(o * ins + i) * taps + tap];
          float& d = dst[voxel * g.dst.c + o];
          if (trial.pass == kForward)
            d += s * w;
          else if (trial.pass == kBackwardData)
            s += d * w;
          else
            w += s * d;
        }
    }
}

KernelTrial own_trial(KernelTrial::Pass pass, const ConvolutionGeometry& g) {
  const auto data = [](const Shape& s) { return plain({1, s.c, s.d, s.h, s.w}, Tag::ndhwc); };
  const auto weights =
      g.groups == 1 ? plain({g.dst.c, g.src.c, g.kernel[0], g.kernel[1], g.kernel[2]}, Tag::oidhw)
                    : plain({g.groups, g.dst.c / g.groups, g.src.c / g.groups, g.kernel[0],
                             g.kernel[1], g.kernel[2]},
                            Tag::goidhw);
  const auto bias = plain({g.dst.c}, Tag::a);
  KernelTrial trial{
      "a kernel of our own",        pass, g, {0, data(g.src), data(g.src)}, {0, weights, weights},
      {0, data(g.dst), data(g.dst)}};
  if (pass != kBackwardData) trial.bias = {0, bias, bias};
  return trial;
}

using Tamper = std::function<void(const TrialMemory&, int repeat)>;

bool passes(const KernelTrial& trial, const Tamper& before, const Tamper& after) {
  int repeat = 0;
  return onednn::keeps_to_own_memory({}, trial, 256, [&](const TrialMemory& at) {
    if (before) before(at, repeat);
    compute(trial, at);
    if (after) after(at, repeat);
    ++repeat;
  });
}

std::vector<ConvolutionGeometry> own_geometries() {
  std::vector<ConvolutionGeometry> all;
  for (std::int64_t kernel = 1; kernel <= 3; ++kernel)
    for (std::int64_t stride = 1; stride <= 4; ++stride)
      for (std::int64_t dilation = 1; dilation <= (kernel == 1 ? 1 : 2); ++dilation)
        for (const std::int64_t groups : {1, 3})
          all.push_back(windows(3, 6, kernel, stride, dilation, kernel / 2, kernel - 1, groups));
  return all;
}

// What trials said of the library's kernels.
struct Verdicts {
  std::map<std::string, std::int64_t> right, wrong;
  std::string last_wrong;

  // Calls make() with a judge that refuses all kernels of trials with `pass` in their name, so that
  // all are tried.
  template <class Make>
  void try_all(std::string_view pass, const Make& make) {
    last_wrong = "none";
    const TriedKernels all("", [&](std::string_view kernel, std::string_view trial, bool is_right) {
      if (trial.find(pass) == std::string_view::npos) return true;
      ++(is_right ? right : wrong)[std::string(kernel)];
      if (!is_right && kernel.find("amx") == std::string_view::npos)
        last_wrong = fmt::format("{} in {}", kernel, trial);
      return false;
    });
    CHECK_THROWS_WITH_AS(make(), doctest::Contains("has no correct kernel"), Error);
    CHECK(last_wrong == "none");
  }
};

}  // namespace

TEST_SUITE_BEGIN("own memory");

TEST_CASE("a kernel of our own passes its trial in every pass") {
  for (const ConvolutionGeometry& g : own_geometries())
    for (const auto pass : {kForward, kBackwardData, kBackwardWeights}) {
      CAPTURE(g.kernel[0]);
      CAPTURE(g.stride[0]);
      CAPTURE(g.dilation[0]);
      CAPTURE(g.groups);
      CAPTURE(static_cast<int>(pass));
      CHECK(passes(own_trial(pass, g), {}, {}));
    }
}

TEST_CASE("what a kernel may not do fails its trial, also if it does so only once") {
  const ConvolutionGeometry g = windows(3, 5, 3, 2, 1, 1, 0);
  for (const auto pass : {kForward, kBackwardData, kBackwardWeights}) {
    CAPTURE(static_cast<int>(pass));
    const KernelTrial trial = own_trial(pass, g);
    const std::int64_t taps = 27;
    const std::array<std::int64_t, 3> sizes{g.src.volume(), g.src.c * g.dst.c * taps,
                                            g.dst.volume()};
    const std::size_t written = pass == kForward ? 2 : pass == kBackwardData ? 0 : 1;
    const auto floats = [](const TrialMemory& at, std::size_t i) {
      return reinterpret_cast<float*>(at[i]);
    };
    for (const int when : {0, 1, 2}) {
      CAPTURE(when);
      for (std::size_t i = 0; i < 3; ++i) {
        CAPTURE(i);
        const auto at_end = [&](std::int64_t place, float value) {
          return [=](const TrialMemory& at, int repeat) {
            if (repeat == when) floats(at, i)[place] = value;
          };
        };
        CHECK(!passes(trial, {}, at_end(-1, 0)));
        CHECK(!passes(trial, {}, at_end(sizes[i], 0)));
        CHECK(!passes(trial, {}, at_end(sizes[i] + 1000, 0)));
        CHECK(!passes(trial, {}, at_end(0, 77)));
        CHECK(!passes(trial, {}, at_end(sizes[i] - 1, 77)));
        // Reads what is not its own, times zero.
        const auto adds_next = [&](std::int64_t place) {
          return [=](const TrialMemory& at, int repeat) {
            if (repeat == when) floats(at, written)[0] += 0 * floats(at, i)[place];
          };
        };
        CHECK(!passes(trial, {}, adds_next(sizes[i])));
        CHECK(!passes(trial, {}, adds_next(-1)));
        CHECK(passes(trial, {}, adds_next(sizes[i] - 1)));
      }
      // Leaves something as it was, or takes it from the scratchpad.
      CHECK(!passes(trial, {}, [&](const TrialMemory& at, int repeat) {
        if (repeat == when) floats(at, written)[1] = std::numeric_limits<float>::quiet_NaN();
      }));
      CHECK(!passes(trial, {}, [&](const TrialMemory& at, int repeat) {
        if (repeat == when) floats(at, written)[1] += floats(at, 4)[0];
      }));
    }
  }
}

TEST_CASE("a kernel that is wrong is skipped for the next, and none is an error with its shape") {
  const ConvolutionGeometry g = windows(5, 16, 1, 1, 1, 0, 0);
  const std::vector<float> src(static_cast<std::size_t>(g.src.volume()), 1.0F), weight(5 * 16, 2),
      bias(16, 3);
  for (std::size_t wrong = 1; wrong <= 2; ++wrong) {
    std::vector<std::string> asked;
    const TriedKernels tried("",
                             [&](std::string_view implementation, std::string_view, bool right) {
                               CHECK(right);
                               asked.emplace_back(implementation);
                               return asked.size() > wrong;
                             });
    ConvolutionKernels kernels;
    kernels.add_forward(g);
    kernels.allocate();
    CHECK(asked.size() == wrong + 1);
    CHECK(kernels.implementations().at(0).ends_with(asked.back()));
    kernels.load_weights(weight.data(), bias.data());
    std::vector<float> dst(static_cast<std::size_t>(g.dst.volume()));
    kernels.forward(0, src.data(), dst.data());
    CHECK(std::all_of(dst.begin(), dst.end(), [](float x) { return x == 13; }));
  }
  const TriedKernels none("", [](std::string_view, std::string_view, bool) { return false; });
  ConvolutionKernels kernels;
  CHECK_THROWS_WITH_AS(kernels.add_forward(g),
                       doctest::Contains(("oneDNN " + onednn_version() +
                                          " has no correct kernel for convolution forward "
                                          "5x4x7x5")
                                             .c_str()),
                       Error);
}

TEST_CASE("only kernels with the name that is asked for are tried, each once") {
  const ConvolutionGeometry g = windows(7, 17, 3, 1, 1, 1, 1);
  std::int64_t asked = 0;
  const TriedKernels tried("no such kernel", [&](std::string_view, std::string_view, bool right) {
    ++asked;
    return right;
  });
  ConvolutionKernels().add_forward(g);
  CHECK(asked == 0);
  std::int64_t runs = 0;
  for (int i = 0; i < 3; ++i)
    CHECK(TriedKernels::may_use("with no such kernel in it", 0, "this test", 1,
                                [&] { return ++runs > 0; }));
  CHECK(runs == 1);
  CHECK(asked == 3);
}

TEST_CASE("every kernel of the library that needs no trial passes it") {
  MESSAGE("oneDNN ", onednn_version(), " on ", cpu_isa_name());
  constexpr std::int64_t kChannels[] = {1, 3, 5, 7, 16, 17, 32};
  Verdicts verdicts;
  std::size_t pair = 0;
  const bool has_bf16 = cpu_has_wide_vectors();
  for (std::int64_t kernel = 1; kernel <= 3; ++kernel)
    for (std::int64_t stride = 1; stride <= 4; ++stride)
      for (std::int64_t dilation = 1; dilation <= (kernel == 1 ? 1 : 2); ++dilation)
        for (std::int64_t before = 0; before < kernel; ++before)
          for (int repeat = 0; repeat < 4; ++repeat, ++pair) {
            const std::int64_t in = kChannels[pair % 7], out = kChannels[pair / 7 % 7];
            const ConvolutionGeometry g = windows(in, out, kernel, stride, dilation, before,
                                                  kernel / 2, in == out && repeat == 2 ? in : 1);
            for (const bool half : {false, true}) {
              if (half && !has_bf16) continue;
              ConvolutionForm form;
              form.compute = half ? DataType::kBfloat16 : DataType::kFloat32;
              form.dst = half && repeat % 2 == 0 ? DataType::kBfloat16 : DataType::kFloat32;
              form.own_layout = repeat == 3;
              form.widens_diff_src = repeat == 1;
              CAPTURE(in);
              CAPTURE(out);
              CAPTURE(kernel);
              CAPTURE(stride);
              CAPTURE(dilation);
              CAPTURE(before);
              CAPTURE(half);
              CAPTURE(form.own_layout);
              CAPTURE(g.groups);
              verdicts.try_all("", [&] { ConvolutionKernels(form).add_forward(g); });
              verdicts.try_all("", [&] { ConvolutionKernels(form).add_backward_data(g); });
              verdicts.try_all("", [&] { ConvolutionKernels(form).add_backward_weights(g); });
            }
          }
  for (const std::int64_t in : kChannels)
    for (const std::int64_t out : kChannels) {
      for (const char* const pass : {"forward", "backward_data", "backward_weights"})
        verdicts.try_all(pass, [&] { InnerProductKernels(in + 1, in, out, out % 2 == 0, true); });
      const ConvolutionGeometry g = windows(in, out, 3, 1, 2, 2, 2);
      std::vector<std::string> names;
      for (const auto role : {TapProducts::Role::kForward, TapProducts::Role::kBackwardData})
        verdicts.try_all("", [&] { TapProducts(g, role, names); });
      for (const auto type : {DataType::kFloat32, DataType::kBfloat16})
        if (type == DataType::kFloat32 || has_bf16)
          verdicts.try_all("", [&] { TapGradients(g, type, false); });
    }
  for (const auto& [name, times] : verdicts.right) MESSAGE(name, ": ", times, " right");
  for (const auto& [name, times] : verdicts.wrong) MESSAGE(name, ": ", times, " wrong, skipped");
  CHECK(verdicts.right.size() > 3);
}

TEST_SUITE_END();

}  // namespace halomesh
