// SPDX-License-Identifier: Apache-2.0
// The process mesh as numbers: see mesh_shape.hpp.
#include "partition/mesh_shape.hpp"

#include <charconv>

#include "counted.hpp"
#include "error.hpp"

namespace halomesh {

PartGrid parse_part_grid(const std::string& text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  Spatial values{};
  for (std::size_t a = 0; a < 3; ++a) {
    const auto [next, error] = std::from_chars(at, end, values[a]);
    const bool separated = a == 2 ? next == end : (next != end && *next == 'x');
    if (error != std::errc{} || values[a] < 1 || !separated)
      throw UsageError(fmt::format("--parts '{}' is not of the form DxHxW", text),
                       "give parts along depth, height and width, e.g. --parts 2x2x1");
    at = next + 1;
  }
  return {values[0], values[1], values[2]};
}

std::string to_string(const PartGrid& grid) {
  return fmt::format("{}x{}x{}", grid.d, grid.h, grid.w);
}

MeshShape make_mesh(std::int64_t ranks, const PartGrid& parts) {
  const std::int64_t count = parts.count();
  if (ranks % count != 0) {
    const std::int64_t below = ranks / count * count;
    throw UsageError(
        fmt::format("{} cannot be divided into groups of {} (--parts {})", counted(ranks, "rank"),
                    counted(count, "part"), to_string(parts)),
        below > 0 ? fmt::format("start {} or {} ranks, or choose parts whose product divides {}",
                                below, below + count, ranks)
                  : fmt::format(
                        "start {} ranks (or a multiple), or choose parts whose product divides {}",
                        count, ranks));
  }
  return {ranks / count, parts};
}

std::int64_t local_batch(std::int64_t global_batch, const MeshShape& mesh) {
  if (global_batch < 1 || global_batch % mesh.replicas != 0) {
    const std::int64_t below = global_batch / mesh.replicas * mesh.replicas;
    throw UsageError(
        fmt::format("a batch of {} cannot be shared by {}", counted(global_batch, "sample"),
                    counted(mesh.replicas, "replica")),
        below > 0 ? fmt::format("use --batch {} or {}", below, below + mesh.replicas)
                  : fmt::format("use --batch {} or a multiple of it", mesh.replicas));
  }
  return global_batch / mesh.replicas;
}

}  // namespace halomesh
