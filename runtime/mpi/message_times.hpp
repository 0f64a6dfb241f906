// SPDX-License-Identifier: Apache-2.0
// Times messages and collectives between the ranks of an otherwise idle job.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// Two ranks of a communicator.
struct RankPair {
  int first = 0, second = 1;
};

struct MessageTime {
  std::int64_t bytes = 0;
  double seconds = 0;  ///< one way
};

/// Half the time of a round trip between two ranks for each size: the mean of a batch of trips, in
/// the fastest of several batches, because other work on the machine only adds time. The other
/// ranks sleep. The result is the same on every rank. Collective over `comm`.
std::vector<MessageTime> ping_pong(const Comm& comm, const RankPair& pair,
                                   std::span<const std::int64_t> sizes);

/// The model latency + bytes * s_per_byte with the least sum of squared relative errors over
/// `times`, which has at least two sizes; neither value is negative.
struct LinkFit {
  double latency_s = 0, s_per_byte = 0;
};
LinkFit fit_link(std::span<const MessageTime> times);

/// The largest message, in powers of two up to 4 MiB, whose send completes before its receiver has
/// asked for it; 0 if none does. Collective over `comm`.
std::int64_t eager_limit(const Comm& comm, const RankPair& pair);

/// Seconds per byte that leaves a node when all ranks of one node send to those of another at once:
/// rank i of the first to rank i of the second. Ranks with color 0 send, those with color 1
/// receive, and all others sleep; `place` is the rank's number within its node. Collective over
/// `comm`.
double injection_s_per_byte(const Comm& comm, int color, int place, std::int64_t bytes);

/// The median time of `work(part)` on the first `ranks` ranks, `part`, until the last of them is
/// done, after one call that is not counted. The other ranks sleep. The result is the same on every
/// rank. Collective over `comm`.
double median_seconds(const Comm& comm, int ranks, const std::function<void(const Comm&)>& work);

/// Seconds of one test of a pending receive. Local.
double poll_cost_s(const Comm& comm);

}  // namespace halomesh
