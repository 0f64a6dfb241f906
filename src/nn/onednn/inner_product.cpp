// SPDX-License-Identifier: Apache-2.0
// oneDNN inner products of any version behind our own types: see onednn.hpp.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/nn/onednn/call.hpp"
#include "src/nn/onednn/onednn.hpp"
#include "src/nn/onednn/own_memory.hpp"

namespace halomesh {

using namespace onednn;

struct InnerProductKernels::Impl {
  Library lib;
  std::vector<std::string> names;
  std::vector<Call> forward, backward_data, backward_weights;  // the last two have at most one
  AlignedBuffer<std::byte> scratchpad;

  template <class Primitive, class Description>
  Call& add(std::vector<Call>& calls, const std::string& name, const char* pass,
            const Description& pd, const std::vector<std::pair<int, memory::desc>>& arguments) {
    calls.push_back({lib, name + ' ' + pass, make_primitive<Primitive>(pd), pd, arguments});
    add_name(names, pass, pd.impl_info_str());
    return calls.back();
  }
};

namespace {

struct InnerProductDescs {
  std::int64_t batch, in, out;
  memory::desc src, weight, bias, dst;
  bool with_bias;
  InnerProductDescs(std::int64_t samples, std::int64_t inputs, std::int64_t outputs,
                    bool bias_wanted)
      : batch(samples),
        in(inputs),
        out(outputs),
        src(plain({batch, in}, Tag::ab)),
        weight(plain({out, in}, Tag::ab)),
        bias(plain({out}, Tag::a)),
        dst(plain({batch, out}, Tag::ab)),
        with_bias(bias_wanted) {}

  dnnl::inner_product_forward::primitive_desc forward(const Library& lib) const {
    const auto training = dnnl::prop_kind::forward_training;
    return with_bias ? describe<dnnl::inner_product_forward>(lib, training, src, weight, bias, dst)
                     : describe<dnnl::inner_product_forward>(lib, training, src, weight, dst);
  }
  dnnl::inner_product_backward_weights::primitive_desc backward_weights(
      const Library& lib, const dnnl::inner_product_forward::primitive_desc& hint) const {
    using Backward = dnnl::inner_product_backward_weights;
    return with_bias ? describe_backward<Backward>(lib, hint, src, weight, bias, dst)
                     : describe_backward<Backward>(lib, hint, src, weight, dst);
  }
  // The description of the first kernel that may be used, from `pd` on. Samples are tried as voxels
  // of a convolution.
  template <class Primitive, class Description>
  Description right(const Library& lib, const std::string& name, KernelTrial::Pass pass,
                    const Description& pd) const {
    using enum KernelTrial::Pass;
    KernelTrial trial{
        name + ' ' + name_of(pass),
        pass,
        {{in, 1, 1, batch}, {out, 1, 1, batch}},
        {pass == kBackwardData ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, src, src},
        {pass == kBackwardWeights ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, weight, weight},
        {pass == kForward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, dst, dst}};
    if (with_bias && pass != kBackwardData)
      trial.bias = {pass == kForward ? DNNL_ARG_BIAS : DNNL_ARG_DIFF_BIAS, bias, bias};
    return first_right(name, pd, [&](const auto& made, int number) {
      return may_use_kernel<Primitive>(lib, made, number, trial);
    });
  }
};

}  // namespace

InnerProductKernels::InnerProductKernels(std::int64_t batch, std::int64_t in, std::int64_t out,
                                         bool with_bias, bool training)
    : impl_(std::make_unique<Impl>()) {
  Impl& impl = *impl_;
  const std::string name = fmt::format("inner product of batch {}, {} -> {}", batch, in, out);
  guarded([&] { return std::string_view(name); },
          [&] {
            const InnerProductDescs descs(batch, in, out, with_bias);
            const auto pd = descs.right<dnnl::inner_product_forward>(
                impl.lib, name, KernelTrial::Pass::kForward, descs.forward(impl.lib));
            Call& forward = impl.add<dnnl::inner_product_forward>(impl.forward, name, "forward", pd,
                                                                  {{DNNL_ARG_SRC, descs.src},
                                                                   {DNNL_ARG_WEIGHTS, descs.weight},
                                                                   {DNNL_ARG_DST, descs.dst}});
            if (with_bias) forward.add(impl.lib, DNNL_ARG_BIAS, descs.bias);
            if (!training) return;
            const auto data = descs.right<dnnl::inner_product_backward_data>(
                impl.lib, name, KernelTrial::Pass::kBackwardData,
                describe_backward<dnnl::inner_product_backward_data>(impl.lib, pd, descs.src,
                                                                     descs.weight, descs.dst));
            impl.add<dnnl::inner_product_backward_data>(impl.backward_data, name, "backward_data",
                                                        data,
                                                        {{DNNL_ARG_DIFF_SRC, descs.src},
                                                         {DNNL_ARG_WEIGHTS, descs.weight},
                                                         {DNNL_ARG_DIFF_DST, descs.dst}});
            const auto weights = descs.right<dnnl::inner_product_backward_weights>(
                impl.lib, name, KernelTrial::Pass::kBackwardWeights,
                descs.backward_weights(impl.lib, pd));
            Call& backward = impl.add<dnnl::inner_product_backward_weights>(
                impl.backward_weights, name, "backward_weights", weights,
                {{DNNL_ARG_SRC, descs.src},
                 {DNNL_ARG_DIFF_WEIGHTS, descs.weight},
                 {DNNL_ARG_DIFF_DST, descs.dst}});
            if (with_bias) backward.add(impl.lib, DNNL_ARG_DIFF_BIAS, descs.bias);
          });
  const auto lists = {&impl.forward, &impl.backward_data, &impl.backward_weights};
  std::int64_t bytes = 0;
  for (const auto* calls : lists) bytes = std::max(bytes, most_scratchpad_bytes(*calls));
  impl.scratchpad = AlignedBuffer<std::byte>(bytes);
  for (auto* calls : lists)
    for (Call& call : *calls) call.bind_scratchpad(impl.scratchpad.data());
}

InnerProductKernels::~InnerProductKernels() = default;
InnerProductKernels::InnerProductKernels(InnerProductKernels&&) noexcept = default;
InnerProductKernels& InnerProductKernels::operator=(InnerProductKernels&&) noexcept = default;

void InnerProductKernels::forward(const float* src, const float* weight, const float* bias,
                                  float* dst) {
  impl_->forward[0]
      .bind(DNNL_ARG_SRC, src)
      .bind(DNNL_ARG_WEIGHTS, weight)
      .bind(DNNL_ARG_BIAS, bias)
      .bind(DNNL_ARG_DST, dst)
      .run(impl_->lib);
}

void InnerProductKernels::backward_data(const float* diff_dst, const float* weight,
                                        float* diff_src) {
  impl_->backward_data[0]
      .bind(DNNL_ARG_DIFF_DST, diff_dst)
      .bind(DNNL_ARG_WEIGHTS, weight)
      .bind(DNNL_ARG_DIFF_SRC, diff_src)
      .run(impl_->lib);
}

void InnerProductKernels::backward_weights(const float* src, const float* diff_dst,
                                           float* diff_weight, float* diff_bias) {
  impl_->backward_weights[0]
      .bind(DNNL_ARG_SRC, src)
      .bind(DNNL_ARG_DIFF_DST, diff_dst)
      .bind(DNNL_ARG_DIFF_WEIGHTS, diff_weight)
      .bind(DNNL_ARG_DIFF_BIAS, diff_bias)
      .run(impl_->lib);
}

std::vector<std::string> InnerProductKernels::implementations() const { return impl_->names; }

}  // namespace halomesh
