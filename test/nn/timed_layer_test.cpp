// SPDX-License-Identifier: Apache-2.0
// Layers that only take time: all of it is spent, in pieces with polls between, and the geometry is
// that of the layer itself.
#include "src/nn/timed_layer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "src/nn/kernel_case.hpp"
#include "src/nn/kernels/moments.hpp"
#include "src/nn/layers/dense.hpp"
#include "src/nn/layers/sample_average.hpp"
#include "src/nn/losses/segmentation_loss.hpp"
#include "src/nn/timed_loss.hpp"

namespace halomesh {
namespace {

/// Records what is spent instead of spending it.
class RecordingClock final : public ComputeClock {
 public:
  double spend(double seconds) override {
    pieces.push_back(seconds);
    return interrupted * seconds;
  }
  double total() const { return std::accumulate(pieces.begin(), pieces.end(), 0.0); }
  std::vector<double> pieces;
  double interrupted = 1;  // what passes, per second that is asked for
};

constexpr Shape kSrc{8, 4, 2, 2};
constexpr Shape kDst{16, 1, 1, 1};
constexpr double kPoll = 1e-3;
const std::vector<Shape> kShapes{kSrc};
const std::vector<DataType> kTypes{DataType::kFloat32};

LayerContext context() {
  LayerContext c;
  c.src_shapes = kShapes;
  c.dst_shape = kDst;
  c.boxes = {{Box::whole(kSrc)}, Box::whole(kDst), Box::whole(kDst), {Box::whole(kSrc)}};
  c.src_spans = {Box::whole(kSrc)};
  c.dst_span = Box::whole(kDst);
  c.dst_chunks = {Box::whole(kDst)};
  c.src_types = kTypes;
  c.src_diff_wanted = {true};
  return c;
}

KernelTable table() {
  const Dense layer(kDst.c);
  KernelTable times;
  double seconds = 3.5e-3;  // 3.5, 7 and 10.5 ms: no multiples of the interval of polls
  for (const KernelPass pass :
       {KernelPass::kForward, KernelPass::kBackwardData, KernelPass::kBackwardParameters}) {
    times.add(kernel_case(layer, pass, kShapes, context().boxes, kTypes, 1, 2), seconds);
    seconds += 3.5e-3;
  }
  return times;
}

TEST_CASE("a timed layer spends the time of the table, and polls between pieces") {
  RecordingClock clock;
  const KernelTable times = table();
  TimedLayer layer(std::make_unique<Dense>(kDst.c), {times, clock, kPoll, 2});
  layer.prepare(context(), {});
  int polls = 0;
  const std::function<void()> poll = [&] { ++polls; };
  const Pass pass{true, 0, 0, 0, &poll};
  const auto check = [&](double seconds, const std::function<void()>& call) {
    CAPTURE(seconds);
    clock.pieces.clear();
    polls = 0;
    call();
    CHECK(clock.total() == doctest::Approx(seconds));
    CHECK(polls == static_cast<int>(clock.pieces.size()));
    CHECK(polls >= static_cast<int>(seconds / kPoll));
    CHECK(*std::max_element(clock.pieces.begin(), clock.pieces.end()) <= kPoll);
  };
  const Box whole = Box::whole(kDst);
  Box quarter = whole;
  quarter.hi[kC] = kDst.c / 4;
  check(3.5e-3, [&] { layer.forward(pass, {}, {}, whole); });
  check(3.5e-3 / 4, [&] { layer.forward(pass, {}, {}, quarter); });
  check(7e-3, [&] { layer.backward_data(pass, {}, {}, 0, {}); });
  check(10.5e-3, [&] { layer.backward_parameters(pass, {}, {}); });
  CHECK(layer.implementations().size() == 3);
}

TEST_CASE("a timed layer that is interrupted does not take longer for it") {
  RecordingClock clock;
  clock.interrupted = 2.5;
  const KernelTable times = table();
  TimedLayer layer(std::make_unique<Dense>(kDst.c), {times, clock, kPoll, 2});
  layer.prepare(context(), {});
  layer.backward_parameters(Pass{true}, {}, {});  // 10.5 ms: four pieces of 2.5 ms and 0.5 ms
  REQUIRE(clock.pieces.size() == 5);
  CHECK(clock.total() == doctest::Approx(4.5e-3));
}

TEST_CASE("a gradient that nobody wants takes no time") {
  RecordingClock clock;
  const KernelTable times = table();
  TimedLayer layer(std::make_unique<Dense>(kDst.c), {times, clock, kPoll, 2});
  LayerContext first = context();
  first.src_diff_wanted = {false};
  layer.prepare(first, {});
  CHECK(layer.implementations().size() == 2);
}

TEST_CASE("a timed layer has the geometry of its layer") {
  RecordingClock clock;
  const KernelTable times = table();
  const Dense dense(kDst.c);
  const TimedLayer timed(std::make_unique<Dense>(kDst.c), {times, clock, kPoll, 2});
  CHECK(timed.dst_shape(kShapes) == dense.dst_shape(kShapes));
  CHECK(timed.needs(Box::whole(kDst), 0, kShapes) == dense.needs(Box::whole(kDst), 0, kShapes));
  CHECK(timed.splits_over_input() == dense.splits_over_input());
  CHECK(timed.splits_over_input());
  CHECK(timed.splits_over_channels() == dense.splits_over_channels());
  CHECK(timed.kernel_name() == dense.kernel_name());
  CHECK(timed.forward_flops(kShapes) == dense.forward_flops(kShapes));
  const TimedLayer moments(std::make_unique<Moments>(), {times, clock, kPoll, 2});
  const std::vector<Box> block{{{1, 0, 0, 0}, {2, 1, 1, 1}}};
  CHECK(moments.contributes(block, kShapes) == Box{{2, 0, 0, 0}, {4, 1, 1, 1}});
  const std::vector<ParameterGeometry> mine = timed.parameters(kShapes);
  const std::vector<ParameterGeometry> own = dense.parameters(kShapes);
  REQUIRE(mine.size() == own.size());
  REQUIRE(!own.empty());
  for (std::size_t i = 0; i < own.size(); ++i) {
    CHECK(mine[i].name == own[i].name);
    CHECK(mine[i].volume() == own[i].volume());
    CHECK(timed.parameter_slice(i, context().boxes, kShapes) ==
          dense.parameter_slice(i, context().boxes, kShapes));
  }
}

TEST_CASE("samples of other replicas are summed both ways, in training only") {
  RecordingClock clock;
  const KernelTable times = table();
  const std::vector<DataType> doubles{DataType::kFloat64};
  std::vector<std::size_t> sums;
  const std::function<void(std::span<double>)> sum = [&](auto v) { sums.push_back(v.size()); };
  const auto calls = [&](std::int64_t together, bool training) {
    TimedLayer layer(std::make_unique<SampleAverage>(together), {times, clock, kPoll, 2});
    CHECK(layer.samples_together() == together);
    LayerContext here = context();
    here.src_types = doubles;
    here.batch = 2;
    here.training = training;
    layer.prepare(here, {});
    sums.clear();
    const Pass pass{training, 0, 0, 0, nullptr, 8, &sum};
    layer.forward(pass, {}, {}, Box::whole(kDst));
    if (training) layer.backward_data(pass, {}, {}, 0, {});
    return sums;
  };
  CHECK_THROWS_WITH_AS(SampleAverage(0), "an average over 0 samples", Error);
  CHECK(calls(4, true) == std::vector<std::size_t>{16, 16});
  CHECK(calls(2, true).empty());
  CHECK(calls(4, false).empty());
}

TEST_CASE("a timed loss has the shapes of its loss and reads nothing") {
  const Shape output{3, 4, 4, 4};
  TimedLoss timed(std::make_unique<SegmentationLoss>(output, SegmentationOptions{}));
  SegmentationLoss loss(output, SegmentationOptions{});
  CHECK(timed.target_shape() == loss.target_shape());
  CHECK(timed.target_type() == loss.target_type());
  CHECK(timed.target_box(Box::whole(output)) == loss.target_box(Box::whole(output)));
  CHECK(timed.sums_per_sample() == loss.sums_per_sample());
  CHECK(timed.gradient_reads_sums() == loss.gradient_reads_sums());
  const std::vector<std::uint8_t> labels(64, 255);
  const AnyConstView target =
      TensorView<const std::uint8_t>{labels.data(), loss.target_box(Box::whole(output)), 1};
  std::vector<double> sums(timed.sums_per_sample());
  timed.add_sums({}, target, sums);
  CHECK(timed.gradient({}, target, sums, 1, {}) == 0);
}

TEST_CASE("the time of a kernel that is not known is refused") {
  RecordingClock clock;
  const KernelTable empty;
  TimedLayer layer(std::make_unique<Dense>(kDst.c), {empty, clock, kPoll, 2});
  CHECK_THROWS_AS(layer.prepare(context(), {}), Error);
}

}  // namespace
}  // namespace halomesh
