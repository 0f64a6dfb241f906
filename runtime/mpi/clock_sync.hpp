// SPDX-License-Identifier: Apache-2.0
// The clocks of all nodes on one time scale, rank 0's.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// Measures how far this rank's clock is ahead of rank 0's. Only one rank of each node, its leader,
/// exchanges messages with rank 0; the ranks of a node share a clock:
///
///   rank 0            t1 ------>           ------> t2       offset = leader - (t1 + t2) / 2
///   leader of a node            \ leader /                  error <= (t2 - t1) / 2
///
/// The shortest of 16 round trips counts (Cristian, Distributed Computing 3, 1989). Between two
/// measurements the offset is interpolated linearly, so that drift is corrected as well; before the
/// first and after the last it is constant.
class ClockSync {
 public:
  /// Nanoseconds of a clock that never steps back.
  using Clock = std::function<std::int64_t()>;

  /// `node` has the ranks that share this rank's clock, in the order of `world`, which must outlive
  /// this object. Collective over `world`.
  ClockSync(const Comm& world, Comm node, Clock clock);

  /// Adds a measurement. Waits for all ranks first. Collective over the world.
  void measure();

  /// Converts a time of this rank's clock to rank 0's. Needs a measurement. Local.
  std::int64_t common_ns(std::int64_t local_ns) const;
  /// An upper bound for the error of all measured offsets of all nodes: half the round trip; 0 if
  /// all ranks share one clock. The same on every rank.
  std::int64_t error_ns() const { return error_ns_; }
  /// The number of compared clocks, including rank 0's. The same on every rank.
  int nodes() const { return nodes_; }

 private:
  struct Point {
    std::int64_t local_ns = 0, offset_ns = 0;  // ahead of rank 0
  };
  void ask(int leader, std::int64_t& error_ns) const;
  Point answer() const;

  const Comm& world_;
  Comm node_, leaders_;
  Clock clock_;
  std::vector<Point> points_;
  std::int64_t error_ns_ = 0;
  int nodes_ = 1;
};

}  // namespace halomesh
