// SPDX-License-Identifier: Apache-2.0
// Checks of memory and threads: see memory_needs.hpp.
#include "runtime/posix/memory_needs.hpp"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <future>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "runtime/posix/free_space.hpp"
#include "runtime/posix/memory_limits.hpp"

namespace halomesh {
namespace {

std::string size_text(std::int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  return size < 1e10 ? fmt::format("{:.1f} MB", 1e-6 * size)
                     : fmt::format("{:.1f} GB", 1e-9 * size);
}

rlim_t own_limit(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  return ::getrlimit(resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

/// Throws Error unless a limit that is set by ulimit leaves the bytes.
void require_left(const std::string& what, std::int64_t needed, std::optional<std::int64_t> left,
                  const char* option, decltype(RLIMIT_AS) resource) {
  if (!left || needed <= *left) return;
  const auto limit = static_cast<std::int64_t>(own_limit(resource));
  throw Error(fmt::format("{} needs {} of memory in each process, but ulimit {} leaves {} of {}",
                          what, size_text(needed), option, size_text(*left), size_text(limit)),
              fmt::format("raise the limit: ulimit {} {} or more", option,
                          (limit + needed - *left) / 1024 + 1));
}

/// The stack of an OpenMP thread: a number of KiB or with a unit, such as 16M; a thread's default
/// without one.
std::int64_t openmp_stack_bytes() {
  const char* const text = std::getenv("OMP_STACKSIZE");  // NOLINT(concurrency-mt-unsafe)
  const std::string_view word = text == nullptr ? "" : text;
  std::int64_t number = 0;
  const auto parsed = std::from_chars(word.data(), word.data() + word.size(), number);
  if (parsed.ec != std::errc() || number <= 0 || number > (std::int64_t{1} << 40))
    return thread_stack_bytes();
  const char unit = parsed.ptr == word.data() + word.size() ? 'K' : *parsed.ptr;
  constexpr std::string_view kUnits = "BKMG";
  const std::size_t power = kUnits.find(static_cast<char>(std::toupper(unit)));
  return power == std::string_view::npos ? thread_stack_bytes() : number << (10 * power);
}

}  // namespace

void share_heap_where_limited() {
#ifdef M_ARENA_MAX
  if (own_limit(RLIMIT_AS) == RLIM_INFINITY) return;
  ::mallopt(M_ARENA_MAX, 1);
  // Open MPI starts a process of its own for a rank without a launcher.
  ::setenv("MALLOC_ARENA_MAX", "1", 0);  // NOLINT(concurrency-mt-unsafe): no threads yet
#endif
}

std::int64_t thread_stack_bytes() {
  pthread_attr_t attributes;
  std::size_t bytes = 0;
  if (::pthread_attr_init(&attributes) != 0) return 0;
  ::pthread_attr_getstacksize(&attributes, &bytes);
  ::pthread_attr_destroy(&attributes);
  return static_cast<std::int64_t>(bytes);
}

void require_memory(const std::string& what, std::int64_t bytes, std::int64_t addresses) {
  const MemoryLimits limits = memory_limits();
  require_left(what, bytes, limits.process_bytes, "-d", RLIMIT_DATA);
  require_left(what, bytes + addresses, limits.address_bytes, "-v", RLIMIT_AS);
}

Error memory_error(const std::string& what, std::int64_t bytes) {
  try {
    require_memory(what, bytes);
  } catch (const Error& error) {
    return error;
  }
  const FreeSpace free = free_memory();
  return Error(fmt::format("{} needs {} of memory, {} {}", what, size_text(bytes),
                           size_text(free.bytes), free.text()),
               "cut each sample into more parts, use a smaller batch or fewer ranks per node");
}

std::thread started_thread(const std::function<void()>& work) {
  try {
    return std::thread(work);
  } catch (const std::system_error& error) {
    require_memory("the stack of a thread", thread_stack_bytes());
    throw Error(fmt::format("cannot start a thread: {}", error.code().message()),
                "raise the limit of processes and threads (ulimit -u, or that of the control "
                "group), or use fewer threads per rank");
  }
}

void require_threads(std::int64_t count) {
  if (count <= 0) return;
  require_memory(fmt::format("a team of {} OpenMP threads", count + 1),
                 count * openmp_stack_bytes());
  std::promise<void> all_started;
  const std::shared_future<void> end = all_started.get_future().share();
  std::vector<std::thread> threads;
  std::exception_ptr refused;
  try {
    while (std::ssize(threads) < count) threads.push_back(started_thread([end] { end.wait(); }));
  } catch (...) {
    refused = std::current_exception();
  }
  all_started.set_value();
  for (std::thread& thread : threads) thread.join();
  if (refused != nullptr) std::rethrow_exception(refused);
}

}  // namespace halomesh
