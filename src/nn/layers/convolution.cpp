// SPDX-License-Identifier: Apache-2.0
// A 3-D convolution on oneDNN: see convolution.hpp.
#include "src/nn/layers/convolution.hpp"

#include <algorithm>
#include <utility>

#include "error.hpp"
#include "partition/window.hpp"
#include "src/nn/pack.hpp"

namespace halomesh {
namespace {

template <class T>
TensorView<T> sample_of(TensorView<T> view, std::int64_t n) {
  return {view.data + n * view.sample_volume(), view.span, 1};
}

// Sample n of `box` as contiguous memory: in place, or packed into `scratch`.
const float* read_dense(ConstView view, std::int64_t n, const Box& box,
                        AlignedBuffer<float>& scratch) {
  if (view.is_dense(box)) return view.begin_of(n, box);
  pack(sample_of(view, n), box, scratch.data());
  return scratch.data();
}

// Where to compute sample n of `box`; write_back() then brings it into the view.
float* write_target(View view, std::int64_t n, const Box& box, AlignedBuffer<float>& scratch) {
  return view.is_dense(box) ? view.begin_of(n, box) : scratch.data();
}

void write_back(View view, std::int64_t n, const Box& box, const AlignedBuffer<float>& scratch) {
  if (!view.is_dense(box)) unpack_copy(scratch.data(), box, sample_of(view, n));
}

void grow(AlignedBuffer<float>& buffer, const Box& span, const Box& box) {
  if (ConstView{nullptr, span, 1}.is_dense(box) || box.volume() <= buffer.size()) return;
  buffer = AlignedBuffer<float>(box.volume());
}

}  // namespace

Convolution::Convolution(const ConvolutionOptions& options) : options_(options) {
  require(options.filters > 0, text("convolution with {} filters", options.filters),
          "use at least one filter");
}

Shape Convolution::dst_shape(std::span<const Shape> src) const {
  require(src.size() == 1, text("convolution with {} inputs", src.size()),
          "a convolution takes one input");
  const Spatial extents = dst_extents(options_.window.resolve(src[0].spatial()), src[0].spatial());
  return {options_.filters, extents[0], extents[1], extents[2]};
}

Box Convolution::needs(const Box& dst, std::size_t /*input*/, std::span<const Shape> src) const {
  return needed_box(options_.window.resolve(src[0].spatial()), dst, src[0]);
}

std::vector<ParameterGeometry> Convolution::parameters(std::span<const Shape> src) const {
  const Spatial& k = options_.window.kernel;
  const Shape in{src[0].c, k[0], k[1], k[2]};
  const std::int64_t taps = k[0] * k[1] * k[2];
  return {{"weight", options_.filters, in, false, src[0].c * taps, options_.filters * taps},
          {"bias", options_.filters, {1, 1, 1, 1}, false, 0, 0}};
}

std::string Convolution::kernel_name() const {
  return "convolution " + text_of(options_.window) + " fp32";
}

std::int64_t Convolution::forward_flops(std::span<const Shape> src) const {
  const Shape dst = dst_shape(src);
  return 2 * dst.volume() * parameters(src)[0].in.volume();
}

ConvolutionGeometry Convolution::geometry_of(const Box& dst, const Box& src) const {
  const BlockPadding padding = block_padding(window_, dst, context_.src_shapes[0]);
  const WindowOptions& w = options_.window;
  return {src.shape(), dst.shape(), w.kernel, w.stride, w.dilation, padding.before, padding.after};
}

void Convolution::reserve_scratch(const Box& src, const Box& dst) {
  grow(src_scratch_, context_.src_spans[0], src);
  grow(dst_scratch_, context_.dst_span, dst);
}

void Convolution::prepare(const LayerContext& context, std::vector<ParameterView> parameters) {
  context_ = context;
  parameters_ = std::move(parameters);
  window_ = options_.window.resolve(context.src_shapes[0].spatial());
  const Box& produced = context.boxes.dst_produced;
  require(produced.extent(kC) == options_.filters,
          text("layer {}: a convolution cut over its output channels ({} of {} filters)",
               context.index, produced, options_.filters),
          "cut convolutions along d, h and w only");
  for (const ParameterView& p : parameters_)
    require(p.slice == p.geometry.whole(),
            text("layer {}: a convolution with a slice {} of its {}", context.index, p.slice,
                 p.geometry.name),
            "cut convolutions along d, h and w only");
  const auto needed = [&](const Box& dst) { return needs(dst, 0, context_.src_shapes); };
  for (const Box& dst : context.dst_chunks) {
    const Box src = needed(dst);
    chunks_.push_back({dst, src, kernels_.add_forward(geometry_of(dst, src))});
    reserve_scratch(src, dst);
  }
  if (context.training) {
    const Box src = needed(produced);
    const ConvolutionGeometry block = geometry_of(produced, src);
    if (context.src_diff_wanted[0]) kernels_.add_backward_data(block);
    kernels_.add_backward_weights(block);
    reserve_scratch(src, produced);
  }
  kernels_.allocate(context.batch > 1);
}

void Convolution::load_parameters() {
  kernels_.load_weights(parameters_[0].values.data(), parameters_[1].values.data());
}

void Convolution::forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
                          const Box& chunk) {
  const auto at = std::find_if(chunks_.begin(), chunks_.end(),
                               [&](const PreparedChunk& c) { return c.dst == chunk; });
  if (at == chunks_.end())
    throw Error(
        fmt::format("layer {}: forward of {}, which was not prepared", context_.index, chunk),
        "list every chunk in LayerContext::dst_chunks");
  const View to = dst.as<float>();
  for (std::int64_t n = 0; n < context_.batch; ++n) {
    kernels_.forward(at->kernel, read_dense(src[0].as<float>(), n, at->src, src_scratch_),
                     write_target(to, n, chunk, dst_scratch_));
    write_back(to, n, chunk, dst_scratch_);
    pass.progress();
  }
}

void Convolution::backward_data(const Pass& pass, const ForwardValues& /*values*/,
                                AnyConstView diff_dst, std::size_t /*input*/, AnyView diff_src) {
  const Box &produced = context_.boxes.dst_produced, &needed = context_.boxes.src_needed[0];
  for (std::int64_t n = 0; n < context_.batch; ++n) {
    kernels_.backward_data(0, read_dense(diff_dst.as<float>(), n, produced, dst_scratch_),
                           write_target(diff_src.as<float>(), n, needed, src_scratch_));
    write_back(diff_src.as<float>(), n, needed, src_scratch_);
    pass.progress();
  }
}

void Convolution::backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                                      AnyConstView diff_dst) {
  const Box &produced = context_.boxes.dst_produced, &needed = context_.boxes.src_needed[0];
  for (std::int64_t n = 0; n < context_.batch; ++n) {
    kernels_.backward_weights(0, read_dense(src[0].as<float>(), n, needed, src_scratch_),
                              read_dense(diff_dst.as<float>(), n, produced, dst_scratch_));
    pass.progress();
  }
  kernels_.store_diff_weights(parameters_[0].diffs.data(), parameters_[1].diffs.data());
}

}  // namespace halomesh
