// SPDX-License-Identifier: Apache-2.0
// The nodes of a job as a torus: the distance from one to another along each axis.
#pragma once

#include <array>
#include <string>

namespace halomesh {

/// Nodes are numbered block by block: first those of the block at the origin, x first, then those
/// of the next block along x. With blocks of one node, nodes are numbered along x, then y, then z.
struct Torus {
  std::array<int, 3> extents{0, 0, 0};  ///< in nodes; zeros: not known, or no torus
  std::array<int, 3> block{1, 1, 1};    ///< divides `extents`

  bool known() const { return extents[0] > 0; }
  int nodes() const { return extents[0] * extents[1] * extents[2]; }
  std::array<int, 3> position(int node) const;
  /// Links between two nodes along each axis, the shorter way around.
  std::array<int, 3> hops(int from, int to) const;
};

/// Reads "16x16x32", or with blocks "16x16x32/4x4x1"; "" is a torus that is not known. Throws
/// UsageError naming `source`, where the text comes from.
Torus parse_torus(const std::string& text, const std::string& source);

}  // namespace halomesh
