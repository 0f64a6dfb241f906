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
#include "src/nn/data_type.hpp"

namespace halomesh {

/// Measurements of one kind of link: within a node, or between nodes.
struct LinkRecord {
  std::vector<MessageTime> times;
  LinkFit fit;
  std::int64_t eager_bytes = 0;  ///< the largest message that is sent before its receiver asks for
                                 ///< it; 0: none
};

/// A sum over the first `ranks` ranks, with the members of SumSpeed.
struct SumTime {
  int ranks = 0;
  std::int64_t bytes = 0;
  std::string algorithm;
  double seconds = 0;
};

struct NetworkRecord {
  std::optional<LinkRecord> within_node, between_nodes;  ///< empty: no two such ranks
  double injection_s_per_byte = 0;                       ///< per node; 0: not measured
  std::vector<SumTime> sums;
  std::vector<std::pair<int, double>> barriers;  ///< ranks, seconds
  double poll_cost_s = 0;
};

/// The times of one rank's repeated step.
struct StepSpread {
  std::int64_t steps = 0;
  double median_s = 0, relative_stddev = 0;
  /// The median step over the sum of its kernels' measured times: the kernels of a step run longer
  /// one after the other, with each other's data in the caches. 0: some kernels were not measured.
  double kernel_time_factor = 0;
  /// The excess of the slower of two ranks over the mean, as a share of a step: for normally
  /// distributed steps, their standard deviation over the square root of pi.
  double per_doubling() const;
  /// Why a machine file cannot have it; "" if it can.
  std::string problem() const;
};

/// Rates of one rank while all read; 0: too fast to be measured.
struct InputRates {
  double read_bytes_per_second = 0;    ///< bytes as stored in files
  double decode_bytes_per_second = 0;  ///< bytes of voxels, without reading
};

struct MachineRecord {
  std::string name, cpu, isa;
  DataType precision = DataType::kFloat32;              ///< the precision of the measured kernels
  int cores = 0, ranks_per_node = 1, threads = 1;       ///< cores per node; threads per rank
  std::int64_t ranks = 1, nodes = 1, memory_bytes = 0;  ///< memory per node
  bool shares_cores = false;             ///< ranks had to share cores: times are too long
  MachinePeak peak;                      ///< the peak of one rank
  std::optional<NetworkRecord> network;  ///< empty: measured on one rank
  double add_s_per_byte = 0;
  CopyCost copy;
  double poll_s = 0;  ///< the time between two polls of a computing rank; 0: nothing was computed
  std::vector<MeasuredKernel> kernels;
  std::int64_t kernels_left_out = 0, kernels_too_large = 0;
  std::optional<StepSpread> step_spread;
  std::optional<InputRates> input;
};

/// The record as JSON; docs/scaling.md explains the keys. Unmeasured values are null; "sources"
/// says "measured" or "not measured" for each block.
nlohmann::ordered_json to_json(const MachineRecord& record);

/// Converts measured kernels to JSON text and back, to send them between ranks.
std::string to_text(const std::vector<MeasuredKernel>& kernels);
std::vector<MeasuredKernel> kernels_of(const std::string& text);

}  // namespace halomesh
