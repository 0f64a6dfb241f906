// SPDX-License-Identifier: Apache-2.0
// When the sums of gradients of a step are done: their rounds beside the computation of each part,
// sharing links with each other.
#pragma once

#include <utility>
#include <vector>

#include "src/apps/forecast/sum_traffic.hpp"

namespace halomesh {

/// What one part computes beside its sums: stretches of kernels, which poll at their end and every
/// poll_s before. Sums that are taken further at a poll delay all that follows.
class ComputedStretches {
 public:
  explicit ComputedStretches(double poll_s = 0) : poll_s_(poll_s) {}
  /// Stretches follow each other.
  void add(double begin, double end) {
    if (end > begin) stretches_.emplace_back(begin, end);
  }
  /// The first poll at or after `time`; `time` itself once everything is computed, as a rank that
  /// waits polls all the time.
  double poll_after(double time) const;
  /// Work on a sum at `time`.
  void work(double time, double seconds);
  double delay() const { return delay_; }

 private:
  double poll_s_;
  double delay_ = 0;
  std::vector<std::pair<double, double>> stretches_;
};

/// What handling a message costs the CPU of its rank, at either end, and what a link adds.
struct MessageCost {
  double overhead_s = 0, hop_s = 0;
  double bytes_per_s = 0;  ///< that one message reaches between nodes
  Link within_node;
  /// Whether bytes within the node are copied by a core that others wait for, not beside them.
  bool cores_copy = false;
  double add_s_per_byte = 0;
};

/// Plays the rounds of all sums, of which number i may begin at ready[i]; all replicas do the same
/// at the same time. A round ends when its slowest message has come, and the next begins at the
/// next poll, when what came is added. Messages share links as in max-min fairness. `parts` are
/// those of a replica; their delays are updated. Returns when each sum is done.
std::vector<double> play_sums(const SumTraffic& traffic, const std::vector<double>& ready,
                              const MessageCost& cost, std::vector<ComputedStretches>& parts);

}  // namespace halomesh
