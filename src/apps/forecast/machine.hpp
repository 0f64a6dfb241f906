// SPDX-License-Identifier: Apache-2.0
// A machine as a forecast sees it: numbers with their origin, and what follows from them. Must not
// depend on MPI: the machine is another one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/cost/kernel_table.hpp"
#include "partition/cost/network_cost.hpp"

namespace halomesh {

/// How a number is known.
enum class Origin : std::uint8_t { kMeasured, kPublished, kDerived, kAssumed };
const char* name_of(Origin origin);

/// One number of a machine.
struct MachineNumber {
  std::string name;
  double value = 0;
  Origin origin = Origin::kAssumed;
  std::string source;  ///< of the value
  std::string where;   ///< "FILE:LINE"; empty for a default of the program
};

/// What a number may be.
struct NumberRule {
  const char* name;
  const char* unit;
  double least, most;
  bool required;    ///< a machine without it is refused
  double fallback;  ///< assumed where it is missing and not required; 0: unknown, or does not count
};

/// Every number that a machine may have. Values of a node are for all of it, not for a rank.
const std::vector<NumberRule>& number_rules();

enum class Interconnect : std::uint8_t { kNone, kTorus, kDragonfly, kFatTree };
const char* name_of(Interconnect interconnect);

/// A machine. Set its numbers, then derive().
struct Machine {
  std::string name, title, cpu;
  Interconnect interconnect = Interconnect::kNone;
  std::vector<std::int64_t> shape;  ///< torus: nodes; dragonfly: groups, chassis, routers, nodes
  std::vector<MachineNumber> numbers;
  std::string kernel_cpu;          ///< on which the kernel times were measured; empty: none were
  std::vector<std::string> notes;  ///< what a user must know, one sentence each

  // Derived:
  NetworkCost network;
  KernelTable kernels;  ///< rates of one rank

  /// The value of a number of number_rules(), or its fallback.
  double value(const std::string& number) const;
  /// Adds or replaces a number. Throws UsageError, naming place, value and bounds, for one that is
  /// not in number_rules() or out of its bounds.
  void set(const MachineNumber& number);
  /// Throws UsageError for a required number that is missing; `file` is for the message.
  void check_whole(const std::string& file) const;
  /// Computes what follows from the numbers for this many ranks on each node (0: the machine's).
  void derive(std::int64_t ranks_per_node = 0);

  std::int64_t ranks_per_node() const { return network.ranks_per_node; }
  /// What kernel times are multiplied by: kernel-time-factor, 1 where it is unknown.
  double kernel_time_factor() const;
  /// Threads of a rank that fill the cores of a node; at least 1.
  int threads() const;
};

/// The machine with one number multiplied by `factor` (within its bounds), derived.
Machine with_number_scaled(Machine machine, const std::string& number, double factor);

}  // namespace halomesh
