// SPDX-License-Identifier: Apache-2.0
// The passes of one layer: see winograd_passes.hpp.
#include "src/nn/kernels/winograd_layer_passes.hpp"

#include <omp.h>

#include <algorithm>
#include <optional>

#include "src/nn/kernels/winograd_convolution.hpp"
#include "src/nn/kernels/winograd_weight_gradient.hpp"

namespace halomesh {
inline namespace HALOMESH_ISA {
namespace {

using Geometry = WinogradConvolution::Geometry;

std::int64_t windows_in(const Box& voxels, const Geometry& geometry) {
  const Shape windows = WinogradConvolution::windows_of(voxels, geometry.pool).shape();
  return windows.d * windows.h * windows.w;
}

std::int64_t voxels_in(const Box& box) {
  return box.volume() / std::max<std::int64_t>(1, box.extent(kC));
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
    const Spatial window = winograd::window_of(options.kernel);
    const Geometry forward{needed.extent(kC), produced.extent(kC), options.kernel, window};
    const Geometry adjoint{forward.dst_channels, forward.src_channels, options.kernel, window};
    const int threads = omp_get_max_threads();
    for (std::size_t a = 0; a < 3; ++a) after_[a] = options.kernel[a] - 1 - options.before[a];
    std::int64_t windows = 0, most = 1;
    for (const Box& chunk : context.dst_chunks) {
      windows += windows_in(chunk, forward);
      most = std::max(most, windows_in(chunk, forward));
    }
    // The choice depends on whether weights are transformed once for all chunks or for each.
    const auto chunks = static_cast<std::int64_t>(context.dst_chunks.size());
    if (prefers(forward, windows / chunks, voxels_in(produced) / chunks))
      forward_.emplace(forward, most, threads, context.scratch);
    if (!context.training) return;
    if (context.src_diff_wanted[0] &&
        prefers(adjoint, windows_in(needed, forward), voxels_in(needed)))
      data_.emplace(adjoint, windows_in(needed, forward), threads, context.scratch,
                    WinogradConvolution::Weights::kInScratch);
    if (WinogradWeightGradient::supports(forward) &&
        (options.wherever || WinogradWeightGradient::pays(forward, windows_in(produced, forward),
                                                          voxels_in(produced), options.at_once)))
      weights_.emplace(forward, options.bias, threads, context.scratch);
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

}  // namespace HALOMESH_ISA
}  // namespace halomesh
