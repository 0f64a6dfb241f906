// SPDX-License-Identifier: Apache-2.0
// The passes of one layer: see winograd_passes.hpp.
#include "src/nn/kernels/winograd_layer_passes.hpp"

#include <omp.h>

#include <algorithm>
#include <optional>

#include "src/nn/kernels/winograd_convolution.hpp"
#include "src/nn/kernels/winograd_weight_gradient.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {
namespace {

using Geometry = WinogradConvolution::Geometry;

std::int64_t windows_in(const Box& voxels, const Geometry& geometry) {
  const Shape windows = WinogradConvolution::windows_of(voxels, geometry.pool).shape();
  return windows.d * windows.h * windows.w;
}

std::int64_t voxels_in(const Box& box) {
  return box.volume() / std::max<std::int64_t>(1, box.extent(kC));
}

// The geometry with its small window or, in a box of at least four large ones along each axis, the
// large one where that costs less. Sums over the small window's points leave exact zeros where a
// tap of a small box meets no voxel but zeros; those of the large window round them.
template <class Cost>
Geometry with_best_window(const Geometry& small, const Box& box, const Cost& cost) {
  Geometry large = small;
  large.pool = winograd::large_window_of(small.kernel);
  const Spatial extents = box.shape().spatial();
  for (std::size_t a = 0; a < 3; ++a)
    if (large.pool[a] > 1 && extents[a] < 4 * large.pool[a]) return small;
  return cost(large) < cost(small) ? large : small;
}

// The source `box` of sample n for a `reader` box that begins to read `before` voxels ahead of its
// own place.
winograd::Source source_of(AnyConstView view, std::int64_t n, const Box& box, const Box& reader,
                           const Spatial& before) {
  const std::int64_t pixel = view.span.extent(kC), row = pixel * view.span.extent(kW);
  winograd::Source source{view.begin_of(n, box),
                          {row * view.span.extent(kH), row, pixel},
                          box.shape().spatial(),
                          {},
                          view.type};
  for (std::size_t a = 0; a < 3; ++a)
    source.corner[a] = reader.lo[a + 1] - before[a] - box.lo[a + 1];
  return source;
}

class LayerPasses final : public WinogradPasses {
 public:
  LayerPasses(const Options& options, const LayerContext& context)
      : options_(options), boxes_(context.boxes) {
    const Box &produced = boxes_.dst_produced, &needed = boxes_.src_needed[0];
    const Geometry forward{needed.extent(kC), produced.extent(kC), options.kernel,
                           winograd::window_of(options.kernel)};
    const int threads = omp_get_max_threads();
    for (std::size_t a = 0; a < 3; ++a) after_[a] = options.kernel[a] - 1 - options.before[a];
    prepare_forward(forward, context, threads);
    if (!context.training) return;
    const Geometry adjoint = with_best_window(
        {forward.dst_channels, forward.src_channels, options.kernel, forward.pool}, needed,
        [&](const Geometry& g) { return WinogradConvolution::cost(g, windows_in(needed, g)); });
    if (context.src_diff_wanted[0] &&
        prefers(adjoint, windows_in(needed, adjoint), voxels_in(needed)))
      data_.emplace(adjoint, windows_in(needed, adjoint), threads, context.scratch,
                    WinogradConvolution::Weights::kInScratch);
    const Geometry weights = with_best_window(forward, produced, [&](const Geometry& g) {
      return WinogradWeightGradient::cost(g, windows_in(produced, g));
    });
    if (WinogradWeightGradient::supports(weights) &&
        (options.wherever || WinogradWeightGradient::pays(weights, windows_in(produced, weights),
                                                          voxels_in(produced), options.at_once)))
      weights_.emplace(weights, options.bias, threads, context.scratch);
  }

  bool has_forward() const override { return forward_.has_value(); }
  bool has_backward_data() const override { return data_.has_value(); }
  bool has_backward_weights() const override { return weights_.has_value(); }

  void load_weights(const float* weight, const float* bias) override {
    if (forward_) forward_->load_weights(weight, bias);
    if (data_) data_->load_adjoint_weights(weight);
  }
  void forward(const Pass& pass, AnyConstView src, const Box& src_box, std::int64_t n, AnyView dst,
               const Box& chunk) override {
    forward_->convolve(source_of(src, n, src_box, chunk, options_.before), chunk, n, dst,
                       Poll(pass));
  }
  // The adjoint of the convolution is a convolution whose padding before is the number of taps
  // behind the forward padding: an input voxel reads the gradients of the output voxels that read
  // it.
  void backward_data(const Pass& pass, AnyConstView diff_dst, std::int64_t n,
                     AnyView diff_src) override {
    const Box& needed = boxes_.src_needed[0];
    if (n == 0) data_->transform_given();
    data_->convolve(source_of(diff_dst, n, boxes_.dst_produced, needed, after_), needed, n,
                    diff_src, Poll(pass));
  }
  void backward_weights(const Pass& pass, AnyConstView src, AnyConstView diff_dst,
                        std::int64_t n) override {
    const Box& produced = boxes_.dst_produced;
    weights_->add(source_of(src, n, boxes_.src_needed[0], produced, options_.before), diff_dst,
                  produced, n, n == 0, Poll(pass));
  }
  void store_diff_weights(float* diff_weight, float* diff_bias) override {
    weights_->store_sums(diff_weight, diff_bias);
  }

 private:
  // The costs depend on whether weights are transformed once for all chunks or for each.
  void prepare_forward(const Geometry& small, const LayerContext& context, int threads) {
    const auto chunks = static_cast<std::int64_t>(context.dst_chunks.size());
    const auto windows = [&](const Geometry& g) {
      std::int64_t all = 0;
      for (const Box& chunk : context.dst_chunks) all += windows_in(chunk, g);
      return all / chunks;
    };
    const Geometry forward = with_best_window(small, boxes_.dst_produced, [&](const Geometry& g) {
      return WinogradConvolution::cost(g, windows(g));
    });
    if (!prefers(forward, windows(forward), voxels_in(boxes_.dst_produced) / chunks)) return;
    std::int64_t most = 1;
    for (const Box& chunk : context.dst_chunks) most = std::max(most, windows_in(chunk, forward));
    forward_.emplace(forward, most, threads, context.scratch);
  }
  bool prefers(const Geometry& geometry, std::int64_t windows, std::int64_t voxels) const {
    return WinogradConvolution::supports(geometry) &&
           (options_.wherever ||
            WinogradConvolution::pays(geometry, windows, voxels, options_.at_once));
  }

  Options options_;
  LayerBoxes boxes_;
  Spatial after_{};
  std::optional<WinogradConvolution> forward_, data_;
  std::optional<WinogradWeightGradient> weights_;
};

}  // namespace

std::unique_ptr<WinogradPasses> make_winograd_passes(const WinogradPasses::Options& options,
                                                     const LayerContext& context) {
  return std::make_unique<LayerPasses>(options, context);
}

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
