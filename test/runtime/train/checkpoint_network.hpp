// SPDX-License-Identifier: Apache-2.0
// A small network whose parameters are held in every way there is, with values that are a formula
// of the global index. Only geometry: it computes nothing.
#pragma once

#include <bit>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "partition/model_geometry.hpp"
#include "runtime/train/checkpoint.hpp"
#include "src/nn/parameters.hpp"

namespace halomesh {

/// Like a convolution of kernel 3, "same": every part with outputs holds everything, or the rows
/// of its channels. `taps` of the kernel along w.
class WholeWeight final : public LayerGeometry {
 public:
  explicit WholeWeight(std::int64_t out, bool over_channels = false, std::int64_t taps = 1)
      : out_(out), over_channels_(over_channels), taps_(taps) {}
  bool splits_over_channels() const override { return over_channels_; }
  Shape dst_shape(std::span<const Shape> src) const override {
    return {out_, src[0].d, src[0].h, src[0].w};
  }
  Box needs(const Box& dst, std::size_t, std::span<const Shape> src) const override {
    if (dst.empty()) return {};
    Box box = dst;
    for (std::size_t a : {kD, kH, kW}) {
      --box.lo[a];
      ++box.hi[a];
    }
    box.lo[kC] = 0;
    box.hi[kC] = src[0].c;
    return intersect(box, Box::whole(src[0]));
  }
  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override {
    return {{"weight", out_, {src[0].c, 3, 2, taps_}, false, 1, 1},
            {"bias", out_, {1, 1, 1, 1}, false, 0, 0}};
  }

 private:
  std::int64_t out_;
  bool over_channels_;
  std::int64_t taps_;
};

/// A weight cut over its input channels along with the D blocks of the tensor: parts that differ
/// only in h or w hold the same slice.
class ChannelSlices final : public LayerGeometry {
 public:
  Shape dst_shape(std::span<const Shape> src) const override { return src[0]; }
  Box needs(const Box& dst, std::size_t, std::span<const Shape>) const override { return dst; }
  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override {
    return {{"weight", 3, {src[0].d, 2, 1, 3}, false, 1, 1}};
  }
  ParameterSlice parameter_slice(std::size_t parameter, const LayerBoxes& boxes,
                                 std::span<const Shape> src) const override {
    if (boxes.dst_owned.empty()) return {};
    ParameterSlice slice = parameters(src)[parameter].whole();
    slice.in.lo[kC] = boxes.dst_owned.lo[kD];
    slice.in.hi[kC] = boxes.dst_owned.hi[kD];
    return slice;
  }
};

/// A dense layer split over its input: disjoint slices, the bias on the owner of the output.
class InputSlices final : public LayerGeometry {
 public:
  explicit InputSlices(std::int64_t out) : out_(out) {}
  Shape dst_shape(std::span<const Shape>) const override { return {out_, 1, 1, 1}; }
  Box needs(const Box& dst, std::size_t, std::span<const Shape> src) const override {
    return dst.empty() ? Box{} : Box::whole(src[0]);
  }
  bool splits_over_input() const override { return true; }
  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override {
    return {{"weight", out_, src[0], true, 1, 1}, {"bias", out_, {1, 1, 1, 1}, true, 0, 0}};
  }
  ParameterSlice parameter_slice(std::size_t parameter, const LayerBoxes& boxes,
                                 std::span<const Shape>) const override {
    if (parameter == 0) return {{0, out_}, boxes.src_needed[0]};
    if (boxes.dst_owned.empty()) return {};
    return {{0, out_}, Box{{0, 0, 0, 0}, {1, 1, 1, 1}}};
  }

 private:
  std::int64_t out_;
};

/// conv1, mix, fc1, fc2 on a 5x4x3 sample of 2 channels, and late, which reads what fc1 reads and
/// is cut over its 100 output channels on up to 6 parts, where the last part gets a short vector.
/// `wide` outputs of fc1: with 30000 and more its weight takes several pieces; that of late does
/// with 450 `taps`, and slices then begin and end within pieces.
class CheckpointNetwork {
 public:
  explicit CheckpointNetwork(const PartGrid& grid, std::int64_t wide = 7, std::int64_t filters = 4,
                             std::int64_t taps = 1)
      : conv_(filters),
        fc1_(wide),
        fc2_(2),
        late_(100, true, taps),
        geometry_({2, 5, 4, 3},
                  {{"conv1", &conv_, {0}},
                   {"mix", &mix_, {1}},
                   {"fc1", &fc1_, {2}},
                   {"fc2", &fc2_, {3}},
                   {"late", &late_, {2}}},
                  grid) {}
  CheckpointNetwork(const CheckpointNetwork&) = delete;
  CheckpointNetwork& operator=(const CheckpointNetwork&) = delete;
  const ModelGeometry& geometry() const { return geometry_; }

 private:
  WholeWeight conv_;
  ChannelSlices mix_;
  InputSlices fc1_, fc2_;
  WholeWeight late_;
  ModelGeometry geometry_;
};

/// The value of an element (tree 0: parameters, 1: velocity): all different and exact in a float.
inline float value_at(int tree, std::size_t placement, std::int64_t global) {
  const auto number = static_cast<std::uint64_t>(global) * 16 + placement * 2 +
                      static_cast<std::uint64_t>(tree) + 1;
  return std::bit_cast<float>(static_cast<std::uint32_t>(0x3f000000u + number));
}

/// Calls visit(tree, placement, local offset, global index) for each element that this part holds.
template <class Visit>
void for_each_element(const ModelGeometry& geometry, const Parameters& parameters,
                      std::int64_t part, Visit visit) {
  const auto& placements = geometry.parameters();
  for (std::size_t i = 0; i < placements.size(); ++i)
    if (const ParameterRange* range = parameters.find(i))
      for_each_run(placements[i].geometry, placements[i].slices[static_cast<std::size_t>(part)],
                   [&](std::int64_t local, std::int64_t global, std::int64_t length) {
                     for (int tree : {0, 1})
                       for (std::int64_t k = 0; k < length; ++k)
                         visit(tree, i, static_cast<std::size_t>(range->offset + local + k),
                               global + k);
                   });
}

inline void fill(const ModelGeometry& geometry, Parameters& parameters, std::int64_t part) {
  for_each_element(geometry, parameters, part,
                   [&](int tree, std::size_t i, std::size_t at, std::int64_t global) {
                     (tree == 0 ? parameters.values() : parameters.state(0))[at] =
                         value_at(tree, i, global);
                   });
}

inline TrainingState sample_state(std::int64_t step) {
  TrainingState state;
  state.step = step;
  state.epoch = 3;
  state.samples_into_epoch = 5000000000;
  state.seed = 0xfedcba9876543210u;
  state.model = {{"kernel", "2"}, {"fc", "128,64"}, {"empty", ""}};
  state.run = {{"batch", "64"}};
  state.written_by = "halomesh test";
  return state;
}

}  // namespace halomesh
