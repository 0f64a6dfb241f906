// The gradients of a fused convolution block: see convolution_block.hpp.
#include <omp.h>

#include <algorithm>

#include "error.hpp"
#include "src/nn/layers/convolution_block.hpp"
#include "src/nn/pack.hpp"

namespace halomesh {
namespace {

AnyView sample_of(const AnyView& view, std::int64_t n) {
  return {view.data + n * view.sample_bytes(), view.type, view.span, 1};
}

// Where the first element of `box` of sample n is, and how far its neighbours are.
template <class T>
PooledWeightGradient::Pooled<T> pooled(const TensorView<const T>& view, std::int64_t n,
                                       const Box& box) {
  const Box& span = view.span;
  const std::int64_t pixel = span.extent(kC), row = pixel * span.extent(kW);
  return {view.begin_of(n, box), {row * span.extent(kH), row, pixel}};
}

template <class T>
const T* elements(const void* data) {
  return static_cast<const T*>(data);
}

}  // namespace

void ConvolutionBlock::prepare_data_gradient() {
  const Box& produced = place_.boxes.dst_produced;
  winner_storage_ = AlignedBuffer<std::uint8_t>(place_.batch * produced.volume());
  winners_ = {winner_storage_.data(), produced, place_.batch};
  if (!place_.src_diff_wanted[0]) return;
  const std::int64_t element = size_of(options_.compute);
  const Box conv = geometry_.conv_box(produced);
  const std::int64_t planes = planes_in_caches(conv.volume() / conv.extent(kD) * element);
  std::int64_t bytes = 0;
  for (const ConvolutionPiece& piece : geometry_.split_src(produced, planes)) {
    data_pieces_.push_back({piece, kernels_.add_backward_data(geometry_.convolution(piece))});
    reserve(piece.conv.volume() * element);
    if (!ConstView{nullptr, place_.src_spans[0], 1}.is_dense(piece.src))
      bytes = std::max(bytes, piece.src.volume() * element);
  }
  diff_src_ = AlignedBuffer<std::byte>(bytes);
}

void ConvolutionBlock::prepare_parameter_gradients() {
  if (has_few_channels())
    prepare_pooled_gradient();
  else
    prepare_library_gradient();
}

// The pieces matter only where the input is converted or packed first.
void ConvolutionBlock::prepare_pooled_gradient() {
  const Box& produced = place_.boxes.dst_produced;
  pooled_gradient_.emplace(PooledWeightGradient::Geometry{place_.src_shapes[0].c, channels(),
                                                          options_.window.kernel, options_.pool},
                           omp_get_max_threads());
  const Box src = geometry_.needs(produced);
  const std::int64_t src_planes =
      planes_in_caches(src.volume() / src.extent(kD) * size_of(options_.compute));
  const bool in_place = place_.src_types[0] == options_.compute;
  const std::int64_t planes = in_place ? produced.extent(kD) : src_planes / options_.pool[0];
  for (const ConvolutionPiece& piece :
       geometry_.split_dst(produced, std::max<std::int64_t>(1, planes))) {
    weight_pieces_.push_back({piece});
    if (!in_place) source_.reserve(place_.src_spans[0], piece.src);
  }
}

void ConvolutionBlock::prepare_library_gradient() {
  // oneDNN 2.6 reads unset memory in weight gradients of bf16 with a stride, or of fewer rows than
  // a kernel of 4 rows reaches (found by filling its scratchpad with NaN).
  const WindowOptions& w = options_.window;
  require(!place_.training || options_.compute != DataType::kBfloat16 ||
              (w.stride == Spatial{1, 1, 1} && w.kernel[1] <= 3),
          cat("layer ", place_.index, ": training in bf16 with stride ", w.stride[0], "x",
              w.stride[1], "x", w.stride[2], " and a kernel of ", w.kernel[1], " rows"),
          "use stride 1 and kernels of at most 3 rows, or compute in fp32");
  const Box& produced = place_.boxes.dst_produced;
  bias_sums_ = BiasSums(channels());
  const Box conv = geometry_.conv_box(produced);
  const std::int64_t pooled_bytes = conv.volume() / produced.extent(kD) * size_of(options_.compute);
  // Each piece's weight gradient is added to the sum of the others': that traffic should be little
  // beside the planes'.
  const std::int64_t weight_bytes = parameters_[0].slice.volume() * 4;
  const std::int64_t planes =
      std::max(planes_in_caches(pooled_bytes), 4 * weight_bytes / pooled_bytes);
  for (const ConvolutionPiece& piece : geometry_.split_dst(produced, planes)) {
    weight_pieces_.push_back({piece, kernels_.add_backward_weights(geometry_.convolution(piece))});
    source_.reserve(place_.src_spans[0], piece.src);
    reserve(piece.conv.volume() * size_of(options_.compute));
  }
}

void ConvolutionBlock::backward_data(const Pass& pass, AnyConstView /*dst*/, AnyConstView diff_dst,
                                     std::size_t /*input*/, AnyView diff_src) {
  const Box& produced = place_.boxes.dst_produced;
  for (std::int64_t n = 0; n < place_.batch; ++n)
    for (const auto& [boxes, kernel] : data_pieces_) {
      activation_.backward(diff_dst, winners_, produced, n,
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

void ConvolutionBlock::backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                                           AnyConstView diff_dst) {
  float* const weight = parameters_[0].diffs.data();
  float* const bias = parameters_[1].diffs.data();
  if (pooled_gradient_) {
    bool first = true;
    for (std::int64_t n = 0; n < place_.batch; ++n)
      for (const Prepared& piece : weight_pieces_) {
        add_pooled_gradient(src[0], diff_dst, n, piece.boxes, first);
        first = false;
        pass.progress();
      }
    pooled_gradient_->store(weight, bias);
    return;
  }
  for (std::int64_t n = 0; n < place_.batch; ++n)
    for (const auto& [boxes, kernel] : weight_pieces_) {
      activation_.backward(diff_dst, winners_, place_.boxes.dst_produced, n,
                           {planes_.data(), options_.compute, planes_of(boxes.conv)}, &bias_sums_);
      kernels_.backward_weights(kernel, source_.read(src[0], n, boxes.src), planes_.data());
      pass.progress();
    }
  kernels_.store_diff_weights(weight, nullptr);
  bias_sums_.store(bias, channels());
}

void ConvolutionBlock::add_pooled_gradient(AnyConstView src, AnyConstView diff_dst, std::int64_t n,
                                           const ConvolutionPiece& boxes, bool first) {
  // Where the input has the right type, all that its view spans is the block: strides are no
  // matter.
  const bool in_place = src.type == options_.compute;
  const Box& block = in_place ? src.span : boxes.src;
  const void* const data =
      in_place ? src.data + n * src.sample_bytes() : source_.read(src, n, block);
  const ConvolutionGeometry g = geometry_.convolution(boxes);
  Spatial corner{};
  for (std::size_t a = 0; a < 3; ++a)
    corner[a] = boxes.src.lo[a + 1] - g.pad_before[a] - block.lo[a + 1];
  const auto winners = pooled<std::uint8_t>(winners_, n, boxes.dst);
  const auto add = [&]<class S>(const S* values, const auto& diff) {
    const PooledWeightGradient::Source<S> source{values, block.shape().spatial(), corner};
    pooled_gradient_->add(source, boxes.dst.shape().spatial(), diff, winners, options_.slope,
                          first);
  };
  const auto add_of = [&](const auto* values) {
    if (diff_dst.type == DataType::kBfloat16)
      add(values, pooled(diff_dst.as<Bfloat16>(), n, boxes.dst));
    else
      add(values, pooled(diff_dst.as<float>(), n, boxes.dst));
  };
  if (options_.compute == DataType::kBfloat16)
    add_of(elements<Bfloat16>(data));
  else
    add_of(elements<float>(data));
}

}  // namespace halomesh
