// SPDX-License-Identifier: Apache-2.0
// Weight gradients of dilated convolutions as matrix products: see onednn.hpp.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "box.hpp"
#include "src/nn/first_touch.hpp"
#include "src/nn/onednn.hpp"
#include "src/nn/onednn_call.hpp"
#include "src/nn/pack.hpp"

namespace halomesh {

using namespace onednn;

struct TapGradients::Impl {
  // A tap some of whose src elements are not padding.
  struct Tap {
    std::int64_t number = 0;  // in the order kd,kh,kw
    Box src, dst;             // as many voxels of each, in blocks at 0
    Call product;
  };

  ConvolutionGeometry geometry;
  DataType compute;
  bool with_bias;
  Library lib;
  std::vector<std::string> names;
  std::vector<Tap> taps;
  bool used = false;
  // Of each tap, in the order of `taps`: out,in. Behind it, what one product reads.
  ScratchBuffer<float> sums;
  ScratchBuffer<std::byte> src_scratch, dst_scratch, scratchpad;
  std::vector<double> bias_sums;

  std::int64_t pairs() const { return geometry.dst.c * geometry.src.c; }
  void add_taps();
  Call make_product(const std::string& name, std::int64_t voxels);
  void add_bias(AnyConstView diff_dst);
};

void TapGradients::Impl::add_taps() {
  const Spatial& kernel = geometry.kernel;
  const Spatial src = geometry.src.spatial(), dst = geometry.dst.spatial();
  std::int64_t number = 0;
  Spatial tap{};
  for (tap[0] = 0; tap[0] < kernel[0]; ++tap[0])
    for (tap[1] = 0; tap[1] < kernel[1]; ++tap[1])
      for (tap[2] = 0; tap[2] < kernel[2]; ++tap[2], ++number) {
        Box from = Box::whole(geometry.src), to = Box::whole(geometry.dst);
        for (std::size_t a = 0; a < 3; ++a) {
          const std::int64_t shift = tap[a] * geometry.dilation[a] - geometry.pad_before[a];
          to.lo[a + 1] = std::max<std::int64_t>(0, -shift);
          to.hi[a + 1] = std::min(dst[a], src[a] - shift);
          from.lo[a + 1] = to.lo[a + 1] + shift;
          from.hi[a + 1] = to.hi[a + 1] + shift;
        }
        if (to.empty()) continue;
        const std::string name = fmt::format("weight gradient of tap {} of {} -> {}", number,
                                             geometry.src, geometry.dst);
        taps.push_back({number, from, to, make_product(name, to.volume() / geometry.dst.c)});
      }
}

// sum[out][in] += diff_dst[voxel][out]^T * src[voxel][in].
Call TapGradients::Impl::make_product(const std::string& name, std::int64_t voxels) {
  return guarded([&] { return std::string_view(name); },
                 [&]() -> Call {
                   const memory::desc left = plain({geometry.dst.c, voxels}, Tag::ba, compute);
                   const memory::desc right = plain({voxels, geometry.src.c}, Tag::ab, compute);
                   const memory::desc sum = plain({geometry.dst.c, geometry.src.c}, Tag::ab);
                   const auto pd = describe<dnnl::matmul>(lib, left, right, sum);
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

bool TapGradients::suits(const ConvolutionGeometry& geometry) {
  return geometry.groups == 1 && geometry.stride == Spatial{1, 1, 1} &&
         geometry.dilation != Spatial{1, 1, 1};
}

void TapGradients::take(Scratch& scratch) {
  Impl& impl = *impl_;
  std::int64_t src = 0, dst = 0, bytes = 0;
  for (const Impl::Tap& tap : impl.taps) {
    if (tap.src != Box::whole(impl.geometry.src)) src = std::max(src, tap.src.volume());
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
  const auto whole = [&](const void* data, const Shape& shape) {
    return AnyConstView(static_cast<const std::byte*>(data), impl.compute, Box::whole(shape), 1);
  };
  const AnyConstView from = whole(src, impl.geometry.src), to = whole(diff_dst, impl.geometry.dst);
  const auto dense = [](AnyConstView view, const Box& box, std::byte* scratch) {
    if (box == view.span) return view.data;
    pack(view, box, scratch);
    return static_cast<const std::byte*>(scratch);
  };
  if (!impl.used) {
    clear_by_threads(impl.sums.data(), static_cast<std::size_t>(impl.sums.size()) * sizeof(float));
    std::fill(impl.bias_sums.begin(), impl.bias_sums.end(), 0.0);
  }
  impl.used = true;
  float* sum = impl.sums.data();
  for (Impl::Tap& tap : impl.taps) {
    tap.product.bind_scratchpad(impl.scratchpad.data());
    tap.product.bind(DNNL_ARG_SRC, dense(to, tap.dst, impl.dst_scratch.data()))
        .bind(DNNL_ARG_WEIGHTS, dense(from, tap.src, impl.src_scratch.data()))
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
    std::fill_n(row, in * all, 0.0F);  // taps that meet only padding
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
