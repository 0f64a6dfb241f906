// SPDX-License-Identifier: Apache-2.0
// Finds out how much memory objects need without using it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halomesh {

/// While one exists on a thread, AlignedBuffers that are made there reserve addresses but take no
/// memory until it is written, and library kernels are described but not made. Layers can therefore
/// be prepared to see how much they would hold; they cannot run.
class CountedMemory {
 public:
  /// Meanwhile OpenMP has `threads` threads; 0: as many as before.
  explicit CountedMemory(int threads = 0);
  ~CountedMemory();
  CountedMemory(const CountedMemory&) = delete;
  CountedMemory& operator=(const CountedMemory&) = delete;

  /// The bytes of the buffers made since then on this thread that still exist. The buffers may
  /// outlive this object, but not the thread.
  std::int64_t bytes() const { return bytes_; }

  /// Whether one exists on this thread.
  static bool on();
  /// Memory of zeros for AlignedBuffer. Throws Error where there are no addresses left.
  static void* reserve(std::size_t bytes);
  /// False for memory that is not from reserve().
  static bool release(void* memory);

 private:
  int threads_before_;
  std::int64_t bytes_ = 0;
};

}  // namespace halomesh
