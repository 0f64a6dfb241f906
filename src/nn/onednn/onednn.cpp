// SPDX-License-Identifier: Apache-2.0
// oneDNN convolutions of any version behind our own types: see onednn.hpp.
#include "src/nn/onednn/onednn.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/nn/onednn/call.hpp"
#include "src/nn/onednn/converting_call.hpp"
#include "src/nn/onednn/own_memory.hpp"
#include "src/nn/onednn/tap_products.hpp"
#include "src/nn/pack.hpp"

namespace halomesh {

using namespace onednn;

namespace {

std::string to_string(const Spatial& s) { return fmt::format("{}x{}x{}", s[0], s[1], s[2]); }

std::string to_string(const ConvolutionGeometry& g) {
  return fmt::format(
      "{} -> {}, kernel {}, stride {}, dilation {}, padding {} before and {} after{}", g.src, g.dst,
      to_string(g.kernel), to_string(g.stride), to_string(g.dilation), to_string(g.pad_before),
      to_string(g.pad_after), g.groups > 1 ? fmt::format(", {} groups", g.groups) : "");
}

// Whether generated kernels of weight gradients may take padding for data, or leave memory, along
// an axis. Comparison with naive sums over all small windows showed this for oneDNN 2.6.3 where no
// window lies inside src, and where several windows begin before src if these do not fill a whole
// number of strides and the last window of all ends behind it.
bool may_misread(const ConvolutionGeometry& g, std::size_t axis) {
  const std::int64_t stride = g.stride[axis], before = g.pad_before[axis];
  const std::int64_t reach = (g.kernel[axis] - 1) * g.dilation[axis] + 1;
  // The end of src and the start of the last window, counted from the first window.
  const std::int64_t end = g.src.spatial()[axis] + before;
  const std::int64_t last = (g.dst.spatial()[axis] - 1) * stride;
  const bool ends_behind = last + reach > end;
  if (before == 0 && !ends_behind) return false;
  const std::int64_t first_inside = (before + stride - 1) / stride * stride;
  if (first_inside > last || first_inside + reach > end) return true;
  return before > stride && before % stride != 0 && ends_behind;
}

// The geometry of the same sums with the padding in memory, or `geometry` itself where the kernels
// can be trusted.
ConvolutionGeometry for_weights(const ConvolutionGeometry& geometry) {
  if (!may_misread(geometry, 0) && !may_misread(geometry, 1) && !may_misread(geometry, 2))
    return geometry;
  ConvolutionGeometry g = geometry;
  g.src.d += g.pad_before[0] + g.pad_after[0];
  g.src.h += g.pad_before[1] + g.pad_after[1];
  g.src.w += g.pad_before[2] + g.pad_after[2];
  g.pad_before = g.pad_after = {};
  return g;
}

// The arguments that the convolution's descriptors share, with data in a given layout or in any.
// The library counts dilation from 0.
struct ConvolutionDescs {
  memory::desc src, diff_src, dst, diff_dst, weight, packed_weight, packed_diff_weight, bias;
  memory::dims stride, dilation, before, after;
  bool adds_bias;
  ConvolutionDescs(const ConvolutionGeometry& g, const ConvolutionForm& form,
                   Tag layout = Tag::ndhwc)
      : bias(plain({g.dst.c}, Tag::a)),
        stride(g.stride.begin(), g.stride.end()),
        before(g.pad_before.begin(), g.pad_before.end()),
        after(g.pad_after.begin(), g.pad_after.end()),
        adds_bias(form.bias) {
    const memory::dims src_dims{1, g.src.c, g.src.d, g.src.h, g.src.w};
    const memory::dims dst_dims{1, g.dst.c, g.dst.d, g.dst.h, g.dst.w};
    memory::dims dims{g.dst.c / g.groups, g.src.c / g.groups, g.kernel[0], g.kernel[1],
                      g.kernel[2]};
    if (g.groups > 1) dims.insert(dims.begin(), g.groups);
    src = plain(src_dims, layout, form.compute);
    diff_src = plain(src_dims, layout, form.widens_diff_src ? DataType::kFloat32 : form.compute);
    dst = plain(dst_dims, layout, form.dst);
    diff_dst = plain(dst_dims, layout, form.compute);
    weight = plain(dims, g.groups > 1 ? Tag::goidhw : Tag::oidhw);
    packed_weight = plain(dims, Tag::any, form.compute);
    packed_diff_weight = plain(dims, Tag::any);
    for (const std::int64_t d : g.dilation) dilation.push_back(d - 1);
  }
  dnnl::convolution_forward::primitive_desc forward(const Library& lib,
                                                    const memory::desc& result) const {
    using Forward = dnnl::convolution_forward;
    constexpr auto kTraining = dnnl::prop_kind::forward_training;
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    return adds_bias ? describe<Forward>(lib, kTraining, kDirect, src, packed_weight, bias, result,
                                         stride, dilation, before, after)
                     : describe<Forward>(lib, kTraining, kDirect, src, packed_weight, result,
                                         stride, dilation, before, after);
  }
  dnnl::convolution_backward_data::primitive_desc backward_data(const Library& lib) const {
    return describe_backward<dnnl::convolution_backward_data>(
        lib, forward(lib, diff_dst), dnnl::algorithm::convolution_direct, diff_src, packed_weight,
        diff_dst, stride, dilation, before, after);
  }
  dnnl::convolution_backward_weights::primitive_desc backward_weights(const Library& lib,
                                                                      bool with_bias) const {
    using Backward = dnnl::convolution_backward_weights;
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    const auto hint = forward(lib, diff_dst);
    return with_bias ? describe_backward<Backward>(lib, hint, kDirect, src, packed_diff_weight,
                                                   bias, diff_dst, stride, dilation, before, after)
                     : describe_backward<Backward>(lib, hint, kDirect, src, packed_diff_weight,
                                                   diff_dst, stride, dilation, before, after);
  }
};

// Adds term[i] to sum[i].
void add_to(float* sum, const float* term, std::int64_t count) {
#pragma omp parallel for schedule(static) if (count > 65536)
  for (std::int64_t i = 0; i < count; ++i) sum[i] += term[i];
}

// The form of the library's primitives.
ConvolutionForm form_of_products(ConvolutionForm form) {
  if (form.products == DataType::kFloat32) form.compute = form.dst = DataType::kFloat32;
  return form;
}

}  // namespace

struct ConvolutionKernels::Impl {
  // Weights in one layout of the library's choice, either kept from the time they are loaded or
  // packed into scratch for each backward pass.
  struct Packed {
    memory::desc desc;
    Call reorder;
    bool is_kept = false;
    AlignedBuffer<std::byte> kept{};
    ScratchBuffer<std::byte> scratch{};
    std::byte* data() { return is_kept ? kept.data() : scratch.data(); }
  };
  // The weight gradients of one layout, padding included: their sum, and a buffer for the gradients
  // of all blocks but the first before they are added.
  struct Gradients {
    memory::desc desc;
    Call unpack;
    bool used = false;
    ScratchBuffer<float> sum{}, term{};
  };
  struct Kernel {
    ConvolutionGeometry geometry;  // as the caller gave it
    std::optional<ConvertingCall> call;
    std::size_t layout = 0;  // index into `packed` or, for backward_weights, `gradients`
    std::optional<TapProducts> products{};  // replace the call
    std::int64_t scratch_bytes() const {
      return products ? products->scratch_bytes() : call->scratchpad_bytes();
    }
  };

  ConvolutionForm form, primitives;  // as the caller sees it, and as the library computes
  Library lib;
  std::vector<std::string> names;
  std::vector<Kernel> forward, backward_data, backward_weights;
  std::vector<Packed> packed;
  std::optional<std::size_t>
      first_packed;  // the layout that all others are packed from; none: the user's weights
  std::vector<Gradients> gradients;
  std::vector<bool> used_taps;  // taps used by kernels that are products
  AlignedBuffer<float> weights_by_taps;
  const float* weight = nullptr;  // the user's weights
  AlignedBuffer<float> bias, bias_sum, bias_term;
  ScratchBuffer<float> plain_term;  // one weight gradient in the user's order, for further layouts
  ScratchBuffer<std::byte> scratchpad;
  ScratchBuffer<std::byte> padded;  // src of one weight gradient with its padding

  std::size_t packed_index(const memory::desc& plain_desc, const memory::desc& desc) {
    for (std::size_t i = 0; i < packed.size(); ++i)
      if (packed[i].desc == desc) return i;
    packed.push_back({desc, make_reorder(lib, plain_desc, desc)});
    return packed.size() - 1;
  }
  std::size_t gradients_index(const memory::desc& plain_desc, const memory::desc& desc) {
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i].desc == desc) return i;
    gradients.push_back({desc, make_reorder(lib, desc, plain_desc)});
    return gradients.size() - 1;
  }
  // The library packs weights of several taps for bf16 forward passes element by element; packing
  // them for the gradient of data, and the result again, takes a quarter of the time (2.6.3).
  void pack_by_way_of_gradients(std::int64_t taps) {
    if (primitives.compute != DataType::kBfloat16 || taps == 1 || backward_data.empty()) return;
    first_packed = backward_data[0].layout;
    packed[*first_packed].is_kept = true;
    for (std::size_t i = 0; i < packed.size(); ++i)
      if (i != *first_packed)
        packed[i].reorder = make_reorder(lib, packed[*first_packed].desc, packed[i].desc);
  }
  void pack(std::size_t i) {
    const bool again = first_packed && i != *first_packed;
    run(packed[i]
            .reorder
            .bind(DNNL_ARG_SRC, again ? static_cast<const void*>(packed[*first_packed].data())
                                      : static_cast<const void*>(weight))
            .bind(DNNL_ARG_DST, packed[i].data()));
  }
  template <class AnyCall>
  void run(AnyCall& call) {
    call.bind_scratchpad(scratchpad.data());
    call.run(lib);
  }
  // The scratchpad is for any call. Behind it, backward_data and weight gradients share memory, as
  // they do not run at the same time.
  void take(Scratch scratch, bool sums_several, std::int64_t weights, std::int64_t padded_bytes) {
    std::int64_t bytes = 0;
    for (const auto* kernels : {&forward, &backward_data, &backward_weights})
      for (const Kernel& kernel : *kernels) bytes = std::max(bytes, kernel.scratch_bytes());
    for (const Packed& p : packed) bytes = std::max(bytes, p.reorder.scratchpad_bytes());
    for (const Gradients& g : gradients) bytes = std::max(bytes, g.unpack.scratchpad_bytes());
    scratchpad = scratch.take<std::byte>(bytes);
    Scratch for_data = scratch;
    for (Packed& p : packed) {
      const auto size = static_cast<std::int64_t>(p.desc.get_size());
      if (p.is_kept)
        p.kept = AlignedBuffer<std::byte>(size);
      else
        p.scratch = for_data.take<std::byte>(size);
    }
    for (Gradients& g : gradients) {
      const auto size = static_cast<std::int64_t>(g.desc.get_size() / sizeof(float));
      g.sum = scratch.take<float>(size);
      if (sums_several) g.term = scratch.take<float>(size);
    }
    padded = scratch.take<std::byte>(padded_bytes);
    if (gradients.size() > 1) plain_term = scratch.take<float>(weights);
  }
  // The index of the kernel of this geometry among `kernels`, made by make(name, descriptors) if it
  // is new.
  template <class Make>
  std::size_t find_or_add(std::vector<Kernel>& kernels, const char* role,
                          const ConvolutionGeometry& geometry, const Make& make) {
    for (std::size_t i = 0; i < kernels.size(); ++i)
      if (kernels[i].geometry == geometry) return i;
    const std::string name = fmt::format("convolution {} {}", role, to_string(geometry));
    guarded([&] { return std::string_view(name); },
            [&] { kernels.push_back(make(name, ConvolutionDescs(geometry, form))); });
    return kernels.size() - 1;
  }
  // The index of the kernel as products of taps, where these cost less.
  std::optional<std::size_t> find_or_add_products(std::vector<Kernel>& kernels,
                                                  TapProducts::Role role,
                                                  const ConvolutionGeometry& geometry) {
    if (form.compute != DataType::kFloat32 || form.dst != DataType::kFloat32 ||
        !TapProducts::pay(geometry, role))
      return std::nullopt;
    return find_or_add(kernels, "by taps", geometry,
                       [&](const std::string&, const auto&) -> Kernel {
                         Kernel kernel{geometry, {}, 0, TapProducts(geometry, role, names)};
                         kernel.products->mark_taps(used_taps);
                         return kernel;
                       });
  }
  KernelTrial trial_of(std::string name, KernelTrial::Pass pass, const ConvolutionGeometry& g,
                       const std::array<memory::desc, 3>& layouts) const {
    using enum KernelTrial::Pass;
    const ConvolutionDescs plain_descs(g, {});
    const auto [src, weights, dst] = layouts;
    const bool with_bias =
        (pass == kForward && form.bias) || (pass == kBackwardWeights && form.diff_bias);
    KernelTrial trial{
        fmt::format("{} in {} to {}", name, name_of(primitives.compute), name_of(primitives.dst)),
        pass,
        g,
        {pass == kBackwardData ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, plain_descs.src, src,
         pass == kBackwardData && form.widens_diff_src ? DataType::kFloat32 : primitives.compute},
        {pass == kBackwardWeights ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, plain_descs.weight,
         weights, pass == kBackwardWeights ? DataType::kFloat32 : primitives.compute},
        {pass == kForward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, plain_descs.dst, dst,
         pass == kForward ? primitives.dst : primitives.compute}};
    if (with_bias)
      trial.bias = {pass == kForward ? DNNL_ARG_BIAS : DNNL_ARG_DIFF_BIAS, plain_descs.bias,
                    plain_descs.bias};
    return trial;
  }
  // layouts(description) returns the layouts of src, weights and dst, or of their gradients.
  template <class Primitive, class Describe, class Layouts>
  auto best(const std::string& name, KernelTrial::Pass pass, const ConvolutionGeometry& geometry,
            const Describe& describe, const Layouts& layouts) {
    auto pd = describe_best(
        name, form.own_layout, geometry,
        [&](Tag layout) { return describe(ConvolutionDescs(geometry, primitives, layout)); },
        [&](const auto& made, int number, Tag layout) {
          return may_use_kernel<Primitive>(
              lib, made, number,
              trial_of(layout == Tag::any ? name + " in the library's layout" : name, pass,
                       geometry, layouts(made)));
        });
    add_name(names, fmt::format("{} {}", name_of(pass), name_of(primitives.compute)),
             pd.impl_info_str());
    return pd;
  }
};

ConvolutionKernels::ConvolutionKernels(const ConvolutionForm& form)
    : impl_(std::make_unique<Impl>()) {
  impl_->form = form;
  impl_->primitives = form_of_products(form);
}
ConvolutionKernels::~ConvolutionKernels() = default;
ConvolutionKernels::ConvolutionKernels(ConvolutionKernels&&) noexcept = default;
ConvolutionKernels& ConvolutionKernels::operator=(ConvolutionKernels&&) noexcept = default;

std::size_t ConvolutionKernels::add_forward(const ConvolutionGeometry& geometry) {
  Impl& impl = *impl_;
  const auto products =
      impl.find_or_add_products(impl.forward, TapProducts::Role::kForward, geometry);
  if (products) return *products;
  const auto make = [&](const std::string& name, const ConvolutionDescs& descs) -> Impl::Kernel {
    const auto pd = impl.best<dnnl::convolution_forward>(
        name, KernelTrial::Pass::kForward, geometry,
        [&](const ConvolutionDescs& d) { return d.forward(impl.lib, d.dst); },
        [](const auto& made) {
          return std::array{made.src_desc(), made.weights_desc(), made.dst_desc()};
        });
    std::vector<std::pair<int, memory::desc>> parameters{{DNNL_ARG_WEIGHTS, pd.weights_desc()}};
    if (impl.form.bias) parameters.emplace_back(DNNL_ARG_BIAS, descs.bias);
    return {geometry,
            ConvertingCall{impl.lib,
                           name,
                           make_primitive<dnnl::convolution_forward>(pd),
                           pd,
                           {{DNNL_ARG_SRC, false, descs.src, pd.src_desc()},
                            {DNNL_ARG_DST, true, descs.dst, pd.dst_desc()}},
                           parameters},
            impl.packed_index(descs.weight, pd.weights_desc())};
  };
  return impl.find_or_add(impl.forward, "forward", geometry, make);
}

std::size_t ConvolutionKernels::add_backward_data(const ConvolutionGeometry& geometry) {
  Impl& impl = *impl_;
  const auto products =
      impl.find_or_add_products(impl.backward_data, TapProducts::Role::kBackwardData, geometry);
  if (products) return *products;
  const auto make = [&](const std::string& name, const ConvolutionDescs& descs) -> Impl::Kernel {
    const auto pd = impl.best<dnnl::convolution_backward_data>(
        name, KernelTrial::Pass::kBackwardData, geometry,
        [&](const ConvolutionDescs& d) { return d.backward_data(impl.lib); },
        [](const auto& made) {
          return std::array{made.diff_src_desc(), made.weights_desc(), made.diff_dst_desc()};
        });
    return {geometry,
            ConvertingCall{impl.lib,
                           name,
                           make_primitive<dnnl::convolution_backward_data>(pd),
                           pd,
                           {{DNNL_ARG_DIFF_SRC, true, descs.diff_src, pd.diff_src_desc()},
                            {DNNL_ARG_DIFF_DST, false, descs.diff_dst, pd.diff_dst_desc()}},
                           {{DNNL_ARG_WEIGHTS, pd.weights_desc()}}},
            impl.packed_index(descs.weight, pd.weights_desc())};
  };
  return impl.find_or_add(impl.backward_data, "backward_data", geometry, make);
}

std::size_t ConvolutionKernels::add_backward_weights(const ConvolutionGeometry& geometry) {
  Impl& impl = *impl_;
  const auto make = [&](const std::string& name, const ConvolutionDescs& descs) -> Impl::Kernel {
    const ConvolutionGeometry safe = for_weights(geometry);
    const auto pd = impl.best<dnnl::convolution_backward_weights>(
        name, KernelTrial::Pass::kBackwardWeights, safe,
        [&](const ConvolutionDescs& d) {
          return d.backward_weights(impl.lib, impl.form.diff_bias);
        },
        [](const auto& made) {
          return std::array{made.src_desc(), made.diff_weights_desc(), made.diff_dst_desc()};
        });
    std::vector<std::pair<int, memory::desc>> sums{{DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()}};
    if (impl.form.diff_bias) sums.emplace_back(DNNL_ARG_DIFF_BIAS, descs.bias);
    return {
        geometry,
        ConvertingCall{impl.lib,
                       name,
                       make_primitive<dnnl::convolution_backward_weights>(pd),
                       pd,
                       {{DNNL_ARG_SRC, false, ConvolutionDescs(safe, impl.form).src, pd.src_desc()},
                        {DNNL_ARG_DIFF_DST, false, descs.diff_dst, pd.diff_dst_desc()}},
                       sums},
        impl.gradients_index(descs.weight, pd.diff_weights_desc())};
  };
  return impl.find_or_add(impl.backward_weights, "backward_weights", geometry, make);
}

void ConvolutionKernels::allocate(Scratch scratch, bool sums_several) {
  Impl& impl = *impl_;
  std::int64_t out = 0, weights = 0, taps = 0;
  for (const auto* kernels : {&impl.forward, &impl.backward_data, &impl.backward_weights})
    for (const Impl::Kernel& kernel : *kernels) {
      const ConvolutionGeometry& g = kernel.geometry;
      out = g.dst.c;
      taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
      weights = out * g.src.c / g.groups * taps;
    }
  impl.bias = AlignedBuffer<float>(out);
  for (Impl::Kernel& kernel : impl.forward)
    if (kernel.call) kernel.call->bind(DNNL_ARG_BIAS, impl.bias.data());
  for (const Impl::Kernel& kernel : impl.form.transposed ? impl.backward_data : impl.forward)
    if (kernel.call) impl.packed[kernel.layout].is_kept = true;
  if (!impl.used_taps.empty()) impl.weights_by_taps = AlignedBuffer<float>(weights);
  impl.pack_by_way_of_gradients(taps);
  std::int64_t padded = 0;
  for (const Impl::Kernel& kernel : impl.backward_weights)
    if (const ConvolutionGeometry safe = for_weights(kernel.geometry); safe != kernel.geometry)
      padded = std::max(padded, safe.src.volume() * size_of(impl.form.compute));
  if (impl.form.diff_bias) {
    impl.bias_sum = AlignedBuffer<float>(out);
    impl.bias_term = AlignedBuffer<float>(out);
  }
  impl.take(std::move(scratch), sums_several, weights, padded);
}

void ConvolutionKernels::load_weights(const float* weight, const float* bias) {
  Impl& impl = *impl_;
  impl.weight = weight;
  if (impl.first_packed) impl.pack(*impl.first_packed);
  for (std::size_t i = 0; i < impl.packed.size(); ++i)
    if (impl.packed[i].is_kept && i != impl.first_packed) impl.pack(i);
  if (!impl.used_taps.empty())
    pack_by_taps(weight, impl.weights_by_taps.size() / std::ssize(impl.used_taps), impl.used_taps,
                 impl.weights_by_taps.data());
  if (impl.form.bias) std::copy_n(bias, impl.bias.size(), impl.bias.data());
}

void ConvolutionKernels::load_backward_weights() {
  for (std::size_t i = 0; i < impl_->packed.size(); ++i)
    if (!impl_->packed[i].is_kept) impl_->pack(i);
}

void ConvolutionKernels::forward(std::size_t kernel, const void* src, void* dst) {
  Impl::Kernel& k = impl_->forward[kernel];
  if (k.products)
    return k.products->run(static_cast<const float*>(src), impl_->weights_by_taps.data(),
                           impl_->form.bias ? impl_->bias.data() : nullptr,
                           static_cast<float*>(dst), impl_->scratchpad.data());
  impl_->run(k.call->bind(DNNL_ARG_SRC, src)
                 .bind(DNNL_ARG_WEIGHTS, impl_->packed[k.layout].data())
                 .bind(DNNL_ARG_DST, dst));
}

void ConvolutionKernels::backward_data(std::size_t kernel, const void* diff_dst, void* diff_src) {
  Impl::Kernel& k = impl_->backward_data[kernel];
  if (k.products)
    return k.products->run(static_cast<const float*>(diff_dst), impl_->weights_by_taps.data(),
                           nullptr, static_cast<float*>(diff_src), impl_->scratchpad.data());
  impl_->run(k.call->bind(DNNL_ARG_DIFF_DST, diff_dst)
                 .bind(DNNL_ARG_WEIGHTS, impl_->packed[k.layout].data())
                 .bind(DNNL_ARG_DIFF_SRC, diff_src));
}

void ConvolutionKernels::backward_weights(std::size_t kernel, const void* src,
                                          const void* diff_dst) {
  Impl& impl = *impl_;
  Impl::Kernel& k = impl.backward_weights[kernel];
  Impl::Gradients& gradients = impl.gradients[k.layout];
  if (gradients.used && gradients.term.size() == 0)
    throw Error("a second weight gradient to add where one was prepared for",
                "this is an error of the program; report it with the options of the run");
  void* const target = gradients.used ? gradients.term.data() : gradients.sum.data();
  if (const ConvolutionGeometry safe = for_weights(k.geometry); safe != k.geometry) {
    const Spatial& before = k.geometry.pad_before;
    const Box box = Box::whole(k.geometry.src);
    const AnyView to(impl.padded.data(), impl.form.compute, Box::whole(safe.src), 1);
    Box at = box;
    for (std::size_t a = 0; a < 3; ++a) {
      at.lo[a + 1] += before[a];
      at.hi[a + 1] += before[a];
    }
    clear(to, to.span);
    unpack_copy(static_cast<const std::byte*>(src), at, to);
    src = impl.padded.data();
  }
  bool bias_used = false;
  for (const Impl::Gradients& g : impl.gradients) bias_used = bias_used || g.used;
  impl.run(k.call->bind(DNNL_ARG_SRC, src)
               .bind(DNNL_ARG_DIFF_DST, diff_dst)
               .bind(DNNL_ARG_DIFF_WEIGHTS, target)
               .bind(DNNL_ARG_DIFF_BIAS, (bias_used ? impl.bias_term : impl.bias_sum).data()));
  if (gradients.used) add_to(gradients.sum.data(), gradients.term.data(), gradients.term.size());
  if (bias_used) add_to(impl.bias_sum.data(), impl.bias_term.data(), impl.bias_sum.size());
  gradients.used = true;
}

void ConvolutionKernels::store_diff_weights(float* diff_weight, float* diff_bias) {
  Impl& impl = *impl_;
  bool first = true;
  for (Impl::Gradients& gradients : impl.gradients) {
    if (!gradients.used) continue;
    impl.run(gradients.unpack.bind(DNNL_ARG_SRC, gradients.sum.data())
                 .bind(DNNL_ARG_DST, first ? diff_weight : impl.plain_term.data()));
    if (!first) add_to(diff_weight, impl.plain_term.data(), impl.plain_term.size());
    first = false;
    gradients.used = false;
  }
  if (impl.form.diff_bias) std::copy_n(impl.bias_sum.data(), impl.bias_sum.size(), diff_bias);
}

std::vector<std::string> ConvolutionKernels::implementations() const { return impl_->names; }

}  // namespace halomesh
