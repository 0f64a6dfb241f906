// SPDX-License-Identifier: Apache-2.0
// Copies the values of a sample, which arrive in pieces, to a block in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "partition/box_runs.hpp"
#include "runtime/data/sample_format.hpp"
#include "shape.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// Fills the block block.span of one sample: with values of its own type, or with log(1+x) of
/// counts if it is fp32. The memory of `block` must outlive this object.
class BlockWriter {
 public:
  /// `stored`: the type of the values that arrive. Throws Error unless it is that of the block, or
  /// int16 for a block of fp32.
  BlockWriter(const Shape& sample, AnyView block, DataType stored = DataType::kInt16);

  /// Takes the next piece of the sample, starting at byte `offset`, as a VoxelSink does.
  void take(std::int64_t offset, std::span<const std::byte> bytes);

  /// The first negative one among counts of the block, by its index in the sample.
  const std::optional<InvalidValue>& negative() const { return negative_; }

 private:
  void take_values(std::int64_t first, std::span<const std::byte> bytes);
  void place(std::int64_t to, std::int64_t index, const std::byte* from, std::int64_t count);
  void place_counts(std::int64_t to, std::int64_t index, const std::byte* from, std::int64_t count);

  AnyView block_;
  DataType stored_;
  std::int64_t size_;  // bytes of a value
  BoxRuns runs_;
  std::array<std::byte, 4> begun_{};  // of a value whose other bytes come with the next piece
  std::int64_t begun_bytes_ = 0;
  std::optional<InvalidValue> negative_;
};

}  // namespace halomesh
