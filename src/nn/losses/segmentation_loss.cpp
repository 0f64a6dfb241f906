// SPDX-License-Identifier: Apache-2.0
// Cross entropy and Dice of voxels: see segmentation_loss.hpp.
#include "src/nn/losses/segmentation_loss.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "error.hpp"
#include "src/nn/losses/registry.hpp"

namespace halomesh {
namespace {

using Probabilities = std::array<double, SegmentationLoss::kMostClasses>;

/// Writes the softmax of `classes` outputs of a voxel; returns the logarithm of the sum of their
/// exponentials.
double softmax(const float* z, std::size_t classes, Probabilities& p) {
  const double largest = *std::max_element(z, z + classes);
  double sum = 0;
  for (std::size_t c = 0; c < classes; ++c) sum += p[c] = std::exp(z[c] - largest);
  for (std::size_t c = 0; c < classes; ++c) p[c] /= sum;
  return largest + std::log(sum);
}

}  // namespace

SegmentationLoss::SegmentationLoss(const Shape& output, SegmentationOptions options)
    : output_(output),
      options_(std::move(options)),
      first_dice_(options_.background ? 0 : 1),
      dice_classes_(static_cast<double>(output.c) - static_cast<double>(first_dice_)),
      voxels_(static_cast<double>(output.d * output.h * output.w)),
      sums_(output.c, kSums),
      slopes_(classes()) {
  require(output.c >= 2 && output.c <= kMostClasses,
          text("a segmentation into {} classes", output.c),
          text("the last layer of the network must have a channel for each of 2 to {} classes",
               kMostClasses));
  if (options_.weights.empty()) options_.weights.assign(classes(), 1.0);
  require(options_.weights.size() == classes(),
          text("{} weights for {} classes", options_.weights.size(), output.c),
          "give one weight for each class, the background's first");
  for (const double weight : options_.weights)
    require(weight >= 0 && std::isfinite(weight),
            text("the class weight {} is out of range", weight), "give numbers of at least 0");
  require(options_.cross_entropy >= 0 && options_.dice >= 0 &&
              options_.cross_entropy + options_.dice > 0 && options_.smooth > 0,
          text("shares of {} for cross entropy and {} for Dice, with smoothing {}",
               options_.cross_entropy, options_.dice, options_.smooth),
          "shares must be at least 0 and not both 0, and smoothing greater than 0");
}

Box SegmentationLoss::target_box(const Box& output) const {
  if (output.empty()) return {};
  require(output.extent(kC) == output_.c,
          text("channels {} to {} of an output of {} classes on one part", output.lo[kC],
               output.hi[kC] - 1, output_.c),
          "a part needs all classes of its voxels: cut the last layer in space only");
  Box box = output;
  box.hi[kC] = 1;
  return box;
}

/// The labels of a block's voxels. Throws Error for one that is not of a class.
SegmentationLoss::LabelFlags SegmentationLoss::labels_of(
    TensorView<const std::uint8_t> labels) const {
  const std::int64_t size = labels.batch * labels.sample_volume();
  LabelFlags all{};
  std::uint8_t* const flags = all.data();
#pragma omp parallel for schedule(static) reduction(| : flags[:kMostClasses]) if (size > 1 << 16)
  for (std::int64_t i = 0; i < size; ++i) flags[labels.data[i]] = 1;
  if (padded_) all[kOutsideLabel] = 0;
  const auto last = std::find(all.rbegin(), all.rend() - output_.c, 1);
  if (last != all.rend() - output_.c)
    throw Error(
        fmt::format("label {} for a network of {} classes", all.rend() - last - 1, output_.c),
        fmt::format("labels must be 0 to {}; a network needs an output channel for each "
                    "class of the data",
                    output_.c - 1));
  return all;
}

void SegmentationLoss::expect_padding() {
  require(output_.c <= kOutsideLabel, text("padded samples of {} classes", output_.c),
          text("label {} is that of voxels beyond a sample: use at most {} classes", kOutsideLabel,
               kOutsideLabel));
  padded_ = true;
}

/// The number of voxels V of a whole sample.
double SegmentationLoss::voxels_of(std::span<const double> sums) const {
  if (!padded_) return voxels_;
  double voxels = 0;
  for (std::size_t c = 0; c < classes(); ++c) voxels += of(sums, kVoxels, c);
  return voxels;
}

void SegmentationLoss::add_sums(ConstView output, AnyConstView target, std::span<double> sums) {
  const auto labels = target.as<std::uint8_t>();
  labels_of(labels);
  const std::size_t count = classes();
  for (std::int64_t sample = 0; sample < output.batch; ++sample) {
    const auto totals =
        sums_.over(output.span, sample, 1, [&](auto n, auto d, auto h, auto w, double* const sum) {
          Probabilities p;
          const float* const z = &output.at(n, 0, d, h, w);
          const std::size_t label = labels.at(n, 0, d, h, w);
          if (label >= count) return;  // beyond the sample
          const auto predicted = static_cast<std::size_t>(std::max_element(z, z + count) - z);
          const double log_sum = softmax(z, count, p);
          for (std::size_t c = 0; c < count; ++c) sum[kProbability * count + c] += p[c];
          sum[kOverlap * count + label] += p[label];
          sum[kVoxels * count + label] += 1;
          sum[kEntropy * count + label] += log_sum - z[label];
          sum[kPredicted * count + predicted] += 1;
          if (predicted == label) sum[kCorrect * count + label] += 1;
        });
    double* const to = sums.data() + static_cast<std::size_t>(sample) * totals.size();
    for (std::size_t i = 0; i < totals.size(); ++i) to[i] += totals[i];
  }
}

SegmentationLoss::SoftDice SegmentationLoss::soft_dice(std::span<const double> sums,
                                                       std::size_t c) const {
  const double all = of(sums, kProbability, c) + of(sums, kVoxels, c) + options_.smooth;
  const double value = (2 * of(sums, kOverlap, c) + options_.smooth) / all;
  return {value, (2 - value) / all, -value / all};
}

double SegmentationLoss::dice_loss(std::span<const double> sums) const {
  double loss = 0;
  for (std::size_t c = first_dice_; c < classes(); ++c) loss += 1 - soft_dice(sums, c).value;
  return options_.dice * loss / dice_classes_;
}

double SegmentationLoss::gradient(ConstView output, AnyConstView target,
                                  std::span<const double> sums, std::int64_t global_batch,
                                  View diff) {
  const auto labels = target.as<std::uint8_t>();
  const std::size_t count = classes();
  const LabelFlags found = labels_of(labels);
  for (std::size_t c = 0; c < count; ++c) learned_[c] = std::max(learned_[c], found[c]);
  const auto batch = static_cast<double>(global_batch);
  const auto own_voxels = static_cast<double>(output.sample_volume()) / static_cast<double>(count);
  double loss = 0;
  for (std::int64_t sample = 0; sample < output.batch; ++sample) {
    double voxels = voxels_;
    if (gradient_reads_sums()) {
      const auto whole =
          sums.subspan(static_cast<std::size_t>(sample) * sums_per_sample(), sums_per_sample());
      voxels = voxels_of(whole);
      loss += own_voxels / voxels_ * dice_loss(whole) / batch;
      const double scale = options_.dice / (dice_classes_ * batch);
      for (std::size_t c = first_dice_; c < count; ++c) {
        const SoftDice dice = soft_dice(whole, c);
        slopes_[c] = {0, -scale * dice.inside, -scale * dice.outside};
      }
    }
    const double entropy_scale = options_.cross_entropy / (batch * voxels);
    const auto totals =
        sums_.over(output.span, sample, 1, [&](auto n, auto d, auto h, auto w, double* const sum) {
          Probabilities p;
          const float* const z = &output.at(n, 0, d, h, w);
          float* const to = &diff.at(n, 0, d, h, w);
          const std::size_t label = labels.at(n, 0, d, h, w);
          if (label >= count) {  // beyond the sample
            std::fill(to, to + count, 0.0F);
            return;
          }
          const double weight = options_.weights[label], log_sum = softmax(z, count, p);
          sum[0] += weight * (log_sum - z[label]);
          const auto slope = [&](std::size_t c) {
            return c == label ? slopes_[c].inside : slopes_[c].outside;
          };
          double mean_slope = 0;
          for (std::size_t c = first_dice_; c < count; ++c) mean_slope += p[c] * slope(c);
          for (std::size_t c = 0; c < count; ++c)
            to[c] = static_cast<float>(entropy_scale * weight * (p[c] - (c == label ? 1 : 0)) +
                                       p[c] * (slope(c) - mean_slope));
        });
    loss += entropy_scale * totals[0];
  }
  return loss;
}

void SegmentationLoss::conclude(std::span<double> sums) const {
  const std::size_t count = classes();
  const double voxels = voxels_of(sums);
  double loss = dice_loss(sums);
  for (std::size_t c = 0; c < count; ++c)
    loss += options_.cross_entropy * options_.weights[c] * of(sums, kEntropy, c) / voxels;
  // The scores replace sums that only the loss reads.
  for (std::size_t c = 0; c < count; ++c) {
    const ClassQuality quality =
        class_quality(of(sums, kCorrect, c), of(sums, kVoxels, c) + of(sums, kPredicted, c));
    sums[c] = quality.iou;
    sums[count + c] = quality.dice;
    sums[kEntropy * count + c] = of(sums, kVoxels, c);
  }
  sums[2 * count] = loss;
  sums[2 * count + 1] = 1;
}

Quality SegmentationLoss::quality(std::span<const double> terms) const {
  const std::size_t count = classes();
  const double samples = terms[2 * count + 1];
  Quality quality{terms[2 * count] / samples, static_cast<std::int64_t>(samples), {}, {}, 0};
  for (std::size_t c = 0; c < count; ++c)
    quality.classes.push_back(
        {terms[c] / samples, terms[count + c] / samples, terms[kEntropy * count + c]});
  const std::size_t first = options_.score == Score::kDice ? 1 : 0;
  for (std::size_t c = first; c < count; ++c) {
    const ClassQuality& of_class = quality.classes[c];
    quality.score += options_.score == Score::kDice ? of_class.dice : of_class.iou;
  }
  quality.score /= static_cast<double>(count - first);
  return quality;
}

namespace {

template <int CrossEntropy, int Dice>  // shares
std::unique_ptr<Loss> made(const Shape& output, const LossSettings& settings) {
  constexpr double kAll = CrossEntropy + Dice;
  return std::make_unique<SegmentationLoss>(
      output, SegmentationOptions{.cross_entropy = CrossEntropy / kAll,
                                  .weights = settings.weights,
                                  .dice = Dice / kAll,
                                  .score = settings.score});
}

const Registered<NamedLoss> kCrossEntropy([] {
  return NamedLoss{"ce", "the cross entropy of voxels", made<1, 0>};
});
const Registered<NamedLoss> kDice([] {
  return NamedLoss{"dice", "1 - soft Dice of the foreground", made<0, 1>};
});
const Registered<NamedLoss> kBoth([] { return NamedLoss{"dice+ce", "half of each", made<1, 1>}; });

}  // namespace

}  // namespace halomesh
