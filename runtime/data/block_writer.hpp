// SPDX-License-Identifier: Apache-2.0
// Copies the values of a sample, which arrive in pieces, to a block in memory. Must not check them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "partition/box_runs.hpp"
#include "shape.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// Fills the block block.span of one sample with values of its own type or, if it is fp32, with
/// log(1+x) of counts. The memory of `block` must outlive this object.
class BlockWriter {
 public:
  /// `stored` is the type of the arriving values. Throws Error unless it is that of the block, or
  /// int16 for a block of fp32.
  BlockWriter(const Shape& sample, AnyView block, DataType stored = DataType::kInt16);

  /// Takes the next piece of the sample, starting at byte `offset`, as a VoxelSink does; it must be
  /// of whole values.
  void take(std::int64_t offset, std::span<const std::byte> bytes);

 private:
  void place(std::int64_t to, const std::byte* from, std::int64_t count);

  AnyView block_;
  DataType stored_;
  std::int64_t size_;  // bytes of one value
  BoxRuns runs_;
};

}  // namespace halomesh
