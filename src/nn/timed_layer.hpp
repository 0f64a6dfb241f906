// SPDX-License-Identifier: Apache-2.0
// A layer that takes the time of another one without computing anything.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "partition/cost/kernel_table.hpp"
#include "src/nn/compute_clock.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

/// The source of layers' times and the clock that spends them. All must outlive the layers.
struct LayerTiming {
  const KernelTable& table;
  ComputeClock& clock;
  double poll_s = 1e-3;  ///< between two calls of Pass::progress()
  int threads = 1;       ///< threads of a rank, as in the table
};

/// Has the geometry, types and parameters of another layer; each pass spends the time that a table
/// has for it, in pieces with Pass::progress() between them, and neither reads nor writes a tensor.
/// Where the layer takes samples of other replicas together, it has Pass::sum_replicas sum as many
/// values as the part produces for a sample. Makes no primitives. A chunk of the output takes its
/// share of the time for all that the part produces.
class TimedLayer final : public Layer {
 public:
  TimedLayer(std::unique_ptr<Layer> layer, const LayerTiming& timing);

  Shape dst_shape(std::span<const Shape> src) const override { return layer_->dst_shape(src); }
  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const override {
    return layer_->needs(dst, input, src);
  }
  bool splits_over_input() const override { return layer_->splits_over_input(); }
  Box contributes(std::span<const Box> src_local, std::span<const Shape> src) const override {
    return layer_->contributes(src_local, src);
  }
  bool splits_over_channels() const override { return layer_->splits_over_channels(); }
  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override {
    return layer_->parameters(src);
  }
  ParameterSlice parameter_slice(std::size_t parameter, const LayerBoxes& boxes,
                                 std::span<const Shape> src) const override {
    return layer_->parameter_slice(parameter, boxes, src);
  }
  DataType dst_type(std::span<const DataType> src) const override { return layer_->dst_type(src); }
  bool backward_reads_dst() const override { return layer_->backward_reads_dst(); }
  bool backward_reads_src() const override { return layer_->backward_reads_src(); }
  std::int64_t samples_together() const override { return layer_->samples_together(); }
  bool backward_in_place(std::size_t input) const override {
    return layer_->backward_in_place(input);
  }
  bool backward_adds() const override { return layer_->backward_adds(); }
  bool repeats_forward() const override { return layer_->repeats_forward(); }
  std::string kernel_name() const override { return layer_->kernel_name(); }
  std::int64_t forward_flops(std::span<const Shape> src) const override {
    return layer_->forward_flops(src);
  }

  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;
  void add_backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                         std::size_t input, AnyView diff_src) override {
    backward_data(pass, values, diff_dst, input, diff_src);
  }
  void backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                           AnyConstView diff_dst) override;
  /// The time of each pass and its source, e.g. "forward 1.204 ms interpolated".
  std::vector<std::string> implementations() const override;

 private:
  void spend(const Pass& pass, double seconds) const;
  void sum_over_replicas(const Pass& pass);
  const KernelTime& time(KernelPass pass) const { return times_[static_cast<std::size_t>(pass)]; }

  std::unique_ptr<Layer> layer_;
  LayerTiming timing_;
  std::array<KernelTime, 3> times_;  // by KernelPass
  double produced_ = 1;              // elements of one sample's output
  double diffs_ = 1;                 // inputs whose gradient is computed
  std::vector<double> shared_;       // values that replicas sum; empty: none
};

/// Puts a TimedLayer in the place of each layer. Must be called before an executor prepares the
/// layers.
void time_layers(Model& model, const LayerTiming& timing);

}  // namespace halomesh
