// SPDX-License-Identifier: Apache-2.0
// Maps ranks to the nodes of a torus so that the ranks of a group are close to each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/mesh_shape.hpp"

namespace halomesh {

/// The one to three extents of a block of nodes, or the coordinates of a node.
using NodeShape = std::vector<std::int64_t>;

/// Reads "512", "16x32" or "8x8x8"; throws UsageError naming the text.
NodeShape parse_node_shape(const std::string& text);
std::string to_string(const NodeShape& shape);
std::int64_t node_count(const NodeShape& shape);

/// The most cube-like shape of three extents for `nodes` nodes of a machine of this shape, whose
/// axes may be exchanged (empty: no bound). If there is none, throws UsageError naming the nearest
/// node counts that have one.
NodeShape choose_node_shape(std::int64_t nodes, const NodeShape& machine);

/// True if `shape` fits into `machine` with axes exchanged as necessary; an empty machine holds
/// all.
bool fits_into(const NodeShape& shape, const NodeShape& machine);

struct RankMap {
  std::vector<NodeShape> nodes;  ///< the node of each rank
  NodeShape block;               ///< the nodes that each group has to itself
  double mean_hops = 0;          ///< between parts that exchange a face, over the torus
};

/// Puts each group of `mesh` on its own block of nodes (or several groups on one node, if it has
/// enough cores), with `ranks_per_node` consecutive ranks on each node. Parts that share a face
/// have as few hops between them as any order of rows and any block that divides `shape` allows.
/// Groups follow each other in a snake, so that neighbours in rank are neighbours on the torus.
/// Throws UsageError if no block of the right size divides `shape` (naming shapes that would do) or
/// if the ranks do not fill the nodes.
RankMap make_rank_map(const MeshShape& mesh, const NodeShape& shape, std::int64_t ranks_per_node);

/// The mean number of hops between parts of a group that share a face, over all groups; 0 if there
/// are none. Each axis is a ring: one hop leads from the last node to the first.
double mean_face_hops(const MeshShape& mesh, const NodeShape& shape,
                      const std::vector<NodeShape>& nodes);

/// The map as a PJM host file: one line "(x,y,z)" per rank, in rank order, with as many coordinates
/// as the shape.
std::string to_host_file(const RankMap& map);

}  // namespace halomesh
