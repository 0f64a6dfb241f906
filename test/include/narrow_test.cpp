// SPDX-License-Identifier: Apache-2.0
// Checked narrowing: values that fit pass, values that would wrap or change sign are refused.
#include "narrow.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace halomesh {
namespace {

constexpr std::int64_t kIntMax = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kIntMin = std::numeric_limits<std::int32_t>::min();

TEST_CASE("values that fit pass unchanged") {
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, kIntMax, kIntMin})
    CHECK(narrow<std::int32_t>(value) == value);
  CHECK(narrow<std::uint8_t>(255) == 255);
  CHECK(narrow<std::int64_t>(std::size_t{7}) == 7);
}

TEST_CASE("values that do not fit are refused, naming the value") {
  CHECK_THROWS_AS(narrow<std::int32_t>(kIntMax + 1), Error);
  CHECK_THROWS_AS(narrow<std::int32_t>(kIntMin - 1), Error);
  // 2^32 would wrap to 0.
  CHECK_THROWS_AS(narrow<std::int32_t>(std::int64_t{1} << 32), Error);
  CHECK_THROWS_AS(narrow<std::uint8_t>(256), Error);
  // The bits survive these, the sign does not.
  CHECK_THROWS_AS(narrow<std::uint64_t>(std::int64_t{-1}), Error);
  CHECK_THROWS_AS(narrow<std::int64_t>(std::numeric_limits<std::uint64_t>::max()), Error);
  try {
    narrow<std::int32_t>(std::int64_t{5000000000}, "use less");
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) == "integer 5000000000 does not fit 32 bits");
    CHECK(error.hint() == "use less");
  }
}

}  // namespace
}  // namespace halomesh
