// SPDX-License-Identifier: Apache-2.0
// The loss of a network that classifies voxels on several levels at once (deep supervision).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "src/nn/loss.hpp"

namespace halomesh {

/// One output among the channels of a network's output: `channels` of them, of a level whose
/// extents are 1/factor of the whole. Each of its voxels is repeated factor times along an axis.
struct OutputHead {
  std::int64_t channels = 0;
  Spatial factor{1, 1, 1};
  double weight = 1;  ///< the factor of its loss in the sum
};

/// The sum of the weighted losses of heads, which follow each other in the output's channels. A
/// voxel of a level is compared with the label at its first voxel of the whole, as nearest
/// interpolation takes it, and the gradient reaches it there. The quality is that of the first
/// head, with the whole loss.
class HeadsLoss final : public Loss {
 public:
  /// `make` gives the loss of classes for an output of a shape. The first head has the extents of
  /// the output. Throws Error unless factors divide the extents.
  HeadsLoss(const Shape& output, std::vector<OutputHead> heads,
            const std::function<std::unique_ptr<Loss>(const Shape& output)>& make);

  Shape target_shape() const override { return losses_.front()->target_shape(); }
  DataType target_type() const override { return losses_.front()->target_type(); }
  Box target_box(const Box& output) const override;
  std::int64_t voxel_classes(const Shape& /*output*/) const override {
    return heads_.front().channels;
  }
  void expect_padding() override;
  std::size_t sums_per_sample() const override;
  void add_sums(ConstView output, AnyConstView target, std::span<double> sums) override;
  bool gradient_reads_sums() const override { return losses_.front()->gradient_reads_sums(); }
  double gradient(ConstView output, AnyConstView target, std::span<const double> sums,
                  std::int64_t global_batch, View diff) override;
  std::span<const std::uint8_t> learned_classes() const override {
    return losses_.front()->learned_classes();
  }
  Score score() const override { return losses_.front()->score(); }
  void conclude(std::span<double> sums) const override;
  Quality quality(std::span<const double> terms) const override;

 private:
  /// A block of one head on its level.
  struct Level {
    std::vector<float> values{}, diffs{};
    std::vector<std::uint8_t> labels{};
    std::vector<double> sums{};
    Box box{};

    ConstView output(std::int64_t batch) const { return {values.data(), box, batch}; }
    View diff(std::int64_t batch) { return {diffs.data(), box, batch}; }
    TensorView<const std::uint8_t> target(std::int64_t batch) const;
  };
  /// Calls visit(head, first channel, first of its sums in those of a sample).
  template <class Visit>
  void for_each_head(const Visit& visit) const;
  Level& level_of(std::size_t head, std::int64_t channel, ConstView output, AnyConstView target);

  std::vector<OutputHead> heads_;
  std::vector<std::unique_ptr<Loss>> losses_;
  std::vector<Level> levels_;
};

}  // namespace halomesh
