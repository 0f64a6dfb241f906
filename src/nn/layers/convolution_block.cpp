// A fused convolution block: see convolution_block.hpp.
#include "src/nn/layers/convolution_block.hpp"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "error.hpp"

namespace halomesh {
namespace {

std::int64_t cache_bytes_of_a_core() {
#ifdef _SC_LEVEL2_CACHE_SIZE
  if (const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE); bytes > 0) return bytes;
#endif
  return std::int64_t{1} << 20;
}

Shape only(std::span<const Shape> src) {
  require(src.size() == 1, cat("convolution block with ", src.size(), " inputs"),
          "a convolution block takes one input");
  return src[0];
}

}  // namespace

ConvolutionBlock::ConvolutionBlock(const ConvolutionBlockOptions& options)
    : options_(options), activation_{options.pool, options.slope} {
  require(options.filters > 0, cat("convolution block with ", options.filters, " filters"),
          "use at least one filter");
  const Spatial& p = options.pool;
  require(p[0] > 0 && p[1] > 0 && p[2] > 0 && p[0] <= kSlopeBit && p[1] <= kSlopeBit &&
              p[2] <= kSlopeBit && p[0] * p[1] * p[2] <= kSlopeBit,
          cat("convolution block that pools windows of ", p[0], "x", p[1], "x", p[2]),
          "a window may have 1 to 128 elements: the winner is remembered in seven bits");
  require(std::isfinite(options.slope) && options.slope >= 0,
          cat("convolution block with a leaky ReLU of slope ", options.slope),
          "use a finite slope of at least 0");
  require(options.compute != DataType::kInt16 && options.dst != DataType::kInt16,
          cat("convolution block that computes in ", name_of(options.compute), " and writes ",
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

std::int64_t ConvolutionBlock::forward_flops(std::span<const Shape> src) const {
  const ConvolutionBlockGeometry geometry = geometry_on(only(src));
  return 2 * geometry.conv_box(Box::whole(geometry.dst_shape())).volume() *
         parameters(src)[0].in.volume();
}

void ConvolutionBlock::check_place() const {
  const Box& produced = place_.boxes.dst_produced;
  const Range rows{produced.lo[kC], produced.hi[kC]};
  for (const ParameterView& p : parameters_)
    require(p.slice == ParameterSlice{rows, Box::whole(p.geometry.in)},
            cat("layer ", place_.index, ": a convolution block that produces ", produced,
                " with a slice ", p.slice, " of its ", p.geometry.name),
            "give it the rows of the channels that it produces, with all their inputs");
  require(
      place_.src_types[0] == options_.compute || !place_.training || !place_.src_diff_wanted[0],
      cat("layer ", place_.index, ": the gradient of an input of ", name_of(place_.src_types[0]),
          " from a convolution block that computes in ", name_of(options_.compute)),
      "let the layer before it write the type that the block computes in");
}

// Measured with the blocks of CosmoFlow at 128^3, kernel 2, fp32, 2 threads with 2 MiB of cache
// each (forward and backward in all, against the sum of oneDNN's whole primitives, alternating):
// buffers of 1/8, 1/2, 1 and 4 times the caches take 0.91, 0.91, 0.87 and 0.89 of its time.
std::int64_t ConvolutionBlock::planes_in_caches(std::int64_t plane_bytes) const {
  const std::int64_t cache =
      options_.cache_bytes > 0 ? options_.cache_bytes : cache_bytes_of_a_core();
  return std::max<std::int64_t>(1, omp_get_max_threads() * cache / plane_bytes);
}

void ConvolutionBlock::reserve(std::int64_t conv_bytes) {
  if (conv_bytes > planes_.size()) planes_ = AlignedBuffer<std::byte>(conv_bytes);
}

void ConvolutionBlock::prepare(const LayerPlace& place, std::vector<ParameterView> parameters) {
  place_ = place;
  parameters_ = std::move(parameters);
  geometry_ = geometry_on(place.src_shapes[0]);
  (void)dst_type(place.src_types);
  check_place();
  kernels_ = ConvolutionKernels({options_.compute, options_.compute, false});
  source_ = DenseSource(place.src_types[0], options_.compute);
  prepare_forward();
  if (place.training) {
    prepare_data_gradient();
    prepare_parameter_gradients();
  }
  kernels_.allocate(place.batch * static_cast<std::int64_t>(weight_pieces_.size()) > 1);
}

// Of many channels, the library's kernels are faster although they visit the zeros, too.
bool ConvolutionBlock::has_few_channels() const {
  constexpr std::int64_t kFewChannels = 8;
  constexpr Spatial kOnes{1, 1, 1};
  const WindowOptions& w = options_.window;
  return place_.src_shapes[0].c <= kFewChannels && w.stride == kOnes && w.dilation == kOnes;
}

Padding ConvolutionBlock::padding_of(const ConvolutionPiece& piece) const {
  const ConvolutionGeometry g = geometry_.convolution(piece);
  return {g.pad_before, g.pad_after};
}

// The pieces matter only where the input is converted, packed or padded first.
void ConvolutionBlock::prepare_pooled_forward() {
  pooled_forward_.emplace(options_.compute, place_.src_shapes[0].c, channels(),
                          options_.window.kernel);
  const DataType type = pooled_forward_->src_type();
  pooled_source_ = DenseSource(place_.src_types[0], type, options_.compute);
  for (const Box& dst : place_.dst_chunks) {
    PreparedChunk& chunk = chunks_.emplace_back(PreparedChunk{dst, {}});
    const Box src = geometry_.needs(dst);
    const std::int64_t plane_bytes = src.volume() / src.extent(kD) * size_of(type);
    const std::int64_t planes = planes_in_caches(plane_bytes) / options_.pool[0];
    for (const ConvolutionPiece& piece :
         geometry_.split_dst(dst, std::max<std::int64_t>(1, planes))) {
      chunk.pieces.push_back({piece});
      pooled_source_.reserve(place_.src_spans[0], piece.src, padding_of(piece));
    }
  }
}

void ConvolutionBlock::prepare_forward() {
  if (PooledConvolution::is_fast() && has_few_channels() && options_.pool == Spatial{2, 2, 2} &&
      (options_.compute == DataType::kFloat32 || !cpu_has_matrix_unit())) {
    prepare_pooled_forward();
    return;
  }
  for (const Box& dst : place_.dst_chunks) {
    PreparedChunk& chunk = chunks_.emplace_back(PreparedChunk{dst, {}});
    const Box plane = geometry_.conv_box(with_d_range(dst, dst.lo[kD], dst.lo[kD] + 1));
    const std::int64_t planes = planes_in_caches(plane.volume() * size_of(options_.compute));
    for (const ConvolutionPiece& piece : geometry_.split_dst(dst, planes)) {
      chunk.pieces.push_back({piece, kernels_.add_forward(geometry_.convolution(piece))});
      source_.reserve(place_.src_spans[0], piece.src);
      reserve(piece.conv.volume() * size_of(options_.compute));
    }
  }
}

std::vector<std::string> ConvolutionBlock::implementations() const {
  std::vector<std::string> names = kernels_.implementations();
  if (pooled_forward_)
    names.push_back(cat("forward ", name_of(options_.compute), " pooled:halomesh"));
  if (pooled_gradient_)
    names.push_back(cat("backward_weights ", name_of(options_.compute), " pooled:halomesh"));
  return names;
}

void ConvolutionBlock::load_parameters() {
  const float *weight = parameters_[0].values.data(), *bias = parameters_[1].values.data();
  kernels_.load_weights(weight, bias);
  if (pooled_forward_) pooled_forward_->load_weights(weight, bias);
}

void ConvolutionBlock::forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
                               const Box& chunk) {
  const auto at = std::find_if(chunks_.begin(), chunks_.end(),
                               [&](const PreparedChunk& c) { return c.dst == chunk; });
  if (at == chunks_.end())
    throw Error(cat("layer ", place_.index, ": forward of ", chunk, ", which was not prepared"),
                "list every chunk in LayerPlace::dst_chunks");
  const Winners winners = pass.training ? winners_ : Winners{};
  for (std::int64_t n = 0; n < place_.batch; ++n)
    for (const auto& [boxes, kernel] : at->pieces) {
      if (pooled_forward_) {
        const void* const from = pooled_source_.read(src[0], n, boxes.src, padding_of(boxes));
        pooled_forward_->forward(from, boxes.dst, n, options_.slope, dst, winners);
      } else {
        kernels_.forward(kernel, source_.read(src[0], n, boxes.src), planes_.data());
        activation_.forward({planes_.data(), options_.compute, planes_of(boxes.conv)}, boxes.dst, n,
                            dst, winners);
      }
      pass.progress();
    }
}

}  // namespace halomesh
