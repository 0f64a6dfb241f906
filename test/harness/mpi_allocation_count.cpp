// SPDX-License-Identifier: Apache-2.0
// Counts calls of operator new: see mpi_allocation_count.hpp. Linked only into programs that use
// the count.
#include "test/harness/mpi_allocation_count.hpp"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#ifdef __SANITIZE_ADDRESS__

std::int64_t halomesh::test::allocation_count() { return -1; }
std::int64_t halomesh::test::live_bytes() { return -1; }
std::int64_t halomesh::test::peak_bytes() { return -1; }
void halomesh::test::reset_peak_bytes() {}

#else

// The linker defines these: the first byte of this executable and the end of its code.
extern "C" const char __executable_start;  // NOLINT: the linker's names
extern "C" const char etext;               // NOLINT

namespace {

std::atomic<std::int64_t> count{0}, live{0}, peak{0};

void* allocate(std::size_t size, std::size_t alignment, const void* caller) {
  const auto* const at = static_cast<const char*>(caller);
  if (at >= &__executable_start && at < &etext) ++count;
  const std::size_t whole = (size + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
  if (memory == nullptr) throw std::bad_alloc();
  const auto usable = static_cast<std::int64_t>(malloc_usable_size(memory));
  const std::int64_t now = live += usable;
  for (std::int64_t most = peak; now > most && !peak.compare_exchange_weak(most, now);) {
  }
  return memory;
}

void give_back(void* memory) {
  live -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

std::int64_t halomesh::test::allocation_count() { return count; }
std::int64_t halomesh::test::live_bytes() { return live; }
std::int64_t halomesh::test::peak_bytes() { return peak; }
void halomesh::test::reset_peak_bytes() { peak = live.load(); }

void* operator new(std::size_t size) {
  return allocate(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__, __builtin_return_address(0));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
  give_back(memory);
}

#endif
