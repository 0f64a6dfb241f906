// SPDX-License-Identifier: Apache-2.0
// Checks that this process gets the memory and the threads that it is about to need: libraries end
// the process, or crash, where the system refuses theirs.
#pragma once

#include <cstdint>
#include <functional>
#include <new>
#include <string>
#include <thread>

#include "error.hpp"

namespace halomesh {

/// Lets all threads share one heap where the address space is limited (ulimit -v): for each thread
/// that allocates, glibc otherwise reserves up to 128 MiB of it. Call it before threads start.
void share_heap_where_limited();

/// The bytes of the stack of a new thread.
std::int64_t thread_stack_bytes();

/// Throws Error, with what is needed and what is left, unless this process's own limits leave
/// `bytes` for `what` (ulimit -d and -v), and `addresses` more in its address space (ulimit -v).
/// Local.
void require_memory(const std::string& what, std::int64_t bytes, std::int64_t addresses = 0);

/// The error for `bytes` of memory that the system has refused.
Error memory_error(const std::string& what, std::int64_t bytes);

/// Returns make(), which allocates `bytes` for `what`; throws memory_error() where it cannot.
template <class Make>
auto made_in_memory(const std::string& what, std::int64_t bytes, const Make& make)
    -> decltype(make()) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    throw memory_error(what, bytes);
  }
}

/// Starts a thread; throws Error if the system refuses it.
std::thread started_thread(const std::function<void()>& work);

/// Throws Error unless `count` threads may start, with stacks as large as OpenMP's.
void require_threads(std::int64_t count);

}  // namespace halomesh
