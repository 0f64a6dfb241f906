// SPDX-License-Identifier: Apache-2.0
// Memory and threads that a process needs, under limits of its own.
#include "runtime/posix/memory_needs.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "error.hpp"

namespace halomesh {
namespace {

/// What `work` throws while a limit of this process is `bytes`; empty if nothing.
template <class Work>
std::string refusal_below(decltype(RLIMIT_AS) resource, std::int64_t bytes, const Work& work) {
  rlimit before{};
  REQUIRE(::getrlimit(resource, &before) == 0);
  const rlimit limit{static_cast<rlim_t>(bytes), before.rlim_max};
  std::string text;
  REQUIRE(::setrlimit(resource, &limit) == 0);
  try {
    work();
  } catch (const Error& error) {
    text = std::string(error.what()) + "\n" + error.hint();
  }
  REQUIRE(::setrlimit(resource, &before) == 0);
  return text;
}

constexpr std::int64_t kTera = std::int64_t{1} << 40;
// A sanitizer reserves more addresses than these limits leave, and ends the process without more.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

}  // namespace

TEST_CASE("memory needs: what is needed, what a limit leaves, and the limit to set" *
          doctest::skip(kSanitized)) {
  require_memory("anything", 1);
  const auto needs = [](std::int64_t bytes) {
    return [bytes] { require_memory("the step", bytes); };
  };
  CHECK(refusal_below(RLIMIT_AS, 20 * kTera, needs(kTera)).empty());
  const std::string addresses = refusal_below(RLIMIT_AS, 20 * kTera, needs(20 * kTera));
  CAPTURE(addresses);
  CHECK(
      addresses.starts_with("the step needs 21990.2 GB of memory in each process, but ulimit "
                            "-v leaves 219"));
  CHECK(addresses.find(" of 21990.2 GB\nraise the limit: ulimit -v 21") != std::string::npos);
  CHECK(refusal_below(RLIMIT_DATA, 20 * kTera, needs(20 * kTera)).find("ulimit -d leaves") !=
        std::string::npos);
  // Addresses count where only these are limited.
  const auto reserves = [] { require_memory("MPI", 1, 20 * kTera); };
  CHECK(refusal_below(RLIMIT_DATA, 20 * kTera, reserves).empty());
  CHECK(refusal_below(RLIMIT_AS, 20 * kTera, reserves).starts_with("MPI needs"));
}

TEST_CASE("memory needs: what the system refuses is named with its size") {
  const auto make = [] {
    return made_in_memory("the arena", kTera, []() -> int { throw std::bad_alloc(); });
  };
  CHECK_THROWS_WITH_AS(make(), doctest::Contains("the arena needs 1099.5 GB of memory, "), Error);
  CHECK(made_in_memory("a number", 4, [] { return 7; }) == 7);
}

TEST_CASE("memory needs: threads that cannot start are refused before a library starts them" *
          doctest::skip(kSanitized)) {
  require_threads(0);
  require_threads(3);
  const std::string refused =
      refusal_below(RLIMIT_AS, 20 * kTera, [] { require_threads(std::int64_t{1} << 32); });
  CAPTURE(refused);
  CHECK(refused.starts_with("a team of 4294967297 OpenMP threads needs"));
  int done = 0;
  started_thread([&done] { ++done; }).join();
  CHECK(done == 1);
}

}  // namespace halomesh
