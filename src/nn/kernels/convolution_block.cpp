// SPDX-License-Identifier: Apache-2.0
// A fused convolution block: see convolution_block.hpp.
#include "src/nn/kernels/convolution_block.hpp"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "error.hpp"
#include "src/nn/kernels/thread_shares.hpp"
#include "src/nn/onednn/library.hpp"
#include "src/nn/pack.hpp"

namespace halomesh {
inline namespace HALOMESH_ISA {
namespace {

std::int64_t cache_bytes_of_a_core() {
#ifdef _SC_LEVEL2_CACHE_SIZE
  if (const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE); bytes > 0) return bytes;
#endif
  return std::int64_t{1} << 20;
}

Shape only(std::span<const Shape> src) {
  require(src.size() == 1, text("convolution block with {} inputs", src.size()),
          "a convolution block takes one input");
  return src[0];
}

}  // namespace

ConvolutionBlock::ConvolutionBlock(const ConvolutionBlockOptions& options)
    : options_(options), activation_{options.pool, options.slope} {
  require(options.filters > 0, text("convolution block with {} filters", options.filters),
          "use at least one filter");
  const Spatial& p = options.pool;
  require(p[0] > 0 && p[1] > 0 && p[2] > 0 && p[0] <= kSlopeBit && p[1] <= kSlopeBit &&
              p[2] <= kSlopeBit && p[0] * p[1] * p[2] <= kSlopeBit,
          text("convolution block with pooling windows of {}x{}x{}", p[0], p[1], p[2]),
          "a window may have 1 to 128 elements: the argmax is stored in seven bits");
  require(std::isfinite(options.slope) && options.slope >= 0,
          text("convolution block with a leaky ReLU of slope {:g}", options.slope),
          "use a finite slope of at least 0");
  require(options.compute != DataType::kInt16 && options.dst != DataType::kInt16,
          text("convolution block that computes in {} and writes {}", name_of(options.compute),
               name_of(options.dst)),
          "use fp32 or bf16");
}

ConvolutionBlockGeometry ConvolutionBlock::geometry_on(const Shape& src) const {
  return {options_.window, options_.pool, options_.filters, src};
}

Shape ConvolutionBlock::dst_shape(std::span<const Shape> src) const {
  return geometry_on(only(src)).dst_shape();
}

Box ConvolutionBlock::needs(const Box& dst, std::size_t /*input*/,
                            std::span<const Shape> src) const {
  return geometry_on(only(src)).needs(dst);
}

DataType ConvolutionBlock::dst_type(std::span<const DataType> src) const {
  for (const DataType type : src)
    require(type != DataType::kBfloat16 || options_.compute == DataType::kBfloat16,
            "a convolution block that computes in fp32 given bf16",
            "let it compute in bf16, or the layer before it write fp32");
  return options_.dst;
}

std::vector<ParameterGeometry> ConvolutionBlock::parameters(std::span<const Shape> src) const {
  const Spatial& k = options_.window.kernel;
  const Shape in{only(src).c, k[0], k[1], k[2]};
  const std::int64_t taps = k[0] * k[1] * k[2];
  return {{"weight", options_.filters, in, false, in.c * taps, options_.filters * taps},
          {"bias", options_.filters, {1, 1, 1, 1}, false, 0, 0}};
}

// The gradient of each cell of each sample becomes a term of an exact sum. More cells allow finer
// cuts but mean more terms. Measured at 128^3 (docs/reproducible.md): 4 million terms of a layer
// and sample take some hundredths of a step.
Spatial ConvolutionBlock::gradient_cells(std::span<const Shape> src) const {
  constexpr std::int64_t kMostCells = 8, kMostTerms = 1 << 22;
  const std::int64_t weights = parameters(src)[0].volume();
  const Spatial extents = dst_shape(src).spatial();
  Spatial cells{1, 1, 1};
  for (std::int64_t n = 2; n <= kMostCells && n * n * n * weights <= kMostTerms; n *= 2)
    for (std::size_t a = 0; a < 3; ++a)
      if (extents[a] % n == 0) cells[a] = n;
  return cells;
}

Box ConvolutionBlock::gradient_box(const Box& dst, std::span<const Shape> src) const {
  return geometry_on(only(src)).src_block(dst);
}

Box ConvolutionBlock::gradient_needs(const Box& diff_src, std::span<const Shape> src) const {
  return geometry_on(only(src)).reading(diff_src);
}

std::string ConvolutionBlock::kernel_name() const {
  const Spatial& pool = options_.pool;
  std::string name = fmt::format("block {} pool {}x{}x{} {}", text_of(options_.window), pool[0],
                                 pool[1], pool[2], name_of(options_.compute));
  if (options_.dst != options_.compute) name += fmt::format(" to {}", name_of(options_.dst));
  if (options_.kernels == GradientKernels::kDense) name += " dense gradients";
  if (options_.kernels == GradientKernels::kSparse) name += " sparse gradients";
  if (is_reproducible()) name += " reproducible";
  return name;
}

std::int64_t ConvolutionBlock::forward_flops(std::span<const Shape> src) const {
  const ConvolutionBlockGeometry geometry = geometry_on(only(src));
  return 2 * geometry.conv_box(Box::whole(geometry.dst_shape())).volume() *
         parameters(src)[0].in.volume();
}

std::vector<ThreadShare> ConvolutionBlock::thread_shares(std::span<const Shape> src, const Box& dst,
                                                         int threads) const {
  return HALOMESH_VECTORS::thread_shares(
      {only(src).c, dst.extent(kC), options_.window.kernel, options_.pool}, dst.shape().spatial(),
      threads);
}

void ConvolutionBlock::check_place() const {
  const Box& produced = context_.boxes.dst_produced;
  const Range rows{produced.lo[kC], produced.hi[kC]};
  for (const ParameterView& p : parameters_)
    require(p.slice == ParameterSlice{rows, Box::whole(p.geometry.in)},
            text("layer {}: a convolution block that produces {} with a slice {} of its {}",
                 context_.index, produced, p.slice, p.geometry.name),
            "give it the rows of the channels that it produces, with all their inputs");
  require(
      context_.src_types[0] == options_.compute || !context_.training ||
          !context_.src_diff_wanted[0],
      text("layer {}: the gradient of an input of {} from a convolution block that computes in {}",
           context_.index, name_of(context_.src_types[0]), name_of(options_.compute)),
      "let the layer before it write the type that the block computes in");
}

void ConvolutionBlock::check_reproducible() const {
  const WindowOptions& w = options_.window;
  constexpr Spatial kOnes{1, 1, 1};
  const bool few = has_few_channels();
  const PooledWeightGradient::Geometry geometry = gradient_geometry();
  require(options_.compute == DataType::kFloat32 && options_.dst == DataType::kFloat32 &&
              options_.pool == Spatial{2, 2, 2} && w.stride == kOnes && w.dilation == kOnes &&
              channels() == options_.filters &&
              (few ? !context_.src_diff_wanted[0]
                   : context_.src_types[0] == DataType::kFloat32 &&
                         WinogradConvolution::supports(geometry)),
          text("layer {}: no reproducible kernels for {} to {} channels, {}, pooled by {}x{}x{}",
               context_.index, context_.src_shapes[0].c, options_.filters, text_of(w),
               options_.pool[0], options_.pool[1], options_.pool[2]),
          "use fp32, up to 8 channels of input, kernels of 2 or 3 and a multiple of 16 filters");
}

// A buffer of the size of the caches is fastest: with the blocks of CosmoFlow at 128^3, kernel 2,
// fp32, 2 threads with 2 MiB of cache each (forward plus backward, relative to the sum of oneDNN's
// primitives, alternating), buffers of 1/8, 1/2, 1 and 4 times the caches take 0.91, 0.91, 0.87 and
// 0.89 of its time.
std::int64_t ConvolutionBlock::planes_in_caches(std::int64_t plane_bytes) const {
  const std::int64_t cache =
      options_.cache_bytes > 0 ? options_.cache_bytes : cache_bytes_of_a_core();
  return std::max<std::int64_t>(1, omp_get_max_threads() * cache / plane_bytes);
}

void ConvolutionBlock::reserve(std::int64_t conv_bytes) {
  planes_bytes_ = std::max(planes_bytes_, conv_bytes);
}

void ConvolutionBlock::prepare(const LayerContext& context, std::vector<ParameterView> parameters) {
  context_ = context;
  parameters_ = std::move(parameters);
  geometry_ = geometry_on(context.src_shapes[0]);
  (void)dst_type(context.src_types);
  check_place();
  if (is_reproducible()) check_reproducible();
  ConvolutionForm form{options_.compute, options_.compute, false};
  if (options_.kernels != GradientKernels::kDense) form.products = fastest_products(form.compute);
  kernels_ = ConvolutionKernels(form);
  source_ =
      DenseSource(context.src_types[0], options_.compute, options_.compute, context.count_scales);
  prepare_forward();
  if (context.training) {
    prepare_data_gradient();
    prepare_parameter_gradients();
  }
  Scratch scratch = context.scratch;
  planes_ = scratch.take<std::byte>(planes_bytes_);
  diff_src_ = scratch.take<std::byte>(diff_src_bytes_);
  source_.take(scratch);
  pooled_source_.take(scratch);
  kernels_.allocate(scratch, context.batch * std::ssize(weight_pieces_) > 1);
}

// With many channels, the library's kernels are faster although they also process the zeros.
bool ConvolutionBlock::has_few_channels() const {
  constexpr Spatial kOnes{1, 1, 1};
  const WindowOptions& w = options_.window;
  return context_.src_shapes[0].c <= pooled_weight::kMaxChannels && w.stride == kOnes &&
         w.dilation == kOnes;
}

Padding ConvolutionBlock::padding_of(const ConvolutionPiece& piece) const {
  const ConvolutionGeometry g = geometry_.convolution(piece);
  return {g.pad_before, g.pad_after};
}

// Cuts the output into pieces, which matters only where the input is converted, packed or padded
// first.
void ConvolutionBlock::prepare_pooled_forward() {
  pooled_forward_.emplace(options_.compute, context_.src_shapes[0].c, channels(),
                          options_.window.kernel);
  const DataType type = pooled_forward_->src_type();
  pooled_source_ =
      DenseSource(context_.src_types[0], type, options_.compute, context_.count_scales);
  for (const Box& dst : context_.dst_chunks) {
    PreparedChunk& chunk = chunks_.emplace_back(PreparedChunk{dst, {}});
    const Box src = geometry_.needs(dst);
    const std::int64_t plane_bytes = src.volume() / src.extent(kD) * size_of(type);
    const std::int64_t planes = planes_in_caches(plane_bytes) / options_.pool[0];
    for (const ConvolutionPiece& piece :
         geometry_.split_dst(dst, std::max<std::int64_t>(1, planes))) {
      chunk.pieces.push_back({piece});
      pooled_source_.reserve(context_.src_spans[0], piece.src, padding_of(piece));
    }
  }
}

// The cost depends on whether weights are transformed once for all chunks or again for each.
bool ConvolutionBlock::prefers_winograd() const {
  constexpr Spatial kOnes{1, 1, 1};
  const WindowOptions& w = options_.window;
  const PooledWeightGradient::Geometry geometry = gradient_geometry();
  if (options_.kernels == GradientKernels::kDense || context_.src_types[0] != options_.compute ||
      w.stride != kOnes || w.dilation != kOnes || !WinogradConvolution::supports(geometry))
    return false;
  const std::int64_t windows = context_.boxes.dst_produced.volume() / channels();
  return options_.kernels == GradientKernels::kWinograd ||
         WinogradConvolution::pays(geometry,
                                   windows / static_cast<std::int64_t>(context_.dst_chunks.size()),
                                   products_at_once(options_.compute));
}

void ConvolutionBlock::prepare_winograd() {
  std::int64_t most = 1;
  for (const Box& dst : context_.dst_chunks) most = std::max(most, dst.volume() / channels());
  winograd_.emplace(gradient_geometry(), most, omp_get_max_threads(), context_.scratch);
  for (const Box& dst : context_.dst_chunks) {
    PreparedChunk& chunk = chunks_.emplace_back(PreparedChunk{dst, {}});
    for (const ConvolutionPiece& piece : geometry_.split_dst(dst, dst.extent(kD)))
      chunk.pieces.push_back({piece});
  }
}

void ConvolutionBlock::prepare_forward() {
  if ((PooledConvolution::is_fast() || is_reproducible()) && has_few_channels() &&
      options_.pool == Spatial{2, 2, 2} &&
      (options_.compute == DataType::kFloat32 || !cpu_has_matrix_unit())) {
    prepare_pooled_forward();
    return;
  }
  if (is_reproducible() || prefers_winograd()) {
    prepare_winograd();
    return;
  }
  for (const Box& dst : context_.dst_chunks) {
    PreparedChunk& chunk = chunks_.emplace_back(PreparedChunk{dst, {}});
    const Box plane = geometry_.conv_box(with_d_range(dst, dst.lo[kD], dst.lo[kD] + 1));
    const std::int64_t planes = planes_in_caches(plane.volume() * size_of(options_.compute));
    for (const ConvolutionPiece& piece : geometry_.split_dst(dst, planes)) {
      chunk.pieces.push_back({piece, kernels_.add_forward(geometry_.convolution(piece))});
      source_.reserve(context_.src_spans[0], piece.src);
      reserve(piece.conv.volume() * size_of(options_.compute));
    }
  }
}

std::vector<std::string> ConvolutionBlock::implementations() const {
  std::vector<std::string> names = kernels_.implementations();
  if (pooled_forward_)
    names.push_back(fmt::format("forward {} pooled:halomesh", name_of(options_.compute)));
  if (winograd_)
    names.push_back(fmt::format("forward {} winograd:halomesh", name_of(options_.compute)));
  if (pooled_gradient_)
    names.push_back(fmt::format("backward_weights {} pooled:halomesh", name_of(options_.compute)));
  if (sparse_data_)
    names.push_back(fmt::format("backward_data {} sparse:halomesh", name_of(options_.compute)));
  if (sparse_weights_)
    names.push_back(fmt::format("backward_weights {} sparse:halomesh", name_of(options_.compute)));
  return names;
}

void ConvolutionBlock::load_parameters() {
  const float *weight = parameters_[0].values.data(), *bias = parameters_[1].values.data();
  kernels_.load_weights(weight, bias);
  if (pooled_forward_) pooled_forward_->load_weights(weight, bias);
  if (winograd_) winograd_->load_weights(weight, bias);
  if (sparse_data_) sparse_data_->load_weights(weight);
}

// Works in place: the src of a piece may be any box of the view.
void ConvolutionBlock::forward_winograd(const Pass& pass, AnyConstView src,
                                        const ConvolutionPiece& piece, std::int64_t n, AnyView dst,
                                        Argmax argmax) {
  const std::int64_t pixel = src.span.extent(kC), row = pixel * src.span.extent(kW);
  const ConvolutionGeometry g = geometry_.convolution(piece);
  const WinogradConvolution::Source source{src.begin_of(n, piece.src),
                                           {row * src.span.extent(kH), row, pixel},
                                           piece.src.shape().spatial(),
                                           {-g.pad_before[0], -g.pad_before[1], -g.pad_before[2]},
                                           src.type};
  winograd_->forward(source, piece.dst, n, options_.slope, dst, argmax, Poll(pass));
}

void ConvolutionBlock::forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
                               const Box& chunk) {
  const auto at = std::find_if(chunks_.begin(), chunks_.end(),
                               [&](const PreparedChunk& c) { return c.dst == chunk; });
  if (at == chunks_.end())
    throw Error(
        fmt::format("layer {}: forward of {}, which was not prepared", context_.index, chunk),
        "list every chunk in LayerContext::dst_chunks");
  const Argmax argmax = pass.training ? argmax_ : Argmax{};
  for (std::int64_t n = 0; n < context_.batch; ++n)
    for (const auto& [boxes, kernel] : at->pieces) {
      if (pooled_forward_) {
        const void* const from = pooled_source_.read(src[0], n, boxes.src, padding_of(boxes));
        pooled_forward_->forward(from, boxes.dst, n, options_.slope, dst, argmax);
      } else if (winograd_) {
        forward_winograd(pass, src[0], boxes, n, dst, argmax);
      } else {
        kernels_.forward(kernel, source_.read(src[0], n, boxes.src), planes_.data());
        activation_.forward({planes_.data(), options_.compute, planes_of(boxes.conv)}, boxes.dst, n,
                            dst, argmax);
      }
      pass.progress();
    }
}

}  // namespace HALOMESH_ISA
}  // namespace halomesh
