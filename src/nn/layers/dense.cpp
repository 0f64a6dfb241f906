// SPDX-License-Identifier: Apache-2.0
// Fully connected layer: see dense.hpp.
#include "src/nn/layers/dense.hpp"

#include <utility>

#include "error.hpp"
#include "src/nn/pack.hpp"

namespace halomesh {
namespace {

constexpr Shape kOne{1, 1, 1, 1};

// Whether the samples' boxes follow each other in memory without gaps.
bool is_contiguous(const Box& span, const Box& box, std::int64_t batch) {
  return span == box || (batch == 1 && ConstView{nullptr, span, batch}.is_dense(box));
}

}  // namespace

Dense::Dense(std::int64_t out, bool reproducible, InitialValues initial)
    : out_(out), reproducible_(reproducible), initial_(initial) {
  require(out > 0, text("dense layer with {} outputs", out), "give it at least one output");
}

Shape Dense::dst_shape(std::span<const Shape> src) const {
  require(src.size() == 1, text("dense layer of {} inputs", src.size()), "name one input for it");
  return {out_, 1, 1, 1};
}

Box Dense::needs(const Box& dst, std::size_t, std::span<const Shape> src) const {
  return dst.empty() ? Box{} : Box::whole(src[0]);
}

std::vector<ParameterGeometry> Dense::parameters(std::span<const Shape> src) const {
  const std::int64_t in = src[0].volume();
  const bool random_bias = initial_.kind == InitialValues::Kind::kFanInUniform;
  return {{"weight", out_, src[0], true, in, out_, initial_},
          {"bias", out_, kOne, true, random_bias ? in : 0, 0,
           random_bias ? initial_ : InitialValues{}}};
}

ParameterSlice Dense::parameter_slice(std::size_t parameter, const LayerBoxes& boxes,
                                      std::span<const Shape> src) const {
  const Box whole = Box::whole(dst_shape(src));
  require(boxes.dst_owned.empty() || boxes.dst_owned == whole,
          text("dense layer whose outputs {} of {} lie on one part", boxes.dst_owned, whole),
          "all outputs of a dense layer must be owned by one part");
  require(boxes.dst_owned.empty() || !boxes.src_needed[0].empty(),
          "dense layer whose outputs lie on a part that holds nothing of its input",
          "the part that owns the outputs adds the bias: it must own a block of the input");
  const Range all{0, out_};
  if (parameter == 0) return {all, boxes.src_needed[0]};
  return boxes.dst_owned.empty() ? ParameterSlice{} : ParameterSlice{all, Box::whole(kOne)};
}

std::string Dense::kernel_name() const {
  return reproducible_ ? "dense fp32 reproducible" : "dense fp32";
}

std::int64_t Dense::forward_flops(std::span<const Shape> src) const {
  return 2 * src[0].volume() * out_;
}

void Dense::prepare(const LayerContext& context, std::vector<ParameterView> parameters) {
  context_ = context;
  weight_ = std::move(parameters.at(0));
  bias_ = std::move(parameters.at(1));
  const Box& block = context.boxes.src_needed[0];
  require(context.boxes.dst_produced == Box::whole(context.dst_shape) &&
              context.dst_span == context.boxes.dst_produced && context.dst_chunks.size() == 1,
          text("dense layer: cannot compute {} of its outputs in {} chunks",
               context.boxes.dst_produced, context.dst_chunks.size()),
          "a part computes all outputs of a dense layer at once");
  if (!reproducible_)
    kernels_.emplace(context.batch, block.volume(), out_, !bias_.values.empty(), context.training);
  if (!is_contiguous(context.src_spans[0], block, context.batch))
    scratch_ = AlignedBuffer<float>(context.batch * block.volume());
}

const float* Dense::dense_src(ConstView src) {
  const Box& block = context_.boxes.src_needed[0];
  if (scratch_.size() == 0) return src.begin_of(0, block);
  pack(src, block, scratch_.data());
  return scratch_.data();
}

void Dense::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst, const Box&) {
  if (reproducible_)
    return ordered().forward(context_.batch, dense_src(src[0].as<float>()), weight_.values.data(),
                             bias_.values.data(), dst.as<float>().data);
  kernels_->forward(dense_src(src[0].as<float>()), weight_.values.data(),
                    bias_.values.empty() ? nullptr : bias_.values.data(), dst.as<float>().data);
}

void Dense::backward_data(const Pass&, const ForwardValues&, AnyConstView diff_dst, std::size_t,
                          AnyView diff_src) {
  const Box& block = context_.boxes.src_needed[0];
  const bool in_place = scratch_.size() == 0;
  const View target = diff_src.as<float>();
  float* const diff = in_place ? target.begin_of(0, block) : scratch_.data();
  if (reproducible_)
    ordered().backward_data(context_.batch, diff_dst.as<float>().data, weight_.values.data(), diff);
  else
    kernels_->backward_data(diff_dst.as<float>().data, weight_.values.data(), diff);
  if (!in_place) unpack_copy(diff, block, target);
}

void Dense::backward_parameters(const Pass&, std::span<const AnyConstView> src,
                                AnyConstView diff_dst) {
  if (reproducible_)
    return ordered().backward_weights(context_.batch, dense_src(src[0].as<float>()),
                                      diff_dst.as<float>().data, weight_.exact, bias_.exact);
  kernels_->backward_weights(dense_src(src[0].as<float>()), diff_dst.as<float>().data,
                             weight_.diffs.data(),
                             bias_.diffs.empty() ? nullptr : bias_.diffs.data());
}

std::vector<std::string> Dense::implementations() const {
  return kernels_ ? kernels_->implementations() : std::vector<std::string>{};
}

}  // namespace halomesh
