// SPDX-License-Identifier: Apache-2.0
// A machine as a forecast sees it: numbers with their origin, and values derived from them. Must
// not depend on MPI: the forecast runs on a different machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/cost/kernel_table.hpp"
#include "partition/cost/network_cost.hpp"
#include "src/nn/data_type.hpp"

namespace halomesh {

/// The way in which a number is known.
enum class Origin : std::uint8_t { kMeasured, kPublished, kDerived, kAssumed };
const char* name_of(Origin origin);

/// One number of a machine.
struct MachineNumber {
  std::string name;
  double value = 0;
  Origin origin = Origin::kAssumed;
  std::string source;  ///< the value's source
  std::string where;   ///< "FILE:LINE"; empty for a default of the program
};

/// The rule for one number.
struct NumberRule {
  const char* name;
  const char* unit;
  double least, most;
  bool required;    ///< a machine without it is refused
  double fallback;  ///< assumed if an optional number is missing; 0: unknown, or without effect
};

/// All numbers that a machine may have. Values of a node are totals, not per rank.
const std::vector<NumberRule>& number_rules();

enum class Interconnect : std::uint8_t { kNone, kTorus, kDragonfly, kFatTree };
const char* name_of(Interconnect interconnect);

/// A machine. Set its numbers, then call derive().
struct Machine {
  std::string name, title, cpu;
  Interconnect interconnect = Interconnect::kNone;
  std::vector<std::int64_t> shape;  ///< torus: nodes; dragonfly: groups, chassis, routers, nodes
  std::vector<MachineNumber> numbers;
  std::string kernel_cpu;                   ///< the CPU of the measured kernel times; empty: none
  std::vector<std::string> notes;           ///< facts that a user must know, one sentence each
  DataType precision = DataType::kFloat32;  ///< chooses the peak and the efficiency of kernels

  // Derived values:
  NetworkCost network;
  KernelTable kernels;  ///< rates of one rank

  /// The value of a number of number_rules(), or its fallback.
  double value(const std::string& number) const;
  /// Adds or replaces a number. Throws UsageError, naming place, value and bounds, for a number
  /// that is unknown or out of bounds.
  void set(const MachineNumber& number);
  /// Throws UsageError for a required number that is missing; `file` is for the message.
  void check_whole(const std::string& file) const;
  /// Computes the derived values for this many ranks per node (0: the machine's own).
  void derive(std::int64_t ranks_per_node = 0);

  /// Gflop/s of a node in its precision: bf16 may also be widened to fp32.
  double peak_gflops() const;
  /// The number with the efficiency of kernels in its precision: that of fp32 stands in where the
  /// one of bf16 is missing.
  const char* efficiency_number() const;
  /// Adds a note for each number that stands in for a missing one, and for each that is not
  /// counted.
  void note_stand_ins();

  std::int64_t ranks_per_node() const { return network.ranks_per_node; }
  /// The factor of kernel times: kernel-time-factor, or 1 if it is unknown.
  double kernel_time_factor() const;
  /// Threads per rank that fill the cores of a node; at least 1.
  int threads() const;
};

/// The machine with one number multiplied by `factor` (within its bounds), derived.
Machine with_number_scaled(Machine machine, const std::string& number, double factor);

}  // namespace halomesh
