// SPDX-License-Identifier: Apache-2.0
// The backward passes of a fused convolution block: see convolution_block.hpp.
#include <omp.h>

#include <algorithm>
#include <type_traits>

#include "error.hpp"
#include "src/nn/kernels/convolution_block.hpp"
#include "src/nn/onednn/library.hpp"
#include "src/nn/pack.hpp"

namespace halomesh {
inline namespace HALOMESH_ISA {
namespace {

AnyView sample_of(const AnyView& view, std::int64_t n) {
  return {view.data + n * view.sample_bytes(), view.type, view.span, 1};
}

template <class T>
const T* elements(const void* data) {
  return static_cast<const T*>(data);
}

}  // namespace

void ConvolutionBlock::prepare_data_gradient() {
  const Box& produced = context_.boxes.dst_produced;
  const Box kept = hull(produced, context_.boxes.diff_dst_needed);
  argmax_storage_ = AlignedBuffer<std::uint8_t>(context_.batch * kept.volume());
  argmax_ = {argmax_storage_.data(), kept, context_.batch};
  if (!context_.src_diff_wanted[0]) return;
  prepare_sparse_data_gradient();
  if (sparse_data_) return;
  const std::int64_t element = size_of(options_.compute);
  const Box conv = geometry_.conv_box(produced);
  const std::int64_t planes = planes_in_caches(conv.volume() / conv.extent(kD) * element);
  for (const ConvolutionPiece& piece : geometry_.split_src(produced, planes)) {
    data_pieces_.push_back({piece, kernels_.add_backward_data(geometry_.convolution(piece))});
    reserve(piece.conv.volume() * element);
    if (!ConstView{nullptr, context_.src_spans[0], 1}.is_dense(piece.src))
      diff_src_bytes_ = std::max(diff_src_bytes_, piece.src.volume() * element);
  }
}

void ConvolutionBlock::prepare_parameter_gradients() {
  const PooledWeightGradient::Geometry geometry = gradient_geometry();
  const Spatial extents = context_.boxes.dst_produced.shape().spatial();
  if (is_reproducible()) {
    const Spatial cells = gradient_cells(context_.src_shapes);
    for (std::size_t a = 0; a < 3; ++a) cell_[a] = context_.dst_shape.spatial()[a] / cells[a];
    if (has_few_channels())
      pooled_gradient_.emplace(geometry, omp_get_max_threads(), true);
    else
      sparse_weights_.emplace(geometry, extents, omp_get_max_threads(), cell_);
    prepare_pooled_gradient();
  } else if (has_few_channels()) {
    pooled_gradient_.emplace(geometry, omp_get_max_threads());
    prepare_pooled_gradient();
  } else if (SparseWeightGradient::supports(geometry) &&
             prefers_sparse(SparseWeightGradient::work_of(geometry, extents))) {
    sparse_weights_.emplace(geometry, extents, omp_get_max_threads());
    prepare_pooled_gradient();
  } else {
    prepare_library_gradient();
  }
}

PooledWeightGradient::Geometry ConvolutionBlock::gradient_geometry() const {
  return {context_.src_shapes[0].c, channels(), options_.window.kernel, options_.pool};
}

// Constants measured on 2 cores of a Zen 4 (fp32, CosmoFlow at 128^3): dense gradients reach 0.5 to
// 0.7 of the peak of multiply-adds, and the sparse kernels 0.7 of the model's estimate.
bool ConvolutionBlock::prefers_sparse(const sparse::Work& work) const {
  constexpr Spatial kOnes{1, 1, 1};
  const WindowOptions& w = options_.window;
  if (options_.kernels == GradientKernels::kDense || w.stride != kOnes || w.dilation != kOnes)
    return false;
  if (options_.kernels == GradientKernels::kSparse || is_reproducible()) return true;
  return sparse::cost_of(work, {}) <
         sparse::dense_cost_of(work) / products_at_once(options_.compute);
}

void ConvolutionBlock::prepare_sparse_data_gradient() {
  const PooledWeightGradient::Geometry geometry = gradient_geometry();
  const Box& produced = context_.boxes.dst_produced;
  const Spatial extents = produced.shape().spatial();
  if (!SparseDataGradient::supports(geometry) ||
      !prefers_sparse(SparseDataGradient::work_of(geometry, extents)))
    return;
  const Box src = geometry_.needs(produced);
  sparse_data_.emplace(geometry, extents, omp_get_max_threads(), options_.compute, src.extent(kH),
                       src.extent(kW));
}

// Cuts the output into pieces, which matters only where the input is converted or packed first.
void ConvolutionBlock::prepare_pooled_gradient() {
  const Box& produced = context_.boxes.dst_produced;
  const Box src = geometry_.needs(produced);
  const std::int64_t src_planes =
      planes_in_caches(src.volume() / src.extent(kD) * size_of(options_.compute));
  const bool in_place = context_.src_types[0] == options_.compute;
  const std::int64_t planes = in_place ? produced.extent(kD) : src_planes / options_.pool[0];
  const std::int64_t at_once = std::max<std::int64_t>(1, planes);
  for (const ConvolutionPiece& piece :
       is_reproducible() ? cell_pieces(at_once) : geometry_.split_dst(produced, at_once)) {
    weight_pieces_.push_back({piece});
    if (!in_place) source_.reserve(context_.src_spans[0], piece.src);
  }
}

// Pieces of whole cells, with about so many planes.
std::vector<ConvolutionPiece> ConvolutionBlock::cell_pieces(std::int64_t planes) const {
  const Box& produced = context_.boxes.dst_produced;
  for (std::size_t a = 0; a < 3; ++a)
    require(produced.lo[a + 1] % cell_[a] == 0 && produced.hi[a + 1] % cell_[a] == 0,
            text("layer {}: the box {} is not of whole cells of {}x{}x{}", context_.index, produced,
                 cell_[0], cell_[1], cell_[2]),
            "reproducible gradients need cuts between cells");
  const std::int64_t step = std::max<std::int64_t>(1, planes / cell_[0]) * cell_[0];
  std::vector<ConvolutionPiece> pieces;
  for (std::int64_t lo = produced.lo[kD]; lo < produced.hi[kD]; lo += step) {
    const Box box = with_d_range(produced, lo, std::min(lo + step, produced.hi[kD]));
    for (const ConvolutionPiece& piece : geometry_.split_dst(box, box.extent(kD)))
      pieces.push_back(piece);
  }
  return pieces;
}

void ConvolutionBlock::prepare_library_gradient() {
  // oneDNN 2.6 reads unset memory in weight gradients of bf16 with a stride, or of fewer rows than
  // a kernel of 4 rows reaches (found by filling its scratchpad with NaN).
  const WindowOptions& w = options_.window;
  require(!context_.training || options_.compute != DataType::kBfloat16 ||
              (w.stride == Spatial{1, 1, 1} && w.kernel[1] <= 3),
          text("layer {}: training in bf16 with stride {}x{}x{} and a kernel of {} rows",
               context_.index, w.stride[0], w.stride[1], w.stride[2], w.kernel[1]),
          "use stride 1 and kernels of at most 3 rows, or compute in fp32");
  const Box& produced = context_.boxes.dst_produced;
  bias_sums_ = BiasSums(channels());
  const Box conv = geometry_.conv_box(produced);
  const std::int64_t pooled_bytes = conv.volume() / produced.extent(kD) * size_of(options_.compute);
  // The weight gradients of the pieces are added up, and that traffic should be small compared with
  // that of the planes.
  const std::int64_t weight_bytes = parameters_[0].slice.volume() * 4;
  const std::int64_t planes =
      std::max(planes_in_caches(pooled_bytes), 4 * weight_bytes / pooled_bytes);
  for (const ConvolutionPiece& piece : geometry_.split_dst(produced, planes)) {
    weight_pieces_.push_back({piece, kernels_.add_backward_weights(geometry_.convolution(piece))});
    source_.reserve(context_.src_spans[0], piece.src);
    reserve(piece.conv.volume() * size_of(options_.compute));
  }
}

template <class S>
void ConvolutionBlock::run_sparse_data_gradient(const Pass& pass, AnyConstView diff_dst,
                                                TensorView<S> diff_src) {
  const Box& produced = context_.boxes.dst_produced;
  const Box src = geometry_.needs(produced);
  const ConvolutionGeometry g =
      geometry_.convolution({produced, geometry_.conv_box(produced), src});
  const Box& span = diff_src.span;
  const std::int64_t pixel = span.extent(kC), row = pixel * span.extent(kW);
  SparseDataGradient::Target<S> target{
      nullptr, {row * span.extent(kH), row, pixel}, src.shape().spatial(), {}};
  for (std::size_t a = 0; a < 3; ++a) target.corner[a] = -g.pad_before[a];
  for (std::int64_t n = 0; n < context_.batch; ++n) {
    target.data = diff_src.begin_of(n, src);
    const auto argmax = PooledWeightGradient::Argmax::of(argmax_, n, produced);
    const auto run = [&](const auto& diff) {
      sparse_data_->run(target, produced.shape().spatial(), {0, produced.extent(kD)}, diff, argmax,
                        options_.slope, Poll(pass));
    };
    if (diff_dst.type == DataType::kBfloat16)
      run(PooledWeightGradient::Pooled<Bfloat16>::of(diff_dst.as<Bfloat16>(), n, produced));
    else
      run(PooledWeightGradient::Pooled<float>::of(diff_dst.as<float>(), n, produced));
    pass.progress();
  }
}

AnyView ConvolutionBlock::backward_state() { return argmax_; }

void ConvolutionBlock::run_ordered_data_gradient(const Pass& pass, AnyConstView diff_dst,
                                                 View diff_src) {
  const Box &src = context_.boxes.diff_src, &dst = context_.boxes.diff_dst_needed;
  const Box& span = diff_src.span;
  const std::int64_t pixel = span.extent(kC), row = pixel * span.extent(kW);
  const Padding padding = padding_of({dst, geometry_.conv_box(dst), geometry_.needs(dst)});
  SparseDataGradient::Target<float> target{
      nullptr, {row * span.extent(kH), row, pixel}, src.shape().spatial(), {}};
  const Box needs = geometry_.needs(dst);
  Spatial first{};
  for (std::size_t a = 0; a < 3; ++a) {
    first[a] = dst.lo[a + 1];
    target.corner[a] = needs.lo[a + 1] - padding.before[a] - src.lo[a + 1];
  }
  for (std::int64_t n = 0; n < context_.batch; ++n) {
    target.data = diff_src.begin_of(n, src);
    sparse_data_->run_in_order(
        target, dst.shape().spatial(), first,
        PooledWeightGradient::Pooled<float>::of(diff_dst.as<float>(), n, dst),
        PooledWeightGradient::Argmax::of(argmax_, n, dst), options_.slope, Poll(pass));
    pass.progress();
  }
}

void ConvolutionBlock::backward_data(const Pass& pass, const ForwardValues& /*values*/,
                                     AnyConstView diff_dst, std::size_t /*input*/,
                                     AnyView diff_src) {
  if (is_reproducible()) return run_ordered_data_gradient(pass, diff_dst, diff_src.as<float>());
  if (sparse_data_) {
    if (options_.compute == DataType::kBfloat16)
      run_sparse_data_gradient(pass, diff_dst, diff_src.as<Bfloat16>());
    else
      run_sparse_data_gradient(pass, diff_dst, diff_src.as<float>());
    return;
  }
  const Box& produced = context_.boxes.dst_produced;
  kernels_.load_backward_weights();
  for (std::int64_t n = 0; n < context_.batch; ++n)
    for (const auto& [boxes, kernel] : data_pieces_) {
      activation_.backward(diff_dst, argmax_, produced, n,
                           {planes_.data(), options_.compute, planes_of(boxes.conv)}, nullptr);
      const AnyView to = sample_of(diff_src, n);
      const Box& b = boxes.src;
      if (to.is_dense(b)) {
        kernels_.backward_data(kernel, planes_.data(), to.begin_of(0, b));
      } else {
        kernels_.backward_data(kernel, planes_.data(), diff_src_.data());
        unpack_copy(diff_src_.data(), b, to);
      }
      pass.progress();
    }
}

template <class Gradient>
void ConvolutionBlock::sum_pooled_gradient(const Pass& pass, AnyConstView src,
                                           AnyConstView diff_dst, Gradient& gradient) {
  bool first = true;
  for (std::int64_t n = 0; n < context_.batch; ++n)
    for (const Prepared& piece : weight_pieces_) {
      add_pooled_gradient(pass, gradient, src, diff_dst, n, piece.boxes, first);
      first = false;
      pass.progress();
    }
  gradient.store(parameters_[0].diffs.data(), parameters_[1].diffs.data());
}

template <class Gradient>
void ConvolutionBlock::sum_cells(const Pass& pass, AnyConstView src, AnyConstView diff_dst,
                                 Gradient& gradient) {
  for (std::int64_t n = 0; n < context_.batch; ++n)
    for (const Prepared& piece : weight_pieces_) {
      const ConvolutionPiece& boxes = piece.boxes;
      const SourceBlock block = source_block(src, n, boxes);
      const PooledWeightGradient::Source<float> source{elements<float>(block.data), block.extents,
                                                       block.corner};
      const auto diff = PooledWeightGradient::Pooled<float>::of(diff_dst.as<float>(), n, boxes.dst);
      const auto argmax = PooledWeightGradient::Argmax::of(argmax_, n, boxes.dst);
      const Spatial extents = boxes.dst.shape().spatial();
      if constexpr (std::is_same_v<Gradient, PooledWeightGradient>)
        gradient.add_cells(source, extents, cell_, diff, argmax, options_.slope, Poll(pass));
      else
        gradient.add_cells(source, extents, diff, argmax, options_.slope, Poll(pass));
      pass.progress();
    }
  gradient.store_exact(parameters_[0].exact, parameters_[1].exact);
}

void ConvolutionBlock::backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                                           AnyConstView diff_dst) {
  if (is_reproducible()) {
    if (pooled_gradient_)
      sum_cells(pass, src[0], diff_dst, *pooled_gradient_);
    else
      sum_cells(pass, src[0], diff_dst, *sparse_weights_);
    return;
  }
  if (pooled_gradient_) {
    sum_pooled_gradient(pass, src[0], diff_dst, *pooled_gradient_);
    return;
  }
  if (sparse_weights_) {
    sum_pooled_gradient(pass, src[0], diff_dst, *sparse_weights_);
    return;
  }
  for (std::int64_t n = 0; n < context_.batch; ++n)
    for (const auto& [boxes, kernel] : weight_pieces_) {
      activation_.backward(diff_dst, argmax_, context_.boxes.dst_produced, n,
                           {planes_.data(), options_.compute, planes_of(boxes.conv)}, &bias_sums_);
      kernels_.backward_weights(kernel, source_.read(src[0], n, boxes.src), planes_.data());
      pass.progress();
    }
  kernels_.store_diff_weights(parameters_[0].diffs.data(), nullptr);
  bias_sums_.store(parameters_[1].diffs.data(), channels());
}

// The block of src to read. If the input has the compute type it is the view's whole span, as
// kernels accept strides.
ConvolutionBlock::SourceBlock ConvolutionBlock::source_block(AnyConstView src, std::int64_t n,
                                                             const ConvolutionPiece& boxes) {
  const bool in_place = src.type == options_.compute;
  const Box& box = in_place ? src.span : boxes.src;
  const Padding padding = padding_of(boxes);
  SourceBlock block{in_place ? src.data + n * src.sample_bytes() : source_.read(src, n, box),
                    box.shape().spatial(),
                    {}};
  for (std::size_t a = 0; a < 3; ++a)
    block.corner[a] = boxes.src.lo[a + 1] - padding.before[a] - box.lo[a + 1];
  return block;
}

template <class Gradient>
void ConvolutionBlock::add_pooled_gradient(const Pass& pass, Gradient& gradient, AnyConstView src,
                                           AnyConstView diff_dst, std::int64_t n,
                                           const ConvolutionPiece& boxes, bool first) {
  const SourceBlock block = source_block(src, n, boxes);
  const auto argmax = PooledWeightGradient::Argmax::of(argmax_, n, boxes.dst);
  const auto add = [&]<class S>(const S* values, const auto& diff) {
    const PooledWeightGradient::Source<S> source{values, block.extents, block.corner};
    gradient.add(source, boxes.dst.shape().spatial(), diff, argmax, options_.slope, first,
                 Poll(pass));
  };
  const auto add_of = [&](const auto* values) {
    if (diff_dst.type == DataType::kBfloat16)
      add(values,
          PooledWeightGradient::Pooled<Bfloat16>::of(diff_dst.as<Bfloat16>(), n, boxes.dst));
    else
      add(values, PooledWeightGradient::Pooled<float>::of(diff_dst.as<float>(), n, boxes.dst));
  };
  if (options_.compute == DataType::kBfloat16)
    add_of(elements<Bfloat16>(block.data));
  else
    add_of(elements<float>(block.data));
}

}  // namespace HALOMESH_ISA
}  // namespace halomesh
