// SPDX-License-Identifier: Apache-2.0
// Simple classifiers of voxels: see class_baselines.hpp.
#include "src/apps/train/class_baselines.hpp"

#include <algorithm>
#include <functional>
#include <limits>

#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/stop_signals.hpp"
#include "src/baseline/value_intervals.hpp"

namespace halomesh {
namespace {

using Visit = std::function<void(std::span<const float> values_dhwc,
                                 std::span<const std::uint8_t> labels_dhw)>;

/// Visits this rank's share of the samples. Collective over `world`.
void each_sample(const Comm& world, const Dataset& dataset, const Visit& visit) {
  std::vector<float> values;
  std::vector<std::uint8_t> labels;
  const StopSignals signals;
  run_with_collective_errors(world, [&](const std::function<bool()>& others_failed) {
    const auto reader = dataset.reader();
    for (std::int64_t i = world.rank(); i < dataset.size() && !others_failed(); i += world.size()) {
      require(!signals.requested(), signals.name() + " received: stopped before the last sample",
              "give the same command again");
      const Shape shape = dataset.shape_of(i), of_labels{1, shape.d, shape.h, shape.w};
      values.resize(static_cast<std::size_t>(shape.volume()));
      labels.resize(static_cast<std::size_t>(of_labels.volume()));
      reader->read(i, View{values.data(), Box::whole(shape), 1},
                   TensorView<std::uint8_t>{labels.data(), Box::whole(of_labels), 1});
      visit(values, labels);
    }
  });
}

/// Sums over ranks with one result on every rank, whatever the order of sums.
void add_up(const Comm& world, std::span<double> values) {
  world.sum(values);
  world.broadcast(std::as_writable_bytes(values), 0);
}

std::vector<ValueRange> value_ranges(const Comm& world, const Dataset& training) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  std::vector<ValueRange> ranges(static_cast<std::size_t>(training.shape().c),
                                 {kLargest, -kLargest});
  each_sample(world, training, [&](std::span<const float> values, std::span<const std::uint8_t>) {
    widen(values, ranges);
  });
  std::vector<double> ends;  // lower ends are negated, so that maxima serve both ends
  for (const ValueRange& range : ranges) {
    ends.push_back(-static_cast<double>(range.low));
    ends.push_back(range.high);
  }
  world.max(ends);
  for (std::size_t c = 0; c < ranges.size(); ++c)
    ranges[c] = {static_cast<float>(-ends[2 * c]), static_cast<float>(ends[2 * c + 1])};
  return ranges;
}

/// The quality of each class by `is_in(class, values of a voxel)`, averaged over all samples.
std::vector<ClassQuality> quality_with(
    const Comm& world, const Dataset& split,
    const std::function<bool(std::int64_t label, const float* voxel)>& is_in) {
  const std::int64_t classes = split.classes(), channels = split.shape().c;
  std::vector<double> sums(static_cast<std::size_t>(2 * classes + 1));
  each_sample(world, split,
              [&](std::span<const float> values, std::span<const std::uint8_t> labels) {
                for (std::int64_t c = 0; c < classes; ++c) {
                  double correct = 0, both = 0;
                  const float* voxel = values.data();
                  for (const std::uint8_t label : labels) {
                    const bool predicted = is_in(c, voxel), is = label == c;
                    both += (predicted ? 1 : 0) + (is ? 1 : 0);
                    correct += predicted && is ? 1 : 0;
                    voxel += channels;
                  }
                  const ClassQuality quality = class_quality(correct, both);
                  sums[static_cast<std::size_t>(2 * c)] += quality.iou;
                  sums[static_cast<std::size_t>(2 * c + 1)] += quality.dice;
                }
                sums.back() += 1;
              });
  add_up(world, sums);
  std::vector<ClassQuality> all;
  for (std::size_t c = 0; c + 1 < sums.size(); c += 2)
    all.push_back({sums[c] / sums.back(), sums[c + 1] / sums.back(), 0});
  return all;
}

}  // namespace

std::vector<ClassBaseline> class_baselines(const Comm& world, const Dataset* training,
                                           const Dataset& split) {
  std::vector<ClassBaseline> all;
  all.push_back({"background", quality_with(world, split, [](std::int64_t label, const float*) {
                   return label == 0;
                 })});
  if (training == nullptr) return all;
  ValueIntervals intervals(value_ranges(world, *training), split.classes());
  each_sample(world, *training,
              [&](std::span<const float> values, std::span<const std::uint8_t> labels) {
                intervals.add(values, labels);
              });
  add_up(world, intervals.counts());
  intervals.fit();
  all.push_back(
      {"threshold", quality_with(world, split, [&](std::int64_t label, const float* voxel) {
         return intervals.contains(label, voxel);
       })});
  return all;
}

}  // namespace halomesh
