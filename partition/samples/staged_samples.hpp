// SPDX-License-Identifier: Apache-2.0
// The boxes of a split's samples, whose extents may differ, that the parts of a group keep. Pure
// geometry.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "partition/samples/redistribution.hpp"

namespace halomesh {

/// The geometry of each sample, by its number.
class StagedSamples {
 public:
  /// All samples alike, for any number of them.
  StagedSamples(StagedSample each)  // NOLINT(google-explicit-constructor): the usual case
      : each_(std::move(each)) {}
  /// Samples of these shapes. Each part keeps its block of block_partition() and nothing else.
  StagedSamples(std::vector<Shape> shapes, const PartGrid& parts)
      : shapes_(std::move(shapes)), parts_(parts) {}

  /// The geometry of all samples; null where each has its own.
  const StagedSample* each() const { return each_ ? &*each_ : nullptr; }
  StagedSample of(std::int64_t sample) const {
    if (each_) return *each_;
    Partition blocks = block_partition(shape(sample), parts_);
    return {shape(sample), blocks, blocks};
  }
  const Shape& shape(std::int64_t sample) const {
    return each_ ? each_->shape : shapes_.at(static_cast<std::size_t>(sample));
  }
  /// The block that a part keeps of a sample.
  Box block(std::int64_t sample, std::int64_t part) const {
    return each_ ? each_->blocks[static_cast<std::size_t>(part)]
                 : block_of_part(shape(sample), parts_, part);
  }
  /// The samples `numbers`, renumbered in that order.
  StagedSamples chosen(std::span<const std::int64_t> numbers) const;

 private:
  std::optional<StagedSample> each_;
  std::vector<Shape> shapes_;
  PartGrid parts_;
};

}  // namespace halomesh
