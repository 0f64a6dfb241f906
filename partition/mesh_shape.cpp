// The process mesh as numbers: see mesh_shape.hpp.
#include "partition/mesh_shape.hpp"

#include <charconv>

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
      throw UsageError(cat("--parts '", text, "' is not of the form DxHxW"),
                       "give parts along depth, height and width, e.g. --parts 2x2x1");
    at = next + 1;
  }
  return {values[0], values[1], values[2]};
}

std::string to_string(const PartGrid& grid) { return cat(grid.d, 'x', grid.h, 'x', grid.w); }

MeshShape make_mesh(std::int64_t ranks, const PartGrid& parts) {
  const std::int64_t count = parts.count();
  if (ranks % count != 0) {
    const std::int64_t below = ranks / count * count;
    throw UsageError(cat(ranks, " ranks cannot be divided into groups of ", count,
                         " parts (--parts ", to_string(parts), ")"),
                     below > 0 ? cat("start ", below, " or ", below + count,
                                     " ranks, or choose parts whose product divides ", ranks)
                               : cat("start ", count,
                                     " ranks (or a multiple), or choose parts whose "
                                     "product divides ",
                                     ranks));
  }
  return {ranks / count, parts};
}

std::int64_t local_batch(std::int64_t global_batch, const MeshShape& mesh) {
  if (global_batch < 1 || global_batch % mesh.replicas != 0) {
    const std::int64_t below = global_batch / mesh.replicas * mesh.replicas;
    throw UsageError(cat("a batch of ", global_batch, " samples cannot be shared by ",
                         mesh.replicas, " replicas"),
                     below > 0 ? cat("use --batch ", below, " or ", below + mesh.replicas)
                               : cat("use --batch ", mesh.replicas, " or a multiple of it"));
  }
  return global_batch / mesh.replicas;
}

}  // namespace halomesh
