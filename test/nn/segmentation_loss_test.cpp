// SPDX-License-Identifier: Apache-2.0
// Cross entropy and Dice of voxels against numbers by hand, naive loops and finite differences, of
// whole samples and of samples cut into parts; IoU and Dice scores from counts.
#include "src/nn/losses/segmentation_loss.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "error.hpp"
#include "partition/partition.hpp"
#include "rng.hpp"
#include "src/nn/pack.hpp"
#include "test/harness/segmentation_reference.hpp"

namespace halomesh {
namespace {

const Shape kOutput{3, 5, 4, 3};
constexpr std::int64_t kBatch = 2;

std::vector<SegmentationOptions> all_options() {
  return {{},
          {1, {1.0017, 2.6146, 1.7164}},
          {0.5, {}, 0.5},
          {0, {}, 1, true, 1e-5},
          {0.25, {0, 1, 4}, 2, true, 1}};
}

/// Outputs of up to 2 and labels; of the second sample none is 2.
struct Sample {
  Tensor output{Box::whole(kOutput), kBatch};
  std::vector<std::uint8_t> labels;

  Sample() {
    const CounterRng rng(7, RandomUse::kSynth);
    const std::int64_t volume = kOutput.volume();
    for (std::int64_t i = 0; i < kBatch * volume; ++i)
      output.view().data[i] = 4 * rng.uniform(static_cast<std::uint64_t>(i)) - 2;
    for (std::int64_t v = 0; v < kBatch * volume / kOutput.c; ++v)
      labels.push_back(static_cast<std::uint8_t>(rng.uniform(static_cast<std::uint64_t>(1000 + v)) *
                                                 (v < volume / kOutput.c ? 3 : 2)));
  }
  GlobalTensor global() const {
    GlobalTensor z(kOutput, kBatch);
    for (std::size_t i = 0; i < z.values.size(); ++i)
      z.values[i] = static_cast<double>(output.view().data[i]);
    return z;
  }
};

/// A block of a view, as a tensor of its own.
template <class T>
Tensor block_of(TensorView<T> whole, const Box& box) {
  Tensor block(box, whole.batch, DataTypeOf<std::remove_const_t<T>>::kType);
  pack(AnyConstView(whole), box, block.any_view().data);
  return block;
}

struct Result {
  double loss = 0;
  std::vector<float> diff;
  Quality quality;
};

Result run(const Sample& sample, const SegmentationOptions& options, const PartGrid& grid,
           bool padded = false) {
  SegmentationLoss loss(kOutput, options);
  if (padded) loss.expect_padding();
  const TensorView<const std::uint8_t> labels{sample.labels.data(), Box::whole(loss.target_shape()),
                                              kBatch};
  std::vector<double> sums(kBatch * loss.sums_per_sample());
  const Partition parts = block_partition(kOutput, grid);
  for (const Box& box : parts)
    if (!box.empty())
      loss.add_sums(block_of(ConstView(sample.output.view()), box).view(),
                    block_of(labels, loss.target_box(box)).any_view(), sums);
  Result result;
  result.diff.resize(static_cast<std::size_t>(kBatch * kOutput.volume()));
  const View diff{result.diff.data(), Box::whole(kOutput), kBatch};
  for (const Box& box : parts) {
    if (box.empty()) continue;
    Tensor part(box, kBatch);
    result.loss += loss.gradient(block_of(ConstView(sample.output.view()), box).view(),
                                 block_of(labels, loss.target_box(box)).any_view(),
                                 loss.gradient_reads_sums() ? sums : std::vector<double>(), kBatch,
                                 part.view());
    unpack_copy(part.view().data, box, diff);
  }
  std::vector<double> terms(loss.sums_per_sample());
  for (std::size_t n = 0; n < kBatch; ++n) {
    const auto of_one = std::span(sums).subspan(n * terms.size(), terms.size());
    loss.conclude(of_one);
    for (std::size_t i = 0; i < terms.size(); ++i) terms[i] += of_one[i];
  }
  result.quality = loss.quality(terms);
  return result;
}

TEST_CASE("the loss, gradient and scores of a segmentation equal naive loops on any cut") {
  const Sample sample;
  for (const SegmentationOptions& options : all_options())
    for (const PartGrid& grid : {PartGrid{1, 1, 1}, {2, 1, 1}, {3, 2, 1}, {1, 3, 2}, {7, 1, 1}}) {
      CAPTURE(options.cross_entropy);
      CAPTURE(options.dice);
      CAPTURE(to_string(grid));
      const SegmentationReference expected =
          segmentation_reference(sample.global(), sample.labels, options);
      const Result result = run(sample, options, grid);
      // Both are sums of some 100 terms of up to a few units in fp64; a gradient is rounded once.
      CHECK(std::abs(result.loss - expected.loss) < 1e-13);
      CHECK(std::abs(result.quality.loss - expected.loss) < 1e-13);
      CHECK(result.quality.samples == kBatch);
      for (std::size_t i = 0; i < expected.diff.size(); ++i)
        CHECK(std::abs(static_cast<double>(result.diff[i]) - expected.diff[i]) <=
              0x1p-24 * std::abs(expected.diff[i]) + 1e-15);
      REQUIRE(result.quality.classes.size() == 3);
      for (std::size_t c = 0; c < 3; ++c) {
        CHECK(result.quality.classes[c].iou == doctest::Approx(expected.classes[c].iou));
        CHECK(result.quality.classes[c].dice == doctest::Approx(expected.classes[c].dice));
      }
    }
}

TEST_CASE("voxels beyond a padded sample count for nothing, on any cut") {
  Sample sample;
  const Box inside{{0, 1, 0, 0}, {3, 5, 3, 2}};
  GlobalTensor z(inside.shape(), kBatch);
  std::vector<std::uint8_t> labels;
  const TensorView<std::uint8_t> all{sample.labels.data(), Box::whole({1, 5, 4, 3}), kBatch};
  std::size_t next = 0;
  for (std::int64_t n = 0; n < kBatch; ++n)
    for (std::int64_t d = 0; d < 5; ++d)
      for (std::int64_t h = 0; h < 4; ++h)
        for (std::int64_t w = 0; w < 3; ++w) {
          if (!inside.contains({{0, d, h, w}, {3, d + 1, h + 1, w + 1}})) {
            all.at(n, 0, d, h, w) = kOutsideLabel;
            continue;
          }
          labels.push_back(all.at(n, 0, d, h, w));
          for (std::int64_t c = 0; c < 3; ++c)
            z.values[next++] = static_cast<double>(sample.output.view().at(n, c, d, h, w));
        }
  REQUIRE(next == z.values.size());
  for (const SegmentationOptions& options : all_options())
    for (const PartGrid& grid : {PartGrid{1, 1, 1}, {2, 1, 1}, {3, 2, 1}, {1, 2, 3}}) {
      const SegmentationReference expected = segmentation_reference(z, labels, options);
      const Result result = run(sample, options, grid, true);
      CHECK(std::abs(result.loss - expected.loss) < 1e-13);
      CHECK(std::abs(result.quality.loss - expected.loss) < 1e-13);
      for (std::size_t c = 0; c < 3; ++c)
        CHECK(result.quality.classes[c].dice == doctest::Approx(expected.classes[c].dice));
      const ConstView diff{result.diff.data(), Box::whole(kOutput), kBatch};
      std::size_t i = 0;
      for (std::int64_t n = 0; n < kBatch; ++n)
        for (std::int64_t d = 0; d < 5; ++d)
          for (std::int64_t h = 0; h < 4; ++h)
            for (std::int64_t w = 0; w < 3; ++w)
              for (std::int64_t c = 0; c < 3; ++c) {
                const bool in = inside.contains({{c, d, h, w}, {c + 1, d + 1, h + 1, w + 1}});
                const double wanted = in ? expected.diff[i++] : 0;
                CHECK(std::abs(static_cast<double>(diff.at(n, c, d, h, w)) - wanted) <=
                      0x1p-24 * std::abs(wanted) + 1e-15);
              }
      CHECK(i == expected.diff.size());
    }
}

TEST_CASE("the gradient of a segmentation's loss is its difference quotient") {
  Sample sample;
  for (const SegmentationOptions& options : all_options()) {
    const Result result = run(sample, options, {2, 2, 1});
    for (std::size_t i = 0; i < result.diff.size(); i += 7) {
      constexpr float kStep = 0x1p-10f;
      float& value = sample.output.view().data[i];
      const float before = value;
      value = before + kStep;
      const double up = run(sample, options, {1, 1, 1}).loss, at_up = value;
      value = before - kStep;
      const double quotient =
          (up - run(sample, options, {1, 1, 1}).loss) / (at_up - static_cast<double>(value));
      value = before;
      // The third derivative of a share of a voxel is below 4 * its weight / voxels; its error is
      // step^2 / 6 of that, with room for Dice's.
      CHECK(std::abs(quotient - static_cast<double>(result.diff[i])) < 1e-6);
    }
  }
}

TEST_CASE("a segmentation of four voxels by hand") {
  const Shape shape{2, 1, 1, 4};
  // Predicted 0 1 1 0, labels 0 1 0 0; the third voxel's logits are equal but for the sign.
  Tensor output(Box::whole(shape), 1);
  const std::vector<float> z{1, 0, 0, 1, -1, 1, 2, 2};
  std::copy(z.begin(), z.end(), output.view().data);
  const std::vector<std::uint8_t> labels{0, 1, 0, 0};
  SegmentationLoss loss(shape, {1, {1, 3}});
  CHECK(loss.target_shape() == Shape{1, 1, 1, 4});
  std::vector<double> sums(loss.sums_per_sample());
  loss.add_sums(output.view(),
                TensorView<const std::uint8_t>{labels.data(), Box::whole({1, 1, 1, 4}), 1}, sums);
  loss.conclude(sums);
  const Quality quality = loss.quality(sums);
  const double one = std::log1p(std::exp(-1.0)), two = std::log1p(std::exp(2.0));
  CHECK(quality.loss == doctest::Approx((one + 3 * one + two + std::log(2.0)) / 4));
  CHECK(quality.classes[0].iou == doctest::Approx(2.0 / 3));
  CHECK(quality.classes[0].dice == doctest::Approx(4.0 / 5));
  CHECK(quality.classes[1].iou == 0.5);
  CHECK(quality.classes[1].dice == doctest::Approx(2.0 / 3));
}

TEST_CASE("a class that is nowhere and not predicted scores 1") {
  Sample sample;
  for (std::int64_t i = 2; i < kBatch * kOutput.volume(); i += 3) sample.output.view().data[i] = -9;
  for (std::uint8_t& label : sample.labels) label = label == 2 ? 0 : label;
  const Quality quality = run(sample, {0.5, {}, 0.5}, {2, 1, 1}).quality;
  CHECK(quality.classes[2].iou == 1);
  CHECK(quality.classes[2].dice == 1);
  CHECK(quality.classes[0].iou < 1);
}

TEST_CASE(
    "classes are learned where the gradient is given their voxels, not those of validations") {
  const Sample sample;
  SegmentationLoss loss(kOutput, {});
  loss.expect_padding();
  const auto labels_of = [](std::vector<std::uint8_t>& labels) {
    labels.resize(static_cast<std::size_t>(kBatch * kOutput.volume() / kOutput.c), labels.front());
    return TensorView<const std::uint8_t>{labels.data(), Box::whole({1, 5, 4, 3}), kBatch};
  };
  std::vector<double> sums(kBatch * loss.sums_per_sample());
  std::vector<std::uint8_t> validated{1}, learned{kOutsideLabel, 2, kOutsideLabel};
  loss.add_sums(sample.output.view(), labels_of(validated), sums);
  std::ranges::fill(sums, 0.0);
  loss.add_sums(sample.output.view(), labels_of(learned), sums);
  const Tensor diff(Box::whole(kOutput), kBatch);
  loss.gradient(sample.output.view(), labels_of(learned), sums, kBatch, diff.view());
  const auto classes = loss.learned_classes();
  CHECK(std::vector<int>(classes.begin(), classes.end()) == std::vector<int>{0, 0, 1});
}

TEST_CASE("extreme outputs have finite losses, NaN is not hidden") {
  Sample sample;
  for (std::int64_t i = 0; i < 30; ++i) sample.output.view().data[i] *= 1e4F;
  CHECK(std::isfinite(run(sample, {0.5, {}, 0.5}, {1, 1, 1}).loss));
  sample.output.view().data[4] = std::numeric_limits<float>::quiet_NaN();
  for (const SegmentationOptions& options : all_options()) {
    const Result result = run(sample, options, {1, 1, 1});
    CHECK(std::isnan(result.loss));
    CHECK(std::isnan(result.quality.loss));
    CHECK(std::isnan(result.diff[4]));
  }
}

TEST_CASE("a segmentation refuses labels, options and cuts that do not fit") {
  Sample sample;
  sample.labels[17] = 3;
  CHECK_THROWS_WITH_AS(run(sample, {}, {1, 1, 1}), "label 3 for a network of 3 classes", Error);
  CHECK_THROWS_WITH_AS(run(sample, {}, {1, 1, 1}, true), "label 3 for a network of 3 classes",
                       Error);
  CHECK_THROWS_WITH_AS(SegmentationLoss({256, 4, 4, 4}, {}).expect_padding(),
                       "padded samples of 256 classes", Error);
  CHECK_THROWS_WITH_AS(SegmentationLoss({1, 4, 4, 4}, {}), "a segmentation into 1 classes", Error);
  CHECK_THROWS_AS(SegmentationLoss({257, 4, 4, 4}, {}), Error);
  CHECK_THROWS_WITH_AS(SegmentationLoss(kOutput, {1, {1, 2}}), "2 weights for 3 classes", Error);
  CHECK_THROWS_AS(SegmentationLoss(kOutput, {0, {}, 0}), Error);
  CHECK_THROWS_AS(SegmentationLoss(kOutput, {1, {}, 1, false, 0}), Error);
  const SegmentationLoss loss(kOutput, {});
  CHECK_THROWS_WITH_AS(static_cast<void>(loss.target_box({{1, 0, 0, 0}, {3, 5, 4, 3}})),
                       "channels 1 to 2 of an output of 3 classes on one part", Error);
  CHECK(loss.target_box({{0, 1, 0, 2}, {3, 5, 4, 3}}) == Box{{0, 1, 0, 2}, {1, 5, 4, 3}});
}

}  // namespace
}  // namespace halomesh
