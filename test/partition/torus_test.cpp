// SPDX-License-Identifier: Apache-2.0
// Distances between the nodes of a torus, and how one is described.
#include "partition/torus.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>

#include "error.hpp"

namespace halomesh {
namespace {

using Three = std::array<int, 3>;

TEST_CASE("Torus: nodes along x first, and the shorter way around") {
  const Torus torus = parse_torus("4x3x8", "T");
  CHECK(torus.known());
  CHECK(torus.nodes() == 96);
  CHECK(torus.position(0) == Three{0, 0, 0});
  CHECK(torus.position(7) == Three{3, 1, 0});
  CHECK(torus.position(95) == Three{3, 2, 7});
  CHECK(torus.hops(0, 3) == Three{1, 0, 0});
  CHECK(torus.hops(0, 2) == Three{2, 0, 0});
  CHECK(torus.hops(0, 8) == Three{0, 1, 0});
  CHECK(torus.hops(12, 95) == Three{1, 1, 2});
}

TEST_CASE("Torus: blocks follow each other along x") {
  const Torus torus = parse_torus("4x4x2/2x2x1", "T");
  const Three places[] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {1, 1, 0}, {2, 0, 0}};
  for (int node = 0; node < 5; ++node) CHECK(torus.position(node) == places[node]);
  CHECK(torus.position(8) == Three{0, 2, 0});
  CHECK(torus.position(16) == Three{0, 0, 1});
  CHECK(torus.hops(0, 4) == Three{2, 0, 0});
}

TEST_CASE("parse_torus: nothing is not known, and what is wrong is refused with its source") {
  CHECK(!parse_torus("", "T").known());
  for (const char* text : {"4x4", "4x4x", "0x4x4", "4x4x4x4", "axbxc", "4x4x-4", "4x4x4/",
                           "4x4x4/3x1x1", "4x4x4/1x1", " 4x4x4", "16777216x2x1"}) {
    CAPTURE(text);
    std::string what;
    try {
      parse_torus(text, "HALOMESH_TORUS");
    } catch (const UsageError& error) {
      what = error.what();
    }
    CHECK(what.find(std::string("HALOMESH_TORUS=") + text) == 0);
  }
}

}  // namespace
}  // namespace halomesh
