// SPDX-License-Identifier: Apache-2.0
// Messages are formatted only on failure.
#include "error.hpp"

#include <doctest/doctest.h>

#include <string>

#include "box.hpp"

namespace {

/// An argument that counts how often it is printed.
struct Counted {
  int* printed;
};

}  // namespace

template <>
struct fmt::formatter<Counted> : halomesh::PlainFormatter {
  static auto format(const Counted& counted, fmt::format_context& context) {
    return print(fmt::format("{}", ++*counted.printed), context);
  }
};

namespace halomesh {
namespace {

TEST_CASE("a condition that holds formats neither message nor hint") {
  int printed = 0;
  const Counted counted{&printed};
  for (int i = 0; i < 3; ++i)
    require(true, text("message {} of {}", counted, "many"), text("hint {}", counted));
  CHECK(printed == 0);
}

TEST_CASE("a condition that fails formats the message and the hint once") {
  int messages = 0, hints = 0;
  try {
    require(false, text("message {} of {}", Counted{&messages}, std::string("many")),
            text("hint {}", Counted{&hints}));
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.what() == std::string("message 1 of many"));
    CHECK(error.hint() == "hint 1");
  }
  CHECK(messages + hints == 2);
}

TEST_CASE("messages may be plain strings, and a hint may be missing") {
  CHECK_THROWS_WITH_AS(require(false, "plain"), "plain", Error);
  try {
    require(false, std::string("what"), "hint");
  } catch (const Error& error) {
    CHECK(error.hint() == "hint");
  }
  try {
    require(false, "what");
  } catch (const Error& error) {
    CHECK(error.hint().empty());
  }
}

TEST_CASE("shapes and boxes print in messages as they do in streams") {
  const Box box{{0, 1, 2, 3}, {4, 5, 6, 7}};
  CHECK(fmt::format("{}", Shape{4, 8, 16, 32}) == "8x16x32x4");
  CHECK(fmt::format("{}, {}", box, Box{}) == "[1,5)x[2,6)x[3,7)x4, empty");
  CHECK(fmt::format("{}", Box{{2, 1, 2, 3}, {4, 5, 6, 7}}) == "[1,5)x[2,6)x[3,7)x[2,4)");
}

}  // namespace
}  // namespace halomesh
