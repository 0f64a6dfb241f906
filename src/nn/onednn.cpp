// oneDNN convolutions of any version behind our own types: see onednn.hpp.
#include "src/nn/onednn.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/nn/onednn_call.hpp"

namespace halomesh {

using namespace onednn;

namespace {

std::string to_string(const Spatial& s) { return cat(s[0], 'x', s[1], 'x', s[2]); }

std::string to_string(const ConvolutionBlock& b) {
  return cat(b.src, " -> ", b.dst, ", kernel ", to_string(b.kernel), ", stride ",
             to_string(b.stride), ", dilation ", to_string(b.dilation), ", padding ",
             to_string(b.pad_before), " before and ", to_string(b.pad_after), " after");
}

// The arguments that the convolution's descriptors share. The library counts dilation from 0.
struct ConvolutionDescs {
  memory::desc src, dst, weight, packed_weight, bias;
  memory::dims stride, dilation, before, after;
  explicit ConvolutionDescs(const ConvolutionBlock& b)
      : src(plain({1, b.src.c, b.src.d, b.src.h, b.src.w}, Tag::ndhwc)),
        dst(plain({1, b.dst.c, b.dst.d, b.dst.h, b.dst.w}, Tag::ndhwc)),
        bias(plain({b.dst.c}, Tag::a)),
        stride(b.stride.begin(), b.stride.end()),
        before(b.pad_before.begin(), b.pad_before.end()),
        after(b.pad_after.begin(), b.pad_after.end()) {
    const memory::dims dims{b.dst.c, b.src.c, b.kernel[0], b.kernel[1], b.kernel[2]};
    weight = plain(dims, Tag::oidhw);
    packed_weight = plain(dims, Tag::any);
    for (const std::int64_t d : b.dilation) dilation.push_back(d - 1);
  }
  dnnl::convolution_forward::primitive_desc forward(const Library& lib) const {
    return describe<dnnl::convolution_forward>(
        lib, dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, src,
        packed_weight, bias, dst, stride, dilation, before, after);
  }
};

}  // namespace

std::string onednn_version() {
  const dnnl_version_t* v = dnnl_version();
  return cat(v->major, '.', v->minor, '.', v->patch);
}

struct ConvolutionKernels::Impl {
  struct Packed {
    Storage storage;
    Call reorder;
  };
  struct Kernel {
    ConvolutionBlock block;
    Call call;
    std::size_t packed = 0;  // index into `packed`
  };

  Library lib;
  std::vector<std::string> names;
  std::vector<Kernel> forward;
  std::vector<Kernel> backward_data;     // none or one
  std::vector<Kernel> backward_weights;  // none or one; `packed` unused
  std::vector<Packed> packed;            // weights, one for each layout
  // First the gradients of one sample, then their sums over samples, in the layout of the kernel.
  std::vector<Storage> diff_weight;
  AlignedBuffer<float> bias, diff_bias;
  std::vector<Call> unpack;  // none or one
  AlignedBuffer<std::byte> scratchpad;

  std::size_t packed_index(const memory::desc& plain_desc, const memory::desc& desc) {
    for (std::size_t i = 0; i < packed.size(); ++i)
      if (packed[i].storage.desc == desc) return i;
    packed.push_back({Storage(desc), make_reorder(lib, plain_desc, desc)});
    packed.back().reorder.bind(DNNL_ARG_DST, packed.back().storage.data());
    return packed.size() - 1;
  }
};

ConvolutionKernels::ConvolutionKernels() : impl_(std::make_unique<Impl>()) {}
ConvolutionKernels::~ConvolutionKernels() = default;
ConvolutionKernels::ConvolutionKernels(ConvolutionKernels&&) noexcept = default;
ConvolutionKernels& ConvolutionKernels::operator=(ConvolutionKernels&&) noexcept = default;

std::size_t ConvolutionKernels::add_forward(const ConvolutionBlock& block) {
  Impl& impl = *impl_;
  for (std::size_t i = 0; i < impl.forward.size(); ++i)
    if (impl.forward[i].block == block) return i;
  const std::string name = "convolution forward " + to_string(block);
  guarded([&] { return std::string_view(name); },
          [&] {
            const ConvolutionDescs descs(block);
            const auto pd = descs.forward(impl.lib);
            Call call(impl.lib, name, dnnl::convolution_forward(pd), pd,
                      {{DNNL_ARG_SRC, descs.src},
                       {DNNL_ARG_DST, descs.dst},
                       {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                       {DNNL_ARG_BIAS, descs.bias}});
            impl.forward.push_back(
                {block, std::move(call), impl.packed_index(descs.weight, pd.weights_desc())});
            add_name(impl.names, "forward", pd.impl_info_str());
          });
  return impl.forward.size() - 1;
}

void ConvolutionKernels::add_backward_data(const ConvolutionBlock& block) {
  Impl& impl = *impl_;
  const std::string name = "convolution backward_data " + to_string(block);
  guarded([&] { return std::string_view(name); },
          [&] {
            const ConvolutionDescs descs(block);
            const auto pd = describe_backward<dnnl::convolution_backward_data>(
                impl.lib, descs.forward(impl.lib), dnnl::algorithm::convolution_direct, descs.src,
                descs.packed_weight, descs.dst, descs.stride, descs.dilation, descs.before,
                descs.after);
            Call call(impl.lib, name, dnnl::convolution_backward_data(pd), pd,
                      {{DNNL_ARG_DIFF_SRC, descs.src},
                       {DNNL_ARG_DIFF_DST, descs.dst},
                       {DNNL_ARG_WEIGHTS, pd.weights_desc()}});
            impl.backward_data.push_back(
                {block, std::move(call), impl.packed_index(descs.weight, pd.weights_desc())});
            add_name(impl.names, "backward_data", pd.impl_info_str());
          });
}

void ConvolutionKernels::add_backward_weights(const ConvolutionBlock& block) {
  Impl& impl = *impl_;
  const std::string name = "convolution backward_weights " + to_string(block);
  guarded([&] { return std::string_view(name); },
          [&] {
            const ConvolutionDescs descs(block);
            const auto pd = describe_backward<dnnl::convolution_backward_weights>(
                impl.lib, descs.forward(impl.lib), dnnl::algorithm::convolution_direct, descs.src,
                descs.packed_weight, descs.bias, descs.dst, descs.stride, descs.dilation,
                descs.before, descs.after);
            Call call(impl.lib, name, dnnl::convolution_backward_weights(pd), pd,
                      {{DNNL_ARG_SRC, descs.src},
                       {DNNL_ARG_DIFF_DST, descs.dst},
                       {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()},
                       {DNNL_ARG_DIFF_BIAS, descs.bias}});
            impl.backward_weights.push_back({block, std::move(call)});
            for (int i = 0; i < 2; ++i) impl.diff_weight.emplace_back(pd.diff_weights_desc());
            impl.unpack.push_back(make_reorder(impl.lib, pd.diff_weights_desc(), descs.weight));
            add_name(impl.names, "backward_weights", pd.impl_info_str());
          });
}

void ConvolutionKernels::allocate() {
  Impl& impl = *impl_;
  std::vector<Call*> calls;
  std::int64_t out = 0;
  for (auto* kernels : {&impl.forward, &impl.backward_data, &impl.backward_weights})
    for (Impl::Kernel& kernel : *kernels) {
      calls.push_back(&kernel.call);
      out = kernel.block.dst.c;
    }
  impl.bias = AlignedBuffer<float>(out);
  for (Impl::Kernel& kernel : impl.forward)
    kernel.call.bind(DNNL_ARG_BIAS, impl.bias.data())
        .bind(DNNL_ARG_WEIGHTS, impl.packed[kernel.packed].storage.data());
  for (Impl::Kernel& kernel : impl.backward_data)
    kernel.call.bind(DNNL_ARG_WEIGHTS, impl.packed[kernel.packed].storage.data());
  for (Impl::Packed& packed : impl.packed) calls.push_back(&packed.reorder);
  for (Call& call : impl.unpack)
    calls.push_back(&call.bind(DNNL_ARG_SRC, impl.diff_weight[1].data()));
  if (!impl.backward_weights.empty()) {
    impl.diff_bias = AlignedBuffer<float>(2 * out);
    impl.backward_weights[0]
        .call.bind(DNNL_ARG_DIFF_WEIGHTS, impl.diff_weight[0].data())
        .bind(DNNL_ARG_DIFF_BIAS, impl.diff_bias.data());
  }
  impl.scratchpad = share_scratchpad(calls);
}

void ConvolutionKernels::load_weights(const float* weight, const float* bias) {
  for (Impl::Packed& packed : impl_->packed)
    packed.reorder.bind(DNNL_ARG_SRC, weight).run(impl_->lib);
  std::copy_n(bias, impl_->bias.size(), impl_->bias.data());
}

void ConvolutionKernels::forward(std::size_t kernel, const float* src, float* dst) {
  impl_->forward[kernel].call.bind(DNNL_ARG_SRC, src).bind(DNNL_ARG_DST, dst).run(impl_->lib);
}

void ConvolutionKernels::backward_data(const float* diff_dst, float* diff_src) {
  impl_->backward_data[0]
      .call.bind(DNNL_ARG_DIFF_DST, diff_dst)
      .bind(DNNL_ARG_DIFF_SRC, diff_src)
      .run(impl_->lib);
}

// The gradients of each sample come in buffers bound once: giving the library new memory in a
// padded layout would make it clear the padding each time.
void ConvolutionKernels::backward_weights(const float* src, const float* diff_dst, bool first) {
  Impl& impl = *impl_;
  impl.backward_weights[0]
      .call.bind(DNNL_ARG_SRC, src)
      .bind(DNNL_ARG_DIFF_DST, diff_dst)
      .run(impl.lib);
  const std::int64_t out = impl.diff_bias.size() / 2, size = impl.diff_weight[0].size();
  const auto sum_up = [first](const float* sample, std::int64_t count, float* sum) {
    for (std::int64_t i = 0; i < count; ++i) sum[i] = first ? sample[i] : sum[i] + sample[i];
  };
  sum_up(impl.diff_weight[0].data(), size, impl.diff_weight[1].data());
  sum_up(impl.diff_bias.data(), out, impl.diff_bias.data() + out);
}

void ConvolutionKernels::store_diff_weights(float* diff_weight, float* diff_bias) {
  Impl& impl = *impl_;
  impl.unpack[0].bind(DNNL_ARG_DST, diff_weight).run(impl.lib);
  const std::int64_t out = impl.diff_bias.size() / 2;
  std::copy_n(impl.diff_bias.data() + out, out, diff_bias);
}

std::vector<std::string> ConvolutionKernels::implementations() const { return impl_->names; }

}  // namespace halomesh
