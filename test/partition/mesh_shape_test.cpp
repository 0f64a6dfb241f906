// SPDX-License-Identifier: Apache-2.0
// The process mesh as numbers, and the hints that its errors name.
#include "partition/mesh_shape.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "error.hpp"

namespace halomesh {
namespace {

template <class Call>
std::string hint_of(const Call& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.hint();
  }
  return "nothing was thrown";
}

TEST_CASE("part grids are read and written as DxHxW") {
  CHECK(parse_part_grid("4x2x1") == PartGrid{4, 2, 1});
  CHECK(to_string(PartGrid{4, 2, 1}) == "4x2x1");
  for (const char* bad : {"", "4", "4x4", "4x4x", "4x4x1x1", "0x1x1", "-1x1x1", "4x4xa", "4*4*1",
                          "4x4x1 ", "99999999999999999999x1x1"})
    CHECK_THROWS_AS(parse_part_grid(bad), UsageError);
}

TEST_CASE("part index and coordinates: w runs fastest") {
  const PartGrid grid{2, 3, 4};
  CHECK(grid.count() == 24);
  CHECK(grid.coordinates(0) == Spatial{0, 0, 0});
  CHECK(grid.coordinates(5) == Spatial{0, 1, 1});
  CHECK(grid.coordinates(23) == Spatial{1, 2, 3});
  for (std::int64_t part = 0; part < 24; ++part) {
    const Spatial at = grid.coordinates(part);
    CHECK((at[0] * 3 + at[1]) * 4 + at[2] == part);
  }
}

TEST_CASE("consecutive ranks form a group") {
  const MeshShape mesh = make_mesh(8, {2, 2, 1});
  CHECK(mesh.replicas == 2);
  CHECK(mesh.ranks() == 8);
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    CHECK(mesh.replica_of(rank) == rank / 4);
    CHECK(mesh.part_of(rank) == rank % 4);
    CHECK(mesh.rank_of(mesh.replica_of(rank), mesh.part_of(rank)) == rank);
  }
}

TEST_CASE("ranks that the parts do not divide are refused, naming counts that fit") {
  CHECK(hint_of([] { make_mesh(10, {2, 2, 1}); }).find("8 or 12") != std::string::npos);
  CHECK(hint_of([] { make_mesh(3, {2, 2, 1}); }).find("start 4") != std::string::npos);
  CHECK(make_mesh(7, {1, 7, 1}).replicas == 1);
}

TEST_CASE("a batch that is not a multiple of the replicas is refused, naming batches that are") {
  const MeshShape mesh = make_mesh(12, {2, 2, 1});
  CHECK(local_batch(6, mesh) == 2);
  CHECK(hint_of([&] { local_batch(7, mesh); }).find("6 or 9") != std::string::npos);
  CHECK(hint_of([&] { local_batch(2, mesh); }).find("--batch 3") != std::string::npos);
  CHECK_THROWS_AS(local_batch(0, mesh), UsageError);
  CHECK_THROWS_AS(local_batch(-3, mesh), UsageError);
}

}  // namespace
}  // namespace halomesh
