// SPDX-License-Identifier: Apache-2.0
// The parameters of one part in flat memory: values, gradients and optimizer state.
// Defines the order of elements and their initial values. Must not depend on ranks or files.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "partition/box_runs.hpp"
#include "partition/model_geometry.hpp"
#include "src/nn/gradient_buckets.hpp"
#include "src/nn/layer.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// Calls visit(local offset, global index, length) for each run of elements of `slice` that is
/// contiguous in the parameter's global logical order (out,in,kd,kh,kw; or out,d,h,w,c for a
/// channels-last parameter) and in the slice's own memory.
template <class Visit>
void for_each_run(const ParameterGeometry& geometry, const ParameterSlice& slice, Visit visit) {
  using AxisCut = BoxRuns::AxisCut;
  const Box whole = Box::whole(geometry.in);
  const AxisCut out{geometry.out, slice.out.lo, slice.out.hi};
  const auto along = [&](std::size_t axis) {
    return AxisCut{whole.extent(axis), slice.in.lo[axis], slice.in.hi[axis]};
  };
  const std::array<AxisCut, 5> axes =
      geometry.channels_last ? std::array{out, along(kD), along(kH), along(kW), along(kC)}
                             : std::array{out, along(kC), along(kD), along(kH), along(kW)};
  BoxRuns(axes).each(
      [&](std::int64_t lo, std::int64_t hi, std::int64_t local) { visit(local, lo, hi - lo); });
}

/// The state that keeps the rounding errors of gradients that are sent rounded: see PointSum.
inline constexpr const char* kGradientResidual = "gradient_residual";

/// Flat memory of one part. Owns values, gradients (diffs) and the optimizer's arrays (states), all
/// of one length and order: by holder group, then by layer. Allocates only in the constructor.
class Parameters {
 public:
  /// `states` are the names of the optimizer's arrays, Optimizer::states(); by default SGD's.
  Parameters(const ModelGeometry& geometry, std::int64_t part,
             std::vector<std::string> states = {"optimizer"});

  std::span<float> values() { return values_.span(); }
  std::span<float> diffs() { return diffs_.span(); }
  /// The memory of diffs(), for an owner that must outlive this object.
  AlignedBuffer<float>& diff_buffer() { return diffs_; }
  /// Array number `index` of the optimizer; zeros at first.
  std::span<float> state(std::size_t index) { return states_.at(index).span(); }
  /// The array of this name; empty if there is none.
  std::span<float> state(const std::string& name);
  const std::vector<std::string>& state_names() const { return state_names_; }
  /// Lets gradients be summed in exact() from now on; layers prepared before do not use it.
  /// Allocates, the first time.
  Parameters& keep_exact_sums();
  /// The bins of the sums that become diffs(): each group has as many doubles as its two bins, from
  /// twice its offset on. Empty unless keep_exact_sums() was called.
  std::span<double> exact() { return exact_.span(); }
  AlignedBuffer<double>& exact_buffer() { return exact_; }
  /// The two bins of a range's sums.
  ExactView exact(const ParameterRange& range) {
    double* const bins = exact_.data() + 2 * range.offset;
    return {bins, bins + range.volume};
  }
  std::int64_t size() const { return values_.size(); }
  const std::vector<HolderGroup>& groups() const { return groups_; }
  /// True on one of the parts that hold a group: sums over parts take the group's elements from
  /// there, so that each counts once.
  bool counts(const HolderGroup& group) const { return group.parts.front() == part_; }
  /// The parameters of the whole network: every ParameterRange::placement is below this number.
  std::size_t placements() const { return geometry_->parameters().size(); }
  /// True for a bias and for the scale of a norm: one number per output channel.
  bool one_per_channel(std::size_t placement) const {
    return geometry_->parameters()[placement].geometry.in.volume() == 1;
  }

  /// The slices of layer `layer`, in the order of its parameters; spans are empty for parameters
  /// that this part does not hold.
  std::vector<ParameterView> views(std::size_t layer);
  /// The place of parameter number `placement`; nullptr when this part holds nothing of it.
  const ParameterRange* find(std::size_t placement) const;

  /// Makes optimizers leave the parameters of the layers below number `first`, and their states,
  /// unchanged.
  void freeze(std::size_t first);

  /// Moves each moving average one step towards its value in diffs(), except in frozen layers.
  void update_moving_averages();

  /// Sets the values according to each parameter's InitialValues. Each value is a function only of
  /// (seed, parameter, global index), so that every mesh starts from one network.
  void initialize(std::uint64_t seed);
  /// Sets parameter number `number` of a layer to these values of the whole network's parameter, in
  /// its logical order. Throws Error for another number of values, std::logic_error for no such
  /// one.
  void assign(const std::string& layer, std::size_t number, std::span<const float> values);

 private:
  const ModelGeometry* geometry_;
  std::int64_t part_;
  std::vector<HolderGroup> groups_;
  AlignedBuffer<float> values_, diffs_;
  AlignedBuffer<double> exact_;
  std::vector<std::string> state_names_;
  std::vector<AlignedBuffer<float>> states_;
};

}  // namespace halomesh
