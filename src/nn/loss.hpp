// SPDX-License-Identifier: Apache-2.0
// The interface of a loss, by which networks are trained and judged, on one part's block of the
// output. Local: the caller adds up over parts and replicas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "score.hpp"
#include "src/nn/class_scores.hpp"
#include "src/nn/counts.hpp"
#include "src/nn/target_errors.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// The label of voxels that lie beyond their sample, which has been padded.
inline constexpr std::uint8_t kOutsideLabel = 255;

/// The quality of predictions over samples.
struct Quality {
  double loss = 0;  ///< mean over samples
  std::int64_t samples = 0;
  std::vector<TargetQuality> targets{};  ///< regression only
  std::vector<ClassQuality> classes{};   ///< segmentation only
  double score = 0;                      ///< Loss::score()
  std::optional<ClassScores> labels{};   ///< classes of samples only
};

/// A loss, the mean over the samples of the global batch of a function of each sample. Views of the
/// output are blocks of it with all samples to be counted; `target` then spans target_box() of the
/// block. Parts that own nothing of the output give empty views. Only quality() allocates memory.
///
/// Losses that are not a mean over voxels are functions of `sums_per_sample()` numbers per sample,
/// to which each part adds the terms of its block:
///
///   add_sums() on each part -> sum over the parts -> gradient(), and conclude() in evaluations
class Loss {
 public:
  Loss() = default;
  Loss(const Loss&) = delete;
  Loss& operator=(const Loss&) = delete;
  virtual ~Loss() = default;

  /// The global shape of the targets of a sample, and their type.
  virtual Shape target_shape() const = 0;
  virtual DataType target_type() const = 0;
  /// The box of the targets that belong to the box `output`. Throws Error where the loss cannot be
  /// computed from such boxes.
  virtual Box target_box(const Box& output) const = 0;

  /// The number of classes of voxels for an output of this shape.
  virtual std::int64_t voxel_classes(const Shape& output) const { return output.c; }

  /// Announces that samples may be padded: targets of kOutsideLabel then count for nothing, and
  /// means over voxels leave them out. Throws Error if the loss does not support padding.
  virtual void expect_padding();

  /// Lets outputs y stand for mean + deviation * y, one scale per target: gradients and the loss
  /// are those of the outputs, errors and scores those of what they stand for. Throws Error if the
  /// loss has no such targets.
  virtual void scale_targets(const std::vector<ChannelScale>& scales);
  /// The scales of the targets; none: outputs stand for themselves.
  virtual std::span<const ChannelScale> target_scales() const { return {}; }

  /// The classes of a sample's target, whose labels are 0 .. sample_classes()-1; 0: targets are
  /// numbers, or of voxels.
  virtual std::int64_t sample_classes() const { return 0; }
  /// Whether these labels are 0 or 1, one for each output.
  virtual bool takes_yes_or_no() const { return false; }
  /// Replaces the outputs of whole samples by the probabilities that they stand for.
  virtual void to_probabilities(std::span<float> /*outputs*/) const {}

  virtual std::size_t sums_per_sample() const = 0;
  /// Adds the terms of a block of each sample to its sums, one sample after the other. Throws Error
  /// for invalid targets, such as a label without a class.
  virtual void add_sums(ConstView output, AnyConstView target, std::span<double> sums) = 0;

  /// Whether gradient() reads the sums of whole samples.
  virtual bool gradient_reads_sums() const { return false; }
  /// Writes the gradient of the loss to `diff`, which has the span of `output`. Returns the block's
  /// share of the loss. NaN in the output propagates to both.
  virtual double gradient(ConstView output, AnyConstView target, std::span<const double> sums,
                          std::int64_t global_batch, View diff) = 0;

  /// For classes of voxels, whether each has been a label of some voxel that gradient() was given;
  /// otherwise empty.
  virtual std::span<const std::uint8_t> learned_classes() const { return {}; }

  /// The score by which networks with this loss are judged.
  virtual Score score() const = 0;
  /// Whether quality() reads the terms of all samples, one after the other, and not their sums.
  virtual bool keeps_samples() const { return false; }
  /// Turns the sums of one whole sample into terms that are added up over samples.
  virtual void conclude(std::span<double> /*sums*/) const {}
  /// The quality from the terms of all samples, of which there must be at least one.
  virtual Quality quality(std::span<const double> terms) const = 0;

  /// Whether each sample's share of the loss, and its terms, have the same bits on every mesh.
  virtual bool sums_exactly() const { return false; }
};

/// Writes what outputs from channel `first` on stand for; the outputs themselves without scales.
void to_targets(std::span<const ChannelScale> scales, std::int64_t first,
                std::span<const float> outputs, std::span<float> targets);

/// The samples [first, first + count) of a view.
template <class T>
TensorView<T> samples_of(TensorView<T> view, std::int64_t first, std::int64_t count) {
  return {view.data + first * view.sample_volume(), view.span, count};
}
inline AnyConstView samples_of(AnyConstView view, std::int64_t first, std::int64_t count) {
  return {view.data + first * view.sample_bytes(), view.type, view.span, count};
}

}  // namespace halomesh
