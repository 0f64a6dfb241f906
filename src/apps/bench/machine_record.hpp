// SPDX-License-Identifier: Apache-2.0
// The measurements of one machine, and their form as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/mpi/message_times.hpp"
#include "src/apps/bench/kernel_timer.hpp"
#include "src/apps/bench/machine_peak.hpp"

namespace halomesh {

/// One kind of link: between ranks of one node, or of different nodes.
struct LinkRecord {
  std::vector<MessageTime> times;
  LinkFit fit;
  std::int64_t eager_bytes = 0;  ///< 0: no message is sent before its receiver asks for it
};

/// A sum over the first `ranks` ranks, as SumSpeed.
struct SumTime {
  int ranks = 0;
  std::int64_t bytes = 0;
  std::string algorithm;
  double seconds = 0;
};

struct NetworkRecord {
  std::optional<LinkRecord> within_node, between_nodes;  ///< empty: no such two ranks
  double injection_s_per_byte = 0;                       ///< of a node; 0: not measured
  std::vector<SumTime> sums;
  std::vector<std::pair<int, double>> barriers;  ///< ranks, seconds
  double poll_cost_s = 0;
};

/// One rank's repeated step.
struct StepSpread {
  std::int64_t steps = 0;
  double median_s = 0, relative_stddev = 0;
  /// The median over what the measured kernels of the step add up to: how much longer they take one
  /// after the other, with each other's data in the caches; 0: some were not measured.
  double kernel_time_factor = 0;
  /// By how much, as a share of a step, the slower of two ranks exceeds the mean: for normally
  /// distributed steps their standard deviation over the square root of pi.
  double per_doubling() const;
};

/// Of one rank while all read; 0: too fast to be measured.
struct InputRates {
  double read_bytes_per_second = 0;    ///< as stored in files
  double decode_bytes_per_second = 0;  ///< of voxels, reading apart
};

struct MachineRecord {
  std::string name, cpu, isa;
  int cores = 0, ranks_per_node = 1, threads = 1;       ///< cores of a node; threads per rank
  std::int64_t ranks = 1, nodes = 1, memory_bytes = 0;  ///< memory of a node
  bool shares_cores = false;             ///< ranks had to share cores: times are too long
  MachinePeak peak;                      ///< of a rank
  std::optional<NetworkRecord> network;  ///< empty: measured on one rank
  double add_s_per_byte = 0;
  CopyCost copy;
  double poll_s = 0;  ///< between two polls while a rank computes; 0: nothing was computed
  std::vector<MeasuredKernel> kernels;
  std::int64_t kernels_left_out = 0, kernels_too_large = 0;
  std::optional<StepSpread> step_spread;
  std::optional<InputRates> input;
};

/// Keys are explained in docs/scaling.md. What was not measured is null; "sources" says
/// "measured" or "not measured" for each block.
nlohmann::ordered_json to_json(const MachineRecord& record);

/// Measured kernels as JSON text, and back: to send them between ranks.
std::string to_text(const std::vector<MeasuredKernel>& kernels);
std::vector<MeasuredKernel> kernels_of(const std::string& text);

}  // namespace halomesh
