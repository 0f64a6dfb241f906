// SPDX-License-Identifier: Apache-2.0
// The loss of a segmentation: softmax cross entropy and soft Dice of the classes of voxels, on any
// cut of space.
#pragma once

#include <array>
#include <vector>

#include "src/nn/kernels/channel_sums.hpp"
#include "src/nn/loss.hpp"

namespace halomesh {

struct SegmentationOptions {
  double cross_entropy = 1;       ///< share of the loss
  std::vector<double> weights{};  ///< weights of classes in the cross entropy; empty: 1
  double dice = 0;                ///< share of the loss
  bool background = false;        ///< whether class 0 counts for Dice
  double smooth = 1e-6;           ///< above 0
  Score score = Score::kDice;     ///< or kIou
};

/// With p the softmax over the C channels z of a voxel, t its label, V the number of voxels of a
/// sample, w the weights and B the samples of all replicas,
///
///   L = 1/B sum over samples of  cross_entropy * 1/V sum over voxels of -w(t) log p(t)
///                              + dice * mean over classes of (1 - (2 I + s) / (P + G + s)),
///
/// where I is the sum of p(c) over voxels of class c, P that over all voxels, and G their number
/// (Milletari, Navab & Ahmadi, arXiv:1606.04797, with sums instead of sums of squares). The cross
/// entropy is divided by voxels, not by the sum of their weights. Computed in fp64.
///
/// Voxels beyond a padded sample (expect_padding()) are in no sum, and V does not count them.
///
/// The score is the mean Dice coefficient of all classes but the first, or the mean IoU of all.
/// IoU and Dice are 1 for a class that occurs neither in the labels nor in the predictions of a
/// sample. The predicted class of a voxel is the one with the largest output; ties go to the
/// lowest.
class SegmentationLoss final : public Loss {
 public:
  static constexpr std::int64_t kMostClasses = 256;

  /// `output` is the global shape of the network's output, with a channel per class. Throws Error
  /// for fewer than two classes, more than kMostClasses, and options that do not fit them.
  SegmentationLoss(const Shape& output, SegmentationOptions options);

  Shape target_shape() const override { return {1, output_.d, output_.h, output_.w}; }
  DataType target_type() const override { return DataType::kUint8; }
  Box target_box(const Box& output) const override;
  std::size_t sums_per_sample() const override { return kSums * classes(); }
  void add_sums(ConstView output, AnyConstView target, std::span<double> sums) override;
  bool gradient_reads_sums() const override { return options_.dice > 0 || padded_; }
  void expect_padding() override;
  double gradient(ConstView output, AnyConstView target, std::span<const double> sums,
                  std::int64_t global_batch, View diff) override;
  std::span<const std::uint8_t> learned_classes() const override {
    return std::span(learned_).first(classes());
  }
  Score score() const override { return options_.score; }
  void conclude(std::span<double> sums) const override;
  Quality quality(std::span<const double> terms) const override;

 private:
  // Sums over voxels, by class: p, p of voxels of the class, the number of these voxels, their
  // cross entropy, the voxels predicted to be of the class, and the correct ones among them.
  enum Sum : std::size_t { kProbability, kOverlap, kVoxels, kEntropy, kPredicted, kCorrect, kSums };
  using LabelFlags = std::array<std::uint8_t, kMostClasses>;  // 1 for a label that occurs
  // A class's Dice coefficient, and d(Dice)/dp for voxels of the class and for others.
  struct SoftDice {
    double value = 0, inside = 0, outside = 0;
  };

  std::size_t classes() const { return static_cast<std::size_t>(output_.c); }
  double of(std::span<const double> sums, Sum sum, std::size_t c) const {
    return sums[sum * classes() + c];
  }
  double voxels_of(std::span<const double> sums) const;
  SoftDice soft_dice(std::span<const double> sums, std::size_t c) const;
  double dice_loss(std::span<const double> sums) const;
  LabelFlags labels_of(TensorView<const std::uint8_t> labels) const;

  Shape output_;
  SegmentationOptions options_;
  std::size_t first_dice_;  // class
  double dice_classes_, voxels_;
  bool padded_ = false;
  LabelFlags learned_{};
  ChannelSums sums_;
  std::vector<SoftDice> slopes_;  // slopes of the loss of one sample, by class
};

}  // namespace halomesh
