// SPDX-License-Identifier: Apache-2.0
// A 3-D convolution on oneDNN: see convolution.hpp.
#include "src/nn/layers/convolution.hpp"

#include <algorithm>
#include <utility>

#include "error.hpp"
#include "partition/window.hpp"
#include "src/nn/kernels/dense_box.hpp"
#include "src/nn/kernels/isa_kernels.hpp"
#include "src/nn/onednn/library.hpp"

namespace halomesh {

Convolution::Convolution(const ConvolutionOptions& options)
    : options_(options),
      products_type_(options.kernels == GradientKernels::kDense
                         ? options.compute
                         : fastest_products(options.compute)),
      kernels_(form()) {
  require(options.filters > 0, text("convolution with {} filters", options.filters),
          "use at least one filter");
  require(options.groups > 0 && options.filters % options.groups == 0,
          text("convolution with {} filters in {} groups", options.filters, options.groups),
          "the number of groups must divide the number of filters");
  require(options.compute == DataType::kFloat32 || options.compute == DataType::kBfloat16,
          text("a convolution in {}", name_of(options.compute)), "use fp32 or bf16");
}

Shape Convolution::dst_shape(std::span<const Shape> src) const {
  require(src.size() == 1, text("convolution with {} inputs", src.size()),
          "a convolution takes one input");
  require(src[0].c % options_.groups == 0,
          text("convolution of {} channels in {} groups", src[0].c, options_.groups),
          "the number of groups must divide the number of input channels");
  const Spatial extents = dst_extents(options_.window.resolve(src[0].spatial()), src[0].spatial());
  return {options_.filters, extents[0], extents[1], extents[2]};
}

DataType Convolution::dst_type(std::span<const DataType> src) const {
  for (const DataType type : src)
    require(type == options_.compute || type == DataType::kFloat32 || type == DataType::kInt16,
            text("a convolution in {} given {}", name_of(options_.compute), name_of(type)),
            "let the layer before it write fp32 or the type that the convolution computes in");
  return type_of_dst();
}

Box Convolution::needs(const Box& dst, std::size_t /*input*/, std::span<const Shape> src) const {
  Box box = needed_box(options_.window.resolve(src[0].spatial()), dst, src[0]);
  if (box.empty()) return box;
  const std::int64_t out = filters_per_group(), in = src[0].c / options_.groups;
  box.lo[kC] = dst.lo[kC] / out * in;
  box.hi[kC] = ((dst.hi[kC] - 1) / out + 1) * in;
  return box;
}

std::vector<ParameterGeometry> Convolution::parameters(std::span<const Shape> src) const {
  using Kind = InitialValues::Kind;
  const Spatial& k = options_.window.kernel;
  const Shape in{src[0].c / options_.groups, k[0], k[1], k[2]};
  const std::int64_t taps = k[0] * k[1] * k[2];
  std::vector<ParameterGeometry> parameters{{"weight",
                                             options_.filters,
                                             in,
                                             false,
                                             in.volume(),
                                             filters_per_group() * taps,
                                             {options_.initial}}};
  if (options_.bias && options_.initial == Kind::kFanInUniform)
    parameters.push_back(
        {"bias", options_.filters, {1, 1, 1, 1}, false, in.volume(), 0, {options_.initial}});
  else if (options_.bias)
    parameters.push_back({"bias", options_.filters, {1, 1, 1, 1}, false, 0, 0});
  return parameters;
}

std::string Convolution::kernel_name() const {
  const std::string groups =
      options_.groups > 1 ? fmt::format(" in {} groups", options_.groups) : "";
  const std::string kernels = options_.kernels == GradientKernels::kDense      ? " dense"
                              : options_.kernels == GradientKernels::kWinograd ? " winograd"
                                                                               : "";
  return fmt::format("convolution {}{}{} {}{}{}", text_of(options_.window), groups,
                     options_.bias ? "" : " without bias", name_of(options_.compute),
                     type_of_dst() == options_.compute ? "" : " to fp32", kernels);
}

std::int64_t Convolution::forward_flops(std::span<const Shape> src) const {
  const Shape dst = dst_shape(src);
  return 2 * dst.volume() * parameters(src)[0].in.volume();
}

ConvolutionGeometry Convolution::geometry_of(const Box& dst, const Box& src) const {
  const BlockPadding padding = block_padding(window_, dst, context_.src_shapes[0]);
  const WindowOptions& w = options_.window;
  const std::int64_t groups = std::max<std::int64_t>(1, dst.extent(kC) / filters_per_group());
  return {src.shape(), dst.shape(),    w.kernel,      w.stride,
          w.dilation,  padding.before, padding.after, groups};
}

ConvolutionForm Convolution::form() const {
  const bool widens = products_type_ != options_.compute;
  return {products_type_, widens ? products_type_ : type_of_dst(), options_.bias, options_.bias};
}

void Convolution::prepare_winograd() {
  constexpr Spatial kOnes{1, 1, 1};
  const WindowOptions& w = options_.window;
  if (options_.kernels == GradientKernels::kDense || context_.src_types[0] != options_.compute ||
      options_.groups != 1 || w.stride != kOnes || w.dilation != kOnes)
    return;
  winograd_ = isa_kernels().make_winograd_passes(
      {w.kernel,
       {window_[0].pad_before, window_[1].pad_before, window_[2].pad_before},
       options_.kernels == GradientKernels::kWinograd,
       options_.bias,
       products_at_once(options_.compute)},
      context_);
}

void Convolution::reserve_scratch(const Box& src, const Box& dst) {
  if (converted_src_)
    converted_src_->reserve(context_.src_spans[0], src);
  else
    src_bytes_ = std::max(src_bytes_, dense_bytes(context_.src_spans[0], src, products_type_));
  const DataType made = form().dst;
  dst_bytes_ =
      std::max(dst_bytes_, made == type_of_dst() ? dense_bytes(context_.dst_span, dst, made)
                                                 : dst.volume() * size_of(made));
}

// The conversion of data of `type` into the type of products, rounded to the compute type; none
// where they have both.
std::optional<DenseSource> Convolution::conversion_from(
    DataType type, std::span<const ChannelScale> scales) const {
  if (type == products_type_ && type == options_.compute) return std::nullopt;
  const DataType precision = type == DataType::kBfloat16 ? products_type_ : options_.compute;
  return DenseSource(type, products_type_, precision, scales);
}

void Convolution::take_scratch() {
  Scratch scratch = context_.scratch;
  src_scratch_ = scratch.take<std::byte>(src_bytes_);
  dst_scratch_ = scratch.take<std::byte>(dst_bytes_);
  if (converted_src_) converted_src_->take(scratch);
  if (converted_diff_dst_) converted_diff_dst_->take(scratch);
  kernels_.allocate(scratch, context_.batch > 1);
  if (taps_) taps_->take(scratch);
  if (products_) products_->take(scratch, context_.batch);
}

const void* Convolution::read_src(AnyConstView src, std::int64_t n, const Box& box) {
  return converted_src_ ? converted_src_->read(src, n, box) : read_dense(src, n, box, src_scratch_);
}

const void* Convolution::read_diff_dst(AnyConstView diff_dst, std::int64_t n) {
  const Box& produced = context_.boxes.dst_produced;
  return converted_diff_dst_ ? converted_diff_dst_->read(diff_dst, n, produced)
                             : read_dense(diff_dst, n, produced, dst_scratch_);
}

void Convolution::prepare_chunk(const Box& dst, const Box& src) {
  chunks_.push_back({dst, src});
  if (winograd_ && winograd_->has_forward()) return;
  const ConvolutionGeometry block = geometry_of(dst, src);
  PreparedChunk& chunk = chunks_.back();
  const Box& produced = context_.boxes.dst_produced;
  const std::int64_t voxels = context_.batch * produced.volume() / produced.extent(kC);
  chunk.product =
      PointwiseProducts::make_forward_if_pays(block, products_type_, options_.bias, voxels);
  if (!chunk.product) chunk.kernel = kernels_.add_forward(block);
  reserve_scratch(src, dst);
}

void Convolution::prepare(const LayerContext& context, std::vector<ParameterView> parameters) {
  context_ = context;
  parameters_ = std::move(parameters);
  window_ = options_.window.resolve(context.src_shapes[0].spatial());
  const Box& produced = context.boxes.dst_produced;
  const std::int64_t out = filters_per_group(), lo = produced.lo[kC], hi = produced.hi[kC];
  require((lo % out == 0 && hi % out == 0) || lo / out == (hi - 1) / out,
          text("layer {}: output channels [{},{}) of a convolution in groups of {}", context.index,
               lo, hi, out),
          "cut grouped convolutions along d, h and w, or between groups");
  const DataType from = context.src_types[0];
  converted_src_ = conversion_from(from, context.count_scales);
  prepare_winograd();
  const auto needed = [&](const Box& dst) { return needs(dst, 0, context_.src_shapes); };
  for (const Box& dst : context.dst_chunks) prepare_chunk(dst, needed(dst));
  if (context.training) {
    const Box src = needed(produced);
    const ConvolutionGeometry block = geometry_of(produced, src);
    const bool data = context.src_diff_wanted[0] && !(winograd_ && winograd_->has_backward_data());
    const bool weights = !(winograd_ && winograd_->has_backward_weights());
    if (data || weights)
      products_ = PointwiseProducts::make_if_suits(block, products_type_, options_.bias, true);
    if (data) {
      require(from != DataType::kInt16, text("layer {}: the gradient of counts", context.index),
              "let a convolution read counts only as the input of a network");
      if (!products_) kernels_.add_backward_data(block);
      src_bytes_ =
          std::max(src_bytes_, from == products_type_ ? dense_bytes(context.src_spans[0], src, from)
                                                      : src.volume() * size_of(products_type_));
    }
    if (weights && !products_ && TapGradients::suits(block, products_type_))
      taps_.emplace(block, products_type_, options_.bias);
    else if (weights && !products_)
      kernels_.add_backward_weights(block);
    if (data || weights) reserve_scratch(src, produced);
    converted_diff_dst_ = conversion_from(type_of_dst());
    if (converted_diff_dst_) converted_diff_dst_->reserve(context.dst_span, produced);
  }
  take_scratch();
}

std::vector<std::string> Convolution::implementations() const {
  std::vector<std::string> names = kernels_.implementations();
  if (taps_)
    names.insert(names.end(), taps_->implementations().begin(), taps_->implementations().end());
  const auto add_products = [&](const std::optional<PointwiseProducts>& products) {
    if (products)
      for (const std::string& name : products->implementations())
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const PreparedChunk& chunk : chunks_) add_products(chunk.product);
  add_products(products_);
  if (!winograd_) return names;
  for (const auto& [role, here] : {std::pair{"forward", winograd_->has_forward()},
                                   {"backward_data", winograd_->has_backward_data()},
                                   {"backward_weights", winograd_->has_backward_weights()}})
    if (here) names.push_back(fmt::format("{} fp32 winograd:halomesh", role));
  return names;
}

void Convolution::load_parameters() {
  const float* const weight = parameters_[0].values.data();
  const float* const bias = options_.bias ? parameters_[1].values.data() : nullptr;
  kernels_.load_weights(weight, bias);
  if (winograd_) winograd_->load_weights(weight, bias);
}

void Convolution::forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
                          const Box& chunk) {
  const auto at = std::find_if(chunks_.begin(), chunks_.end(),
                               [&](const PreparedChunk& c) { return c.dst == chunk; });
  if (at == chunks_.end())
    throw Error(
        fmt::format("layer {}: forward of {}, which was not prepared", context_.index, chunk),
        "list every chunk in LayerContext::dst_chunks");
  const bool winograd = winograd_ && winograd_->has_forward();
  for (std::int64_t n = 0; n < context_.batch; ++n) {
    if (winograd) {
      winograd_->forward(pass, src[0], at->src, n, dst, chunk);
      continue;
    }
    const DataType made = form().dst;
    const void* const from = read_src(src[0], n, at->src);
    std::byte* const to = write_dense(dst, made, n, chunk, dst_scratch_);
    if (at->product)
      at->product->forward(static_cast<const float*>(from), parameters_[0].values.data(),
                           options_.bias ? parameters_[1].values.data() : nullptr,
                           reinterpret_cast<float*>(to));
    else
      kernels_.forward(at->kernel, from, to);
    finish_dense(dst, made, n, chunk, dst_scratch_);
    pass.progress();
  }
}

void Convolution::backward_data(const Pass& pass, const ForwardValues& /*values*/,
                                AnyConstView diff_dst, std::size_t /*input*/, AnyView diff_src) {
  const Box& needed = context_.boxes.src_needed[0];
  const bool winograd = winograd_ && winograd_->has_backward_data();
  if (!winograd && !products_) kernels_.load_backward_weights();
  for (std::int64_t n = 0; n < context_.batch; ++n) {
    if (winograd) {
      winograd_->backward_data(pass, diff_dst, n, diff_src);
      continue;
    }
    const void* const diff = read_diff_dst(diff_dst, n);
    std::byte* const to = write_dense(diff_src, products_type_, n, needed, src_scratch_);
    if (products_)
      products_->backward_data(static_cast<const float*>(diff), parameters_[0].values.data(),
                               reinterpret_cast<float*>(to));
    else
      kernels_.backward_data(0, diff, to);
    finish_dense(diff_src, products_type_, n, needed, src_scratch_);
    pass.progress();
  }
}

void Convolution::backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                                      AnyConstView diff_dst) {
  const Box& needed = context_.boxes.src_needed[0];
  float* const diff_weight = parameters_[0].diffs.data();
  float* const diff_bias = options_.bias ? parameters_[1].diffs.data() : nullptr;
  if (winograd_ && winograd_->has_backward_weights()) {
    for (std::int64_t n = 0; n < context_.batch; ++n)
      winograd_->backward_weights(pass, src[0], diff_dst, n);
    winograd_->store_diff_weights(diff_weight, diff_bias);
    return;
  }
  for (std::int64_t n = 0; n < context_.batch; ++n) {
    const void* const from = read_src(src[0], n, needed);
    const void* const diff = read_diff_dst(diff_dst, n);
    if (products_)
      products_->backward_weights(static_cast<const float*>(from), static_cast<const float*>(diff),
                                  n == 0, diff_weight, diff_bias);
    else if (taps_)
      taps_->add(from, diff);
    else
      kernels_.backward_weights(0, from, diff);
    pass.progress();
  }
  if (taps_)
    taps_->store(diff_weight, diff_bias);
  else if (!products_)
    kernels_.store_diff_weights(diff_weight, diff_bias);
}

}  // namespace halomesh
