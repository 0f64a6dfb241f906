// SPDX-License-Identifier: Apache-2.0
// The bytes that the gradient sums of one mesh send over each link: the rounds of GradientReducer
// and sum_schedule(), for all ranks at once.
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
  /// The bytes that each rank sends to one of its partners.
  struct Share {
    std::size_t pattern = 0;  ///< the index in SumTraffic::Links::flows
    double of_bytes = 1;
  };
  double bytes = 0;           ///< sent, or received if that is more
  int messages = 1;           ///< the number of messages for these bytes
  bool adds = false;          ///< received values are added
  std::vector<Share> shares;  ///< between nodes; empty if all pairs of the round share a node
  int hops = 0;               ///< the number of links of the longest way
};

/// A bucket that all or some parts have at one place of their order: sets of holders that sum
/// different slices of these layers at the same time.
struct SumTraffic {
  struct Sum {
    std::vector<std::int64_t> parts;  ///< parts of all its sets, ascending
    std::vector<std::size_t> layers;  ///< layers for whose gradients it waits, one per parameter
    double bytes = 0;
    std::vector<RoundTraffic> rounds;
  };
  /// Links that carry equal numbers of messages in all patterns. Links that are never fuller than
  /// others are left out.
  struct Links {
    double bytes_per_s = 0;
    std::vector<std::uint32_t> flows;  ///< by pattern: pairs of ranks that use the link at once
  };
  std::vector<Sum> sums;
  std::vector<Links> links;
};

/// Routes that all meshes of these ranks on this network share, whatever its rates.
struct SumRoutes {
  using Partners = std::vector<int>;  ///< by rank: its destination, or -1
  struct Pattern {
    std::vector<std::pair<std::size_t, std::uint32_t>> flows;  ///< links, and pairs that use them
    int hops = 0;                                              ///< the length of the longest route
  };
  std::map<Partners, Pattern> patterns;  ///< by partners in the world
  /// Algorithm, ranks, ranks per node and algorithm across nodes, on which alone partners depend.
  using SumKey = std::array<int, 4>;
  /// The key of one of `patterns`: parts of a sample, parts of each set of holders, and the partner
  /// of rank 0.
  using PartnerKey = std::tuple<std::int64_t, std::vector<std::vector<std::int64_t>>, SumKey, int>;
  std::map<PartnerKey, const Pattern*> regular;
  /// The partners of all holders in each round, where rank 0 does not stand for all.
  std::map<SumKey, std::vector<Partners>> irregular;
};

struct SumSettings {
  Reduction reduction = Reduction::kAuto;
  std::int64_t bucket_bytes = std::int64_t{4} << 20;
  DataType payload = DataType::kFloat32;
  int ranks_per_node = 1;
  double injection_bytes_per_s = 0;  ///< shared by the ranks of a node; 0: unlimited
};

/// The destination of rank `rank` in a sum whose rank 0 sends to rank `first`: ranks are digits,
/// and each round of halving or of rings changes one of them. Not for trees, nor for whole buffers
/// among a number of ranks that is no power of 2.
int partner_like_first(const SumChoice& sum, int first, int rank);

/// The sums of a step on `mesh`, whose ranks fill nodes in order. `geometry` is that of mesh.parts.
/// `known` belongs to `routes`, mesh.ranks() and settings.ranks_per_node alone.
SumTraffic sum_traffic(const Routes& routes, const ModelGeometry& geometry, const MeshShape& mesh,
                       const SumSettings& settings, SumRoutes& known);

}  // namespace halomesh
