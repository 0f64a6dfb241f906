// SPDX-License-Identifier: Apache-2.0
// The gradient of a convolution as a layer: see transposed_convolution.hpp.
#include "src/nn/layers/transposed_convolution.hpp"

#include <algorithm>
#include <utility>

#include "src/nn/kernels/dense_box.hpp"
#include "src/nn/kernels/float_types.hpp"
#include "src/nn/onednn/library.hpp"
#include "src/nn/runs.hpp"

namespace halomesh {
TransposedConvolution::TransposedConvolution(const TransposedConvolutionOptions& options)
    : options_(options),
      kernels_(ConvolutionForm{options.compute, options.compute, false, false, false,
                               type_of_dst() != options.compute, true,
                               fastest_products(options.compute)}) {
  require(options.filters > 0, text("transposed convolution with {} filters", options.filters),
          "use at least one filter");
  require(options.compute != DataType::kInt16, "transposed convolution of int16",
          "use fp32 or bf16");
  transposed_window().check();
}

Shape TransposedConvolution::dst_shape(std::span<const Shape> src) const {
  require(src.size() == 1, text("transposed convolution of {} inputs", src.size()),
          "name one input for it");
  const Spatial dst = transposed_window().dst_extents(src[0].spatial());
  return {options_.filters, dst[0], dst[1], dst[2]};
}

Box TransposedConvolution::needs(const Box& dst, std::size_t, std::span<const Shape> src) const {
  return transposed_window().needed_box(dst, src[0]);
}

std::vector<ParameterGeometry> TransposedConvolution::parameters(std::span<const Shape> src) const {
  using Kind = InitialValues::Kind;
  const Spatial& k = options_.window.kernel;
  const Shape out{options_.filters, k[0], k[1], k[2]};
  const std::int64_t taps = k[0] * k[1] * k[2];
  std::vector<ParameterGeometry> parameters{
      {"weight", src[0].c, out, false, out.volume(), src[0].c * taps, {options_.initial}}};
  const bool random_bias = options_.initial == Kind::kFanInUniform;
  if (options_.bias)
    parameters.push_back({"bias",
                          options_.filters,
                          {1, 1, 1, 1},
                          false,
                          random_bias ? out.volume() : 0,
                          0,
                          {random_bias ? options_.initial : Kind::kGlorotUniform}});
  return parameters;
}

ParameterSlice TransposedConvolution::parameter_slice(std::size_t parameter,
                                                      const LayerBoxes& boxes,
                                                      std::span<const Shape> src) const {
  const Box& dst = boxes.dst_produced;
  if (parameter > 0 || dst.empty()) return Layer::parameter_slice(parameter, boxes, src);
  Box in = Box::whole(parameters(src)[0].in);
  in.lo[kC] = dst.lo[kC];
  in.hi[kC] = dst.hi[kC];
  return {{0, src[0].c}, in};
}

DataType TransposedConvolution::dst_type(std::span<const DataType> src) const {
  require_type(src, options_.compute, "transposed convolution");
  return type_of_dst();
}

std::string TransposedConvolution::kernel_name() const {
  return fmt::format("transposed {}{} {}{}", text_of(options_.window),
                     options_.bias ? "" : " without bias", name_of(options_.compute),
                     type_of_dst() == options_.compute ? "" : " to fp32");
}

std::int64_t TransposedConvolution::forward_flops(std::span<const Shape> src) const {
  return 2 * src[0].volume() * parameters(src)[0].in.volume();
}

TransposedConvolution::Block TransposedConvolution::block_of(const Box& dst) const {
  Block block{dst, dst, needs(dst, 0, context_.src_shapes), 0};
  for (std::size_t a = 0; a < 3; ++a) {
    const Range reached = intersect(Range{dst.lo[a + 1], dst.hi[a + 1]},
                                    window_[a].reads({block.src.lo[a + 1], block.src.hi[a + 1]}));
    block.reached.lo[a + 1] = reached.lo;
    block.reached.hi[a + 1] = std::max(reached.lo, reached.hi);
  }
  if (block.src.empty()) block.reached = {};
  block.reached = block.reached.normalized();
  return block;
}

ConvolutionGeometry TransposedConvolution::geometry_of(const Block& block) const {
  const WindowOptions& w = options_.window;
  ConvolutionGeometry geometry{
      block.reached.shape(), block.src.shape(), w.kernel, w.stride, w.dilation, {}, {}, 1};
  for (std::size_t a = 0; a < 3; ++a) {
    const Range reads = window_[a].reads({block.src.lo[a + 1], block.src.hi[a + 1]});
    geometry.pad_before[a] = block.reached.lo[a + 1] - reads.lo;
    geometry.pad_after[a] = reads.hi - block.reached.hi[a + 1];
  }
  return geometry;
}

void TransposedConvolution::reserve_scratch(const Block& block) {
  src_bytes_ =
      std::max(src_bytes_, dense_bytes(context_.src_spans[0], block.src, options_.compute));
  dst_bytes_ = std::max(dst_bytes_, dense_bytes(context_.dst_span, block.reached, type_of_dst()));
}

const void* TransposedConvolution::read_diff_dst(AnyConstView diff_dst, std::int64_t n) {
  return converted_diff_dst_ ? converted_diff_dst_->read(diff_dst, n, produced_.reached)
                             : read_dense(diff_dst, n, produced_.reached, dst_scratch_);
}

void TransposedConvolution::prepare(const LayerContext& context,
                                    std::vector<ParameterView> parameters) {
  context_ = context;
  parameters_ = std::move(parameters);
  window_ = transposed_window().resolve(context.src_shapes[0].spatial());
  for (const Box& dst : context.dst_chunks) {
    Block& block = chunks_.emplace_back(block_of(dst));
    if (block.src.empty()) continue;
    block.kernel = kernels_.add_backward_data(geometry_of(block));
    reserve_scratch(block);
  }
  produced_ = block_of(context.boxes.dst_produced);
  if (context.training && !produced_.src.empty()) {
    const ConvolutionGeometry geometry = geometry_of(produced_);
    if (context.src_diff_wanted[0]) produced_.kernel = kernels_.add_forward(geometry);
    if (TapGradients::suits_transposed(geometry, options_.compute))
      taps_.emplace(geometry, options_.compute, false);
    else
      kernels_.add_backward_weights(geometry);
    reserve_scratch(produced_);
    if (type_of_dst() != options_.compute) {
      converted_diff_dst_.emplace(type_of_dst(), options_.compute, options_.compute);
      converted_diff_dst_->reserve(context.dst_span, produced_.reached);
    }
  }
  if (context.training && options_.bias)
    bias_sums_ = ChannelSums(context.boxes.dst_produced.extent(kC), 1);
  Scratch scratch = context.scratch;
  src_scratch_ = scratch.take<std::byte>(src_bytes_);
  dst_scratch_ = scratch.take<std::byte>(dst_bytes_);
  if (converted_diff_dst_) converted_diff_dst_->take(scratch);
  kernels_.allocate(scratch, context.batch > 1);
  if (taps_) taps_->take(scratch);
}

std::vector<std::string> TransposedConvolution::implementations() const {
  std::vector<std::string> names = kernels_.implementations();
  if (taps_)
    names.insert(names.end(), taps_->implementations().begin(), taps_->implementations().end());
  return names;
}

void TransposedConvolution::load_parameters() {
  kernels_.load_weights(parameters_[0].values.data(), nullptr);
}

void TransposedConvolution::add_bias(AnyView dst, const Box& box) const {
  const float* const bias = parameters_[1].values.data();
  with_float_type(type_of_dst(), [&](auto zero) {
    using T = decltype(zero);
    const auto to = dst.as<T>();
    visit_runs(box, to.batch, false, [&](const Run& run) {
      T* const y = run.begin_in(to, box);
      for (std::int64_t c = 0; c < run.length; ++c) y[c] = T(static_cast<float>(y[c]) + bias[c]);
    });
  });
}

void TransposedConvolution::forward(const Pass& pass, std::span<const AnyConstView> src,
                                    AnyView dst, const Box& chunk) {
  const auto at = std::find_if(chunks_.begin(), chunks_.end(),
                               [&](const Block& block) { return block.dst == chunk; });
  if (at == chunks_.end())
    throw Error(
        fmt::format("layer {}: forward of {}, which was not prepared", context_.index, chunk),
        "list every chunk in LayerContext::dst_chunks");
  if (at->reached != chunk) clear(dst, chunk);
  for (std::int64_t n = 0; n < context_.batch && !at->src.empty(); ++n) {
    kernels_.backward_data(at->kernel, read_dense(src[0], n, at->src, src_scratch_),
                           write_dense(dst, dst.type, n, at->reached, dst_scratch_));
    finish_dense(dst, dst.type, n, at->reached, dst_scratch_);
    pass.progress();
  }
  if (options_.bias) add_bias(dst, chunk);
}

void TransposedConvolution::backward_data(const Pass& pass, const ForwardValues&,
                                          AnyConstView diff_dst, std::size_t, AnyView diff_src) {
  kernels_.load_backward_weights();
  for (std::int64_t n = 0; n < context_.batch && !produced_.src.empty(); ++n) {
    kernels_.forward(produced_.kernel, read_diff_dst(diff_dst, n),
                     write_dense(diff_src, diff_src.type, n, produced_.src, src_scratch_));
    finish_dense(diff_src, diff_src.type, n, produced_.src, src_scratch_);
    pass.progress();
  }
}

void TransposedConvolution::backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                                                AnyConstView diff_dst) {
  for (std::int64_t n = 0; n < context_.batch && !produced_.src.empty(); ++n) {
    const void* const diff = read_diff_dst(diff_dst, n);
    const void* const from = read_dense(src[0], n, produced_.src, src_scratch_);
    if (taps_)
      taps_->add(diff, from);
    else
      kernels_.backward_weights(0, diff, from);
    pass.progress();
  }
  if (produced_.src.empty())
    std::fill(parameters_[0].diffs.begin(), parameters_[0].diffs.end(), 0.0F);
  else if (taps_)
    taps_->store(parameters_[0].diffs.data(), nullptr);
  else
    kernels_.store_diff_weights(parameters_[0].diffs.data(), nullptr);
  if (!options_.bias) return;
  const Box& box = context_.boxes.dst_produced;
  with_float_type(type_of_dst(), [&](auto zero) {
    using T = decltype(zero);
    const auto dy = diff_dst.as<T>();
    const auto totals = bias_sums_.over(
        box, 0, context_.batch, [&](auto n, auto d, auto h, auto w, double* const sums) {
          const T* const diff = dy.data + dy.offset(n, box.lo[kC], d, h, w);
          for (std::int64_t c = 0; c < box.extent(kC); ++c)
            sums[c] += static_cast<double>(static_cast<float>(diff[c]));
        });
    for (std::size_t c = 0; c < totals.size(); ++c)
      parameters_[1].diffs[c] = static_cast<float>(totals[c]);
  });
}

}  // namespace halomesh
