// SPDX-License-Identifier: Apache-2.0
// What the sums of gradients of one mesh send over which links: the rounds that GradientReducer and
// sum_schedule() make, of all ranks at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "partition/mesh_shape.hpp"
#include "partition/model_geometry.hpp"
#include "runtime/step/reduction.hpp"
#include "src/apps/forecast/routes.hpp"
#include "src/nn/data_type.hpp"

namespace halomesh {

/// One round of a sum, as the rank that sends most sees it.
struct RoundTraffic {
  /// What each rank sends to one of its partners.
  struct Share {
    std::size_t pattern = 0;  ///< of SumTraffic::Links::flows
    double of_bytes = 1;
  };
  double bytes = 0;           ///< sent, or received where that is more
  int messages = 1;           ///< that these bytes are cut into
  bool adds = false;          ///< what is received is added
  std::vector<Share> shares;  ///< between nodes; none where all pairs of the round share a node
  int hops = 0;               ///< links of the longest way
};

/// A bucket that all parts have in their order, or some: sets of holders that sum different slices
/// of the same layers at the same time.
struct SumTraffic {
  struct Sum {
    std::vector<std::int64_t> parts;  ///< of all its sets, ascending
    std::vector<std::size_t> layers;  ///< whose gradients it waits for, one per parameter
    double bytes = 0;
    std::vector<RoundTraffic> rounds;
  };
  /// Links that carry the same numbers of messages in all patterns. Those that are never fuller
  /// than others are left out.
  struct Links {
    double bytes_per_s = 0;
    std::vector<std::uint32_t> flows;  ///< by pattern: pairs of ranks that use it at the same time
  };
  std::vector<Sum> sums;
  std::vector<Links> links;
};

/// What the meshes of the same ranks on the same network have in common, whatever its rates.
struct SumRoutes {
  using Partners = std::vector<int>;  ///< by rank: to whom it sends; -1: to nobody
  struct Pattern {
    std::vector<std::pair<std::size_t, std::uint32_t>> flows;  ///< links, and pairs that use them
    int hops = 0;                                              ///< of the longest route
  };
  std::map<Partners, Pattern> patterns;  ///< by partners in the world
  /// Algorithm, ranks, ranks per node and algorithm across nodes: partners depend on nothing else.
  using SumKey = std::array<int, 4>;
  /// Of `patterns`, by parts of a sample, those of each set of holders, and the partner of rank 0.
  using PartnerKey = std::tuple<std::int64_t, std::vector<std::vector<std::int64_t>>, SumKey, int>;
  std::map<PartnerKey, const Pattern*> regular;
  /// Where rank 0 does not stand for all: partners of all holders in each round.
  std::map<SumKey, std::vector<Partners>> irregular;
};

struct SumSettings {
  Reduction reduction = Reduction::kAuto;
  std::int64_t bucket_bytes = std::int64_t{4} << 20;
  DataType payload = DataType::kFloat32;
  int ranks_per_node = 1;
  double injection_bytes_per_s = 0;  ///< of a node whose ranks share it; 0: not limited
};

/// To whom rank `rank` of a sum sends where rank 0 sends to rank `first`: ranks are digits, of
/// which the rounds of halving and of rings each change one. Not for whole buffers among a number
/// of ranks that is no power of 2, nor for trees.
int partner_like_first(const SumChoice& sum, int first, int rank);

/// The sums of a step on `mesh`, whose ranks fill nodes in order. `geometry` is that of mesh.parts.
/// `known` is of `routes`, mesh.ranks() and settings.ranks_per_node only.
SumTraffic sum_traffic(const Routes& routes, const ModelGeometry& geometry, const MeshShape& mesh,
                       const SumSettings& settings, SumRoutes& known);

}  // namespace halomesh
