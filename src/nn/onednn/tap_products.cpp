// SPDX-License-Identifier: Apache-2.0
// A convolution as products: see onednn_tap_products.hpp.
#include "src/nn/onednn/tap_products.hpp"

#include <algorithm>
#include <string_view>

#include "src/nn/onednn/own_memory.hpp"
#include "src/nn/pack.hpp"

namespace halomesh::onednn {
namespace {

constexpr Spatial kOnes{1, 1, 1};

std::int64_t taps_in(const Spatial& kernel) { return kernel[0] * kernel[1] * kernel[2]; }

}  // namespace

// Decided by measurements on a Zen 3, where the library's kernels (2.6.3) reach 25 to 60 % of the
// peak: with dilations of 6, 12 and 18 on 12x18 voxels, 2048 to 256 channels, products take 0.5,
// 0.2 and 0.1 of their time; with stride 2x1x2 and a kernel of 3x1x3 on 48x72 voxels of 256
// channels, 0.5.
bool TapProducts::pay(const ConvolutionGeometry& g, Role role) {
  constexpr std::int64_t kLeastChannels = 64, kLeastStridedChannels = 128, kLeastVoxels = 1024;
  const std::int64_t channels = std::min(g.src.c, g.dst.c);
#if defined(__x86_64__)
  constexpr bool kGenerated = true;
#else
  constexpr bool kGenerated = false;  // whether the library generates matrix products
#endif
  if (!kGenerated || g.groups != 1 || channels < kLeastChannels) return false;
  if (g.stride != kOnes)
    return role == Role::kForward && !cpu_has_wide_vectors() && channels >= kLeastStridedChannels &&
           g.dst.volume() >= kLeastVoxels * g.dst.c;
  if (g.dilation == kOnes) return false;
  std::int64_t products = 0;
  for (const ConvolutionTap& tap : taps_of(g)) products += tap.dst.volume();
  return 4 * products <= 3 * taps_in(g.kernel) * g.dst.volume();
}

TapProducts::TapProducts(const ConvolutionGeometry& geometry, Role role,
                         std::vector<std::string>& names)
    : geometry_(geometry), role_(role) {
  dnnl::post_ops adds;
  adds.append_sum();
  lib_.attr.set_post_ops(adds);
  const bool forward = role == Role::kForward;
  const std::int64_t from = forward ? geometry.src.c : geometry.dst.c;
  const std::int64_t to = forward ? geometry.dst.c : geometry.src.c;
  for (const ConvolutionTap& tap : taps_of(geometry)) {
    taps_.push_back({tap, make_product(tap, names)});
    from_floats_ = std::max(from_floats_, voxels(tap) * from);
    if (!is_whole(tap)) result_floats_ = std::max(result_floats_, voxels(tap) * to);
  }
}

// Whether the tap's voxels are all that the pass writes.
bool TapProducts::is_whole(const ConvolutionTap& tap) const {
  return role_ == Role::kForward ? tap.dst == Box::whole(geometry_.dst)
                                 : reads_whole_src(geometry_, tap);
}

// A product that adds src * weights^T to dst, or diff_dst * weights to diff_src.
Call TapProducts::make_product(const ConvolutionTap& tap, std::vector<std::string>& names) const {
  const bool forward = role_ == Role::kForward;
  const std::int64_t in = geometry_.src.c, out = geometry_.dst.c, count = voxels(tap);
  const memory::desc from = plain({count, forward ? in : out}, Tag::ab);
  const memory::desc weights = forward ? plain({in, out}, Tag::ba) : plain({out, in}, Tag::ab);
  const memory::desc to = plain({count, forward ? out : in}, Tag::ab);
  const char* const role = forward ? "forward" : "backward_data";
  const std::string name =
      fmt::format("{} of tap {} of {} -> {}", role, tap.number, geometry_.src, geometry_.dst);
  return guarded(
      [&] { return std::string_view(name); },
      [&]() -> Call {
        using enum KernelTrial::Pass;
        const TriedArgument read{DNNL_ARG_SRC, from, from}, written{DNNL_ARG_DST, to, to};
        const KernelTrial trial{name,
                                forward ? kForward : kBackwardData,
                                {{in, 1, 1, count}, {out, 1, 1, count}},
                                forward ? read : written,
                                {DNNL_ARG_WEIGHTS, weights, weights},
                                forward ? written : read,
                                {},
                                true};
        const auto pd =
            first_right(name, describe<dnnl::matmul>(lib_, from, weights, to),
                        [&](const auto& made, int number) {
                          return may_use_kernel<dnnl::matmul>(lib_, made, number, trial);
                        });
        add_name(names, fmt::format("{} fp32 by taps", role), pd.impl_info_str());
        return {lib_,
                name,
                make_primitive<dnnl::matmul>(pd),
                pd,
                {{DNNL_ARG_SRC, from}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, to}}};
      });
}

void TapProducts::mark_taps(std::vector<bool>& used) const {
  used.resize(static_cast<std::size_t>(taps_in(geometry_.kernel)));
  for (const Tap& tap : taps_) used[static_cast<std::size_t>(tap.number)] = true;
}

std::int64_t TapProducts::scratch_bytes() const {
  std::int64_t bytes = 0;
  for (const Tap& tap : taps_) bytes = std::max(bytes, tap.product.scratchpad_bytes());
  return whole_lines(from_floats_ * size_of(DataType::kFloat32)) +
         whole_lines(result_floats_ * size_of(DataType::kFloat32)) + bytes;
}

const float* TapProducts::dense_from(const ConvolutionTap& tap, const float* from,
                                     float* scratch) const {
  if (role_ == Role::kForward)
    return reinterpret_cast<const float*>(
        dense_src(geometry_, tap, geometry_.src.c * size_of(DataType::kFloat32),
                  reinterpret_cast<const std::byte*>(from), reinterpret_cast<std::byte*>(scratch)));
  if (tap.dst == Box::whole(geometry_.dst)) return from;
  pack({reinterpret_cast<const std::byte*>(from), DataType::kFloat32, Box::whole(geometry_.dst), 1},
       tap.dst, reinterpret_cast<std::byte*>(scratch));
  return scratch;
}

// Adds the results of one tap; different voxels go to different places.
void TapProducts::add(const ConvolutionTap& tap, const float* result, float* to) const {
  const bool forward = role_ == Role::kForward;
  const std::int64_t channels = forward ? geometry_.dst.c : geometry_.src.c;
  visit_tap(geometry_, tap, channels, [&](std::int64_t at, std::int64_t dst, std::int64_t src) {
    const float* __restrict const term = result + at * channels;
    float* __restrict const sum = to + (forward ? dst : src) * channels;
    for (std::int64_t c = 0; c < channels; ++c) sum[c] += term[c];
  });
}

void TapProducts::run(const float* from, const float* weights, const float* bias, float* to,
                      std::byte* scratch) {
  const bool forward = role_ == Role::kForward;
  const Shape& written = forward ? geometry_.dst : geometry_.src;
  const std::int64_t pairs = geometry_.src.c * geometry_.dst.c;
  const std::int64_t pixels = written.volume() / written.c;
#pragma omp parallel for schedule(static) if (written.volume() > 65536)
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
    if (bias != nullptr)
      std::copy_n(bias, written.c, to + pixel * written.c);
    else
      std::fill_n(to + pixel * written.c, written.c, 0.0F);
  auto* const dense = reinterpret_cast<float*>(scratch);
  std::byte* at = scratch + whole_lines(from_floats_ * size_of(DataType::kFloat32));
  auto* const result = reinterpret_cast<float*>(at);
  at += whole_lines(result_floats_ * size_of(DataType::kFloat32));
  for (Tap& tap : taps_) {
    float* const sum = is_whole(tap) ? to : result;
    if (sum == result) std::fill_n(result, voxels(tap) * written.c, 0.0F);
    tap.product.bind_scratchpad(at);
    tap.product.bind(DNNL_ARG_SRC, dense_from(tap, from, dense))
        .bind(DNNL_ARG_WEIGHTS, weights + tap.number * pairs)
        .bind(DNNL_ARG_DST, sum)
        .run(lib_);
    if (sum == result) add(tap, result, to);
  }
}

void pack_by_taps(const float* weight, std::int64_t pairs, const std::vector<bool>& used,
                  float* to) {
  const auto taps = static_cast<std::int64_t>(used.size());
  constexpr std::int64_t kBlock = 1024;  // weights of a block stay in a first-level cache
#pragma omp parallel for schedule(static) if (pairs * taps > 65536)
  for (std::int64_t begin = 0; begin < pairs; begin += kBlock)
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      if (!used[static_cast<std::size_t>(tap)]) continue;
      const std::int64_t end = std::min(pairs, begin + kBlock);
      for (std::int64_t pair = begin; pair < end; ++pair)
        to[tap * pairs + pair] = weight[pair * taps + tap];
    }
}

}  // namespace halomesh::onednn
