// SPDX-License-Identifier: Apache-2.0
// The loss of outputs on several levels equals the weighted sum of the losses of each level by
// itself, whole and in blocks; the cast between types.
#include "src/nn/losses/heads_loss.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "error.hpp"
#include "src/nn/layers/cast.hpp"
#include "src/nn/losses/registry.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kSamples = 2, kClasses = 3;
const Shape kWhole{2 * kClasses, 4, 4, 6};
const Spatial kFactor{2, 1, 3};

/// The joined output of two heads; the second repeats its voxels.
Tensor joined_output() {
  Tensor tensor(Box::whole(kWhole), kSamples);
  const View view = tensor.view();
  for (std::int64_t n = 0; n < kSamples; ++n)
    for (std::int64_t d = 0; d < kWhole.d; ++d)
      for (std::int64_t h = 0; h < kWhole.h; ++h)
        for (std::int64_t w = 0; w < kWhole.w; ++w)
          for (std::int64_t c = 0; c < kWhole.c; ++c) {
            const bool low = c >= kClasses;
            view.at(n, c, d, h, w) = static_cast<float>(std::sin(
                1.3 * static_cast<double>(n) + 0.7 * static_cast<double>(c) +
                static_cast<double>(low ? d / kFactor[0] : d) + 2.1 * static_cast<double>(h) +
                0.4 * static_cast<double>(low ? w / kFactor[2] : w)));
          }
  return tensor;
}

std::uint8_t label(std::int64_t n, std::int64_t d, std::int64_t h, std::int64_t w) {
  return static_cast<std::uint8_t>((n + d * d + 2 * h + w) % kClasses);
}

/// The labels of a box, one for every `factor` voxels of the whole.
Tensor labels_of(const Box& box, const Spatial& factor) {
  Box voxels = box;
  voxels.hi[kC] = 1;
  Tensor tensor(voxels, kSamples, DataType::kUint8);
  const auto view = tensor.any_view().as<std::uint8_t>();
  for (std::int64_t n = 0; n < kSamples; ++n)
    for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
      for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
        for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
          view.at(n, 0, d, h, w) = label(n, d * factor[0], h * factor[1], w * factor[2]);
  return tensor;
}

/// The box of a tensor's elements, copied.
Tensor part_of(ConstView from, const Box& box, std::int64_t channel, const Spatial& factor) {
  Tensor tensor(box, kSamples);
  const View to = tensor.view();
  for (std::int64_t n = 0; n < kSamples; ++n)
    for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
      for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
        for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
          for (std::int64_t c = box.lo[kC]; c < box.hi[kC]; ++c)
            to.at(n, c, d, h, w) =
                from.at(n, c + channel, d * factor[0], h * factor[1], w * factor[2]);
  return tensor;
}

std::unique_ptr<Loss> voxel_loss(const Shape& output) { return make_loss("dice+ce", output); }

TEST_CASE("the loss of heads is the weighted sum of the losses of their levels") {
  const Tensor output = joined_output();
  HeadsLoss loss(kWhole, {{kClasses, {1, 1, 1}, 0.75}, {kClasses, kFactor, 0.25}}, voxel_loss);
  CHECK(loss.voxel_classes(kWhole) == kClasses);

  // By hand: each head as a network's output of its own.
  double expected = 0;
  Tensor expected_diff(Box::whole(kWhole), kSamples);
  for (const auto& [channel, factor, weight] :
       {std::tuple{std::int64_t{0}, Spatial{1, 1, 1}, 0.75}, {kClasses, kFactor, 0.25}}) {
    const Shape shape{kClasses, kWhole.d / factor[0], kWhole.h / factor[1], kWhole.w / factor[2]};
    const Box box = Box::whole(shape);
    const Tensor own = part_of(output.view(), box, channel, factor),
                 labels = labels_of(box, factor);
    const Tensor diff(box, kSamples);
    const auto level = voxel_loss(shape);
    std::vector<double> sums(level->sums_per_sample() * kSamples);
    level->add_sums(own.view(), labels.any_view(), sums);
    expected +=
        weight * level->gradient(own.view(), labels.any_view(), sums, kSamples, diff.view());
    for (std::int64_t n = 0; n < kSamples; ++n)
      for (std::int64_t d = 0; d < shape.d; ++d)
        for (std::int64_t h = 0; h < shape.h; ++h)
          for (std::int64_t w = 0; w < shape.w; ++w)
            for (std::int64_t c = 0; c < kClasses; ++c)
              expected_diff.view().at(n, c + channel, d * factor[0], h * factor[1], w * factor[2]) =
                  static_cast<float>(weight * static_cast<double>(diff.view().at(n, c, d, h, w)));
  }

  // In blocks that cut levels anywhere; one has no voxel of the second head.
  for (const std::int64_t cut : {0, 1, 2, 3}) {
    CAPTURE(cut);
    std::vector<Box> blocks(2, Box::whole(kWhole));
    blocks[0].hi[kD] = blocks[1].lo[kD] = cut;
    if (cut == 3) blocks[0].lo[kD] = 0;
    std::vector<double> sums(loss.sums_per_sample() * kSamples);
    for (const Box& block : blocks)
      if (!block.empty())
        loss.add_sums(part_of(output.view(), block, 0, {1, 1, 1}).view(),
                      labels_of(block, {1, 1, 1}).any_view(), sums);
    double found = 0;
    std::size_t compared = 0;
    for (const Box& block : blocks) {
      if (block.empty()) continue;
      const Tensor diff(block, kSamples);
      found += loss.gradient(part_of(output.view(), block, 0, {1, 1, 1}).view(),
                             labels_of(block, {1, 1, 1}).any_view(), sums, kSamples, diff.view());
      const Tensor wanted = part_of(expected_diff.view(), block, 0, {1, 1, 1});
      for (std::int64_t i = 0; i < kSamples * block.volume(); ++i, ++compared)
        CHECK(diff.view().data[i] == doctest::Approx(wanted.view().data[i]));
    }
    CHECK(compared == static_cast<std::size_t>(kSamples * kWhole.volume()));
    CHECK(found == doctest::Approx(expected));
    const std::size_t width = loss.sums_per_sample();
    std::vector<double> terms(width);
    for (std::size_t n = 0; n < kSamples; ++n) {
      loss.conclude(std::span(sums).subspan(n * width, width));
      for (std::size_t i = 0; i < width; ++i) terms[i] += sums[n * width + i];
    }
    const Quality quality = loss.quality(terms);
    CHECK(quality.loss == doctest::Approx(expected));
    CHECK(quality.classes.size() == kClasses);
  }
}

TEST_CASE("levels that do not divide the whole are refused") {
  CHECK_THROWS_AS(HeadsLoss(kWhole, {{kClasses, {3, 1, 1}, 1}}, voxel_loss), Error);
}

TEST_CASE("a cast rounds to bf16 and back") {
  const Box box = Box::whole({2, 1, 2, 3});
  Tensor wide(box, 1), narrow(box, 1, DataType::kBfloat16), again(box, 1);
  for (std::int64_t i = 0; i < box.volume(); ++i)
    wide.view().data[i] = 1.0F + 0x1p-9F * static_cast<float>(i);
  const AnyConstView src = wide.any_view(), rounded = narrow.any_view();
  Cast(DataType::kBfloat16).forward({}, std::span(&src, 1), narrow.any_view(), box);
  Cast(DataType::kFloat32).forward({}, std::span(&rounded, 1), again.any_view(), box);
  for (std::int64_t i = 0; i < box.volume(); ++i) {
    const float value = wide.view().data[i];
    CHECK(again.view().data[i] == static_cast<float>(Bfloat16(value)));
    CHECK(again.view().data[i] == doctest::Approx(value).epsilon(0x1p-8));
  }
  const std::vector<DataType> counts{DataType::kInt16};
  CHECK_THROWS_AS(Cast(DataType::kFloat32).dst_type(counts), Error);
}

}  // namespace
}  // namespace halomesh
