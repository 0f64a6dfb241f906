// SPDX-License-Identifier: Apache-2.0
// Weight gradients of convolutions as matrix products: see onednn.hpp.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "box.hpp"
#include "src/nn/convolution_taps.hpp"
#include "src/nn/first_touch.hpp"
#include "src/nn/onednn/call.hpp"
#include "src/nn/onednn/onednn.hpp"
#include "src/nn/onednn/own_memory.hpp"
#include "src/nn/pack.hpp"

namespace halomesh {

using namespace onednn;

struct TapGradients::Impl {
  struct Tap : ConvolutionTap {
    Call product;
  };

  ConvolutionGeometry geometry;
  DataType compute;
  bool with_bias;
  Library lib;
  std::vector<std::string> names;
  std::vector<Tap> taps;
  bool used = false;
  // Sums of each tap, in the order of `taps`: out,in; then the buffers of one product.
  ScratchBuffer<float> sums;
  ScratchBuffer<std::byte> src_scratch, dst_scratch, scratchpad;
  std::vector<double> bias_sums;

  std::int64_t pairs() const { return geometry.dst.c * geometry.src.c; }
  void add_taps();
  Call make_product(const std::string& name, std::int64_t voxels);
  void add_bias(AnyConstView diff_dst);
};

void TapGradients::Impl::add_taps() {
  for (const ConvolutionTap& tap : taps_of(geometry)) {
    const std::string name = fmt::format("weight gradient of tap {} of {} -> {}", tap.number,
                                         geometry.src, geometry.dst);
    taps.push_back({tap, make_product(name, tap.dst.volume() / geometry.dst.c)});
  }
}

// A product that adds diff_dst[voxel][out]^T * src[voxel][in] to sum[out][in].
Call TapGradients::Impl::make_product(const std::string& name, std::int64_t voxels) {
  return guarded(
      [&] { return std::string_view(name); },
      [&]() -> Call {
        const memory::desc left = plain({geometry.dst.c, voxels}, Tag::ba, compute);
        const memory::desc right = plain({voxels, geometry.src.c}, Tag::ab, compute);
        const memory::desc sum = plain({geometry.dst.c, geometry.src.c}, Tag::ab);
        const memory::desc plain_left = plain({geometry.dst.c, voxels}, Tag::ba);
        const memory::desc plain_right = plain({voxels, geometry.src.c}, Tag::ab);
        const KernelTrial trial{name,
                                KernelTrial::Pass::kBackwardWeights,
                                {{geometry.src.c, 1, 1, voxels}, {geometry.dst.c, 1, 1, voxels}},
                                {DNNL_ARG_WEIGHTS, plain_right, right, compute},
                                {DNNL_ARG_DST, sum, sum},
                                {DNNL_ARG_SRC, plain_left, left, compute},
                                {},
                                true};
        const auto pd = first_right(name, describe<dnnl::matmul>(lib, left, right, sum),
                                    [&](const auto& made, int number) {
                                      return may_use_kernel<dnnl::matmul>(lib, made, number, trial);
                                    });
        add_name(names, fmt::format("backward_weights {} by taps", name_of(compute)),
                 pd.impl_info_str());
        return {lib,
                name,
                make_primitive<dnnl::matmul>(pd),
                pd,
                {{DNNL_ARG_SRC, left}, {DNNL_ARG_WEIGHTS, right}, {DNNL_ARG_DST, sum}}};
      });
}

void TapGradients::Impl::add_bias(AnyConstView diff_dst) {
  const std::int64_t out = geometry.dst.c, voxels = geometry.dst.volume() / out;
  const auto add = [&](const auto* values) {
    for (std::int64_t v = 0; v < voxels; ++v)
      for (std::int64_t o = 0; o < out; ++o)
        bias_sums[static_cast<std::size_t>(o)] += static_cast<double>(float{values[v * out + o]});
  };
  if (compute == DataType::kBfloat16)
    add(diff_dst.as<Bfloat16>().data);
  else
    add(diff_dst.as<float>().data);
}

TapGradients::TapGradients(const ConvolutionGeometry& geometry, DataType compute, bool bias)
    : impl_(std::make_unique<Impl>()) {
  Impl& impl = *impl_;
  impl.geometry = geometry;
  impl.compute = compute;
  impl.with_bias = bias;
  if (bias) impl.bias_sums.resize(static_cast<std::size_t>(geometry.dst.c));
  dnnl::post_ops adds;
  adds.append_sum();
  impl.lib.attr.set_post_ops(adds);
  impl.add_taps();
}
TapGradients::~TapGradients() = default;
TapGradients::TapGradients(TapGradients&&) noexcept = default;
TapGradients& TapGradients::operator=(TapGradients&&) noexcept = default;

namespace {

// Whether products take less time than the library's kernels for dense or strided convolutions.
// Without wide vectors, those are also products, of copies of src for all taps. On a Zen 3, U-Nets'
// convolutions from 32 to 640 channels, with strides or on at least 4x4x4 voxels, take 0.5 to 0.9
// of their time by taps, transposed ones 0.2 to 0.4. On a Zen 5, a transposed convolution of 256
// channels (kernel 3x1x3, stride 2x1x2) takes a quarter of the time on 3456 voxels and equal time
// on 864; in bf16, and for convolutions from 32 to 256 channels with kernels of 3x3x3, taps take up
// to 2.4 times as long.
bool cost_less(const ConvolutionGeometry& geometry, DataType compute) {
  const bool wide = cpu_has_wide_vectors();
  return compute == DataType::kFloat32 && geometry.groups == 1 &&
         std::min(geometry.src.c, geometry.dst.c) >= (wide ? 128 : 32) &&
         geometry.dst.volume() >= (wide ? 1024 : 64) * geometry.dst.c;
}

}  // namespace

bool TapGradients::suits(const ConvolutionGeometry& geometry, DataType compute) {
  constexpr Spatial kOnes{1, 1, 1};
  const bool dilated = geometry.stride == kOnes && geometry.dilation != kOnes;
  return (geometry.groups == 1 && dilated) ||
         (!cpu_has_wide_vectors() && cost_less(geometry, compute));
}

bool TapGradients::suits_transposed(const ConvolutionGeometry& geometry, DataType compute) {
  return geometry.stride != Spatial{1, 1, 1} && cost_less(geometry, compute);
}

void TapGradients::take(Scratch& scratch) {
  Impl& impl = *impl_;
  std::int64_t src = 0, dst = 0, bytes = 0;
  for (const Impl::Tap& tap : impl.taps) {
    if (!reads_whole_src(impl.geometry, tap))
      src = std::max(src, tap.dst.volume() / impl.geometry.dst.c * impl.geometry.src.c);
    if (tap.dst != Box::whole(impl.geometry.dst)) dst = std::max(dst, tap.dst.volume());
    bytes = std::max(bytes, tap.product.scratchpad_bytes());
  }
  impl.sums = scratch.take<float>(std::ssize(impl.taps) * impl.pairs());
  impl.src_scratch = scratch.take<std::byte>(src * size_of(impl.compute));
  impl.dst_scratch = scratch.take<std::byte>(dst * size_of(impl.compute));
  impl.scratchpad = scratch.take<std::byte>(bytes);
}

void TapGradients::add(const void* src, const void* diff_dst) {
  Impl& impl = *impl_;
  const AnyConstView to(static_cast<const std::byte*>(diff_dst), impl.compute,
                        Box::whole(impl.geometry.dst), 1);
  const auto dense_dst = [&](const Box& box) {
    if (box == to.span) return to.data;
    pack(to, box, impl.dst_scratch.data());
    return static_cast<const std::byte*>(impl.dst_scratch.data());
  };
  if (!impl.used) {
    clear_by_threads(impl.sums.data(), static_cast<std::size_t>(impl.sums.size()) * sizeof(float));
    std::fill(impl.bias_sums.begin(), impl.bias_sums.end(), 0.0);
  }
  impl.used = true;
  float* sum = impl.sums.data();
  for (Impl::Tap& tap : impl.taps) {
    tap.product.bind_scratchpad(impl.scratchpad.data());
    tap.product.bind(DNNL_ARG_SRC, dense_dst(tap.dst))
        .bind(DNNL_ARG_WEIGHTS,
              dense_src(impl.geometry, tap, impl.geometry.src.c * size_of(impl.compute),
                        static_cast<const std::byte*>(src), impl.src_scratch.data()))
        .bind(DNNL_ARG_DST, sum)
        .run(impl.lib);
    sum += impl.pairs();
  }
  if (impl.with_bias) impl.add_bias(to);
}

void TapGradients::store(float* diff_weight, float* diff_bias) {
  Impl& impl = *impl_;
  const Spatial& kernel = impl.geometry.kernel;
  const std::int64_t all = kernel[0] * kernel[1] * kernel[2], pairs = impl.pairs();
  const std::int64_t in = impl.geometry.src.c, count = std::ssize(impl.taps);
  const float* const sums = impl.sums.data();
#pragma omp parallel for schedule(static) if (pairs > 4096)
  for (std::int64_t o = 0; o < impl.geometry.dst.c; ++o) {
    float* const row = diff_weight + o * in * all;
    std::fill_n(row, in * all, 0.0F);  // taps that read only padding
    for (std::int64_t i = 0; i < in; ++i)
      for (std::int64_t t = 0; t < count; ++t)
        row[i * all + impl.taps[static_cast<std::size_t>(t)].number] = sums[t * pairs + o * in + i];
  }
  for (std::size_t o = 0; o < impl.bias_sums.size(); ++o)
    diff_bias[o] = static_cast<float>(impl.bias_sums[o]);
  impl.used = false;
}

const std::vector<std::string>& TapGradients::implementations() const { return impl_->names; }

}  // namespace halomesh
