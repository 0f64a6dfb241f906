// SPDX-License-Identifier: Apache-2.0
// The process mesh as numbers: rank <-> (replica, part) and part <-> grid coordinates.
#pragma once

#include <cstdint>
#include <string>

#include "shape.hpp"

namespace halomesh {

/// The cut of one sample: parts along d, h and w. Part index = (pd * h + ph) * w + pw.
struct PartGrid {
  std::int64_t d = 1, h = 1, w = 1;

  std::int64_t count() const { return d * h * w; }
  /// Grid coordinates {pd, ph, pw} of a part.
  Spatial coordinates(std::int64_t part) const { return {part / (h * w), part / w % h, part % w}; }
  friend bool operator==(const PartGrid&, const PartGrid&) = default;
};

/// Reads "DxHxW", e.g. "4x4x1"; throws UsageError naming the text.
PartGrid parse_part_grid(const std::string& text);
std::string to_string(const PartGrid& grid);

/// `replicas` groups of `parts.count()` consecutive ranks: rank = replica * parts + part.
struct MeshShape {
  std::int64_t replicas = 1;
  PartGrid parts;

  std::int64_t ranks() const { return replicas * parts.count(); }
  std::int64_t replica_of(std::int64_t rank) const { return rank / parts.count(); }
  std::int64_t part_of(std::int64_t rank) const { return rank % parts.count(); }
  std::int64_t rank_of(std::int64_t replica, std::int64_t part) const {
    return replica * parts.count() + part;
  }
};

/// The mesh of `ranks` ranks for this cut; throws UsageError naming rank counts that fit when the
/// parts do not divide the ranks.
MeshShape make_mesh(std::int64_t ranks, const PartGrid& parts);

/// Samples that a replica takes in each step; throws UsageError naming global batches that fit when
/// `global_batch` is not a multiple of the replicas.
std::int64_t local_batch(std::int64_t global_batch, const MeshShape& mesh);

}  // namespace halomesh
