// SPDX-License-Identifier: Apache-2.0
// Two buffers passed back and forth between a thread that fills them and one that empties them.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>

#include "src/nn/tensor.hpp"

namespace halomesh {

/// A ring of slabs of values, each labelled with its box and a number.
class SlabRing {
 public:
  static constexpr std::size_t kSlabs = 2;
  struct Slab {
    AlignedBuffer<std::byte> values;
    Box box;
    std::size_t use = 0;

    /// The first `bytes` of the slab's memory, which grows if necessary; not while the slab is in
    /// other hands.
    std::span<std::byte> room(std::int64_t bytes) {
      if (values.size() < bytes) values = AlignedBuffer<std::byte>(bytes);
      return values.span().first(static_cast<std::size_t>(bytes));
    }
  };

  Slab& operator[](std::size_t slab) { return slabs_.at(slab); }

  /// Waits for a free slab; returns none once the ring is closed.
  std::optional<std::size_t> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !free_.empty(); });
    if (closed_) return std::nullopt;
    return pop(free_);
  }
  /// Passes on a filled slab.
  void hand_on(std::size_t slab) {
    const std::lock_guard lock(mutex_);
    filled_.push_back(slab);
  }
  /// Returns the slab that was passed on first, if any.
  std::optional<std::size_t> filled() {
    const std::lock_guard lock(mutex_);
    if (filled_.empty()) return std::nullopt;
    return pop(filled_);
  }
  /// Makes a slab free again.
  void give_back(std::size_t slab) {
    {
      const std::lock_guard lock(mutex_);
      free_.push_back(slab);
    }
    changed_.notify_all();
  }
  /// Closes the ring and wakes all waiters.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

 private:
  static std::size_t pop(std::deque<std::size_t>& slabs) {
    const std::size_t first = slabs.front();
    slabs.pop_front();
    return first;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Slab, kSlabs> slabs_;
  std::deque<std::size_t> free_{0, 1}, filled_;
  bool closed_ = false;
};

}  // namespace halomesh
