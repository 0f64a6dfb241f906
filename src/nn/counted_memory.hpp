// SPDX-License-Identifier: Apache-2.0
// Finds out how much memory objects need without using it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halomesh {

/// While one exists on a thread, AlignedBuffers that are made there reserve addresses but take no
/// memory until it is written, and library kernels are described but not made. So layers can be
/// prepared to see what they would hold; they cannot run.
class CountedMemory {
 public:
  /// OpenMP has `threads` threads meanwhile; 0: as many as before.
  explicit CountedMemory(int threads = 0);
  ~CountedMemory();
  CountedMemory(const CountedMemory&) = delete;
  CountedMemory& operator=(const CountedMemory&) = delete;

  /// Of the buffers made since then on this thread that still exist. Those may outlive this object,
  /// but not the thread.
  std::int64_t bytes() const { return bytes_; }

  /// Whether one exists on this thread.
  static bool on();
  /// For AlignedBuffer: zeros. Throws Error where there are no addresses left.
  static void* reserve(std::size_t bytes);
  /// False for memory that is not from reserve().
  static bool release(void* memory);

 private:
  int threads_before_;
  std::int64_t bytes_ = 0;
};

}  // namespace halomesh
