// SPDX-License-Identifier: Apache-2.0
// The order of a part's parameters in flat memory, by the parts that hold the same ones, and the
// buckets in which their gradients are summed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "partition/model_geometry.hpp"

namespace halomesh {

/// A slice of one parameter in the flat memory of this part.
struct ParameterRange {
  std::size_t placement = 0;  ///< index into ModelGeometry::parameters()
  std::int64_t offset = 0, volume = 0;
};

/// Parameters that the same parts hold, either trained ones or moving averages: one contiguous
/// range of the flat memory, reduced together.
struct HolderGroup {
  std::vector<std::int64_t> parts;  ///< ascending
  std::int64_t offset = 0, volume = 0;
  std::vector<ParameterRange> ranges;  ///< in layer order
  bool moving_averages = false;        ///< optimizers leave them unchanged
  /// The elements and ranges at the start that stay unchanged: Parameters::freeze().
  std::int64_t frozen = 0;
  std::size_t frozen_ranges = 0;

  std::int64_t trained_offset() const { return offset + frozen; }
  std::int64_t trained_volume() const { return moving_averages ? 0 : volume - frozen; }
  std::span<const ParameterRange> trained() const {
    return std::span(ranges).subspan(moving_averages ? ranges.size() : frozen_ranges);
  }
};

/// The groups of the parameters that `part` holds, one behind the other in flat memory.
std::vector<HolderGroup> holder_groups(const ModelGeometry& geometry, std::int64_t part);

/// Gradients of one group that are summed together.
struct GradientBucket {
  std::int64_t offset = 0, volume = 0;
  std::size_t placement = 0;        ///< the one that is complete first
  std::vector<std::size_t> layers;  ///< one entry per parameter
};

/// The buckets of a group without its frozen ranges, in the order in which backward completes them.
/// A bucket is closed when it holds at least `bucket_bytes` in fp32.
std::vector<GradientBucket> gradient_buckets(const ModelGeometry& geometry,
                                             const HolderGroup& group, std::int64_t bucket_bytes);

}  // namespace halomesh
