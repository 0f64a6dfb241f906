// SPDX-License-Identifier: Apache-2.0
// The costs of an MPI library's collectives on a torus: formulas of its algorithms, with constants
// fitted to measurements on few nodes.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace halomesh {

enum class Collective : std::uint8_t { kAllreduce, kReduceScatter, kAllgather };

/// A measured collective with one rank per node.
struct MeasuredCollective {
  std::vector<std::int64_t> shape;  ///< nodes along each axis
  Collective collective = Collective::kAllreduce;
  std::string algorithm;  ///< "default": the library's choice
  double bytes = 0;       ///< the size of the whole vector
  double seconds = 0;

  std::int64_t nodes() const;
};

/// Reads lines "system,nodes,shape,collective,algorithm,BYTES,BYTES,..." with microseconds below
/// the bytes; empty cells and other collectives are skipped. Throws UsageError with file and line.
std::vector<MeasuredCollective> read_collectives(const std::filesystem::path& file);

/// Costs of Fujitsu MPI's algorithms on TofuD. K is the extent of an axis, P the nodes, n the
/// bytes.
/// - barrier network, up to 8 bytes: a + b lg P;
/// - recursive doubling, up to 96 KiB: lg P (a + n b) + hops, each hop `hop_s`;
/// - three pipelined trees on disjoint links (trinaryx3), above: 2 R (a + s b) + n c 3 / axes, with
///   R = sum of K / 2 and segments s of 4 KiB (up to 384 KiB), 16 KiB (up to 6 MiB), 64 KiB;
/// - reduce-scatter by halving, near nodes first: rounds a + hops + m max(b, d / link) for m bytes
///   to a node d links away, as messages of d links share each link with d - 1 others;
/// - all-gather: the lesser of recursive doubling, lg P a + hops + n b (P - 1) / P, and rings along
///   all axes, a + b P + n c 3 / axes.
class TorusCollectives {
 public:
  /// Fits a, b, c of each algorithm by least squares of relative errors. Throws Error if an
  /// algorithm has too few measurements. By default a link has the rate that messages reached on 64
  /// nodes with uTofu.
  explicit TorusCollectives(const std::vector<MeasuredCollective>& measured, double hop_s = 0.1e-6,
                            double link_bytes_per_s = 5.9e9);

  double seconds(Collective collective, const std::vector<std::int64_t>& shape, double bytes) const;

 private:
  using Terms = std::array<double, 3>;
  double halving(const std::vector<std::int64_t>& shape, double bytes, double a, double b) const;

  double hop_s_, link_;
  Terms barrier_{}, doubling_{}, trees_{}, gather_{}, rings_{};
  double halving_a_ = 0, halving_b_ = 0;
};

}  // namespace halomesh
