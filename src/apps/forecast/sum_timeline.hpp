// SPDX-License-Identifier: Apache-2.0
// When the gradient sums of a step end: their rounds run beside the computation of each part and
// share links with each other.
#pragma once

#include <utility>
#include <vector>

#include "src/apps/forecast/sum_traffic.hpp"

namespace halomesh {

/// The computation of one part beside its sums: stretches of kernels, which poll at their end and
/// every poll_s before. Handling a sum at a poll delays all later work.
class ComputedStretches {
 public:
  explicit ComputedStretches(double poll_s = 0) : poll_s_(poll_s) {}
  /// Adds a stretch after the previous ones.
  void add(double begin, double end) {
    if (end > begin) stretches_.emplace_back(begin, end);
  }
  /// The first poll at or after `time`; `time` itself once everything is computed, because a
  /// waiting rank polls continuously.
  double poll_after(double time) const;
  /// Records work on a sum at `time`.
  void work(double time, double seconds);
  double delay() const { return delay_; }

 private:
  double poll_s_;
  double delay_ = 0;
  std::vector<std::pair<double, double>> stretches_;
};

/// The CPU time of a message on its rank, at either end, and the latency of a link.
struct MessageCost {
  double overhead_s = 0, hop_s = 0;
  double bytes_per_s = 0;  ///< the top speed of one message between nodes
  Link within_node;
  /// True if a core copies bytes within the node while others wait for it.
  bool cores_copy = false;
  double add_s_per_byte = 0;
};

/// Plays the rounds of all sums; sum i may begin at ready[i], and all replicas act alike at the
/// same time. A round ends when its slowest message has arrived; the next one begins at the next
/// poll, when the received values are added. Messages share links by max-min fairness. `parts` are
/// those of a replica; their delays are updated. Returns the end of each sum.
std::vector<double> play_sums(const SumTraffic& traffic, const std::vector<double>& ready,
                              const MessageCost& cost, std::vector<ComputedStretches>& parts);

}  // namespace halomesh
