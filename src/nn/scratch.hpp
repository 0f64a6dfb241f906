// SPDX-License-Identifier: Apache-2.0
// Memory that the layers of a network use in turn: its contents are lost when a layer's call ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "src/nn/tensor.hpp"

namespace halomesh {

/// Elements in the shared block of a Scratch. Their place may change until all layers are prepared,
/// so data() must be called again in each call.
template <class T>
class ScratchBuffer {
 public:
  ScratchBuffer() = default;
  T* data() const {
    return size_ == 0 ? nullptr
                      : reinterpret_cast<T*>(block_->data() + offset_);  // NOLINT: begins on a line
  }
  std::int64_t size() const { return size_; }

 private:
  friend class Scratch;
  ScratchBuffer(std::shared_ptr<AlignedBuffer<std::byte>> block, std::int64_t offset,
                std::int64_t size)
      : block_(std::move(block)), offset_(offset), size_(size) {}
  std::shared_ptr<AlignedBuffer<std::byte>> block_;
  std::int64_t offset_ = 0, size_ = 0;
};

/// Takes buffers, one after the other, from a block that grows to the most that is taken. A copy
/// shares the block and continues after the buffers taken before it was made; buffers that the
/// copy and the original take later must not be used at the same time.
class Scratch {
 public:
  /// An empty block.
  Scratch();

  /// `size` uninitialized elements from the start of a cache line. May move the block, so only
  /// while layers are prepared.
  template <class T>
  ScratchBuffer<T> take(std::int64_t size) {
    constexpr std::int64_t kLine = 64;
    const std::int64_t offset = taken_;
    taken_ += (size * std::int64_t{sizeof(T)} + kLine - 1) / kLine * kLine;
    if (taken_ > block_->size()) {
      *block_ = {};  // freed before the larger one is allocated
      *block_ = AlignedBuffer<std::byte>(taken_);
    }
    return {block_, offset, size};
  }
  /// The whole block.
  std::span<std::byte> memory() const { return block_->span(); }

 private:
  std::shared_ptr<AlignedBuffer<std::byte>> block_;
  std::int64_t taken_ = 0;
};

}  // namespace halomesh
