// What the ranks of a job can do together at best, and the roof that this sets to a phase.
// Knows how loops are timed; the loops are src/nn/peak.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "runtime/mpi.hpp"
#include "src/apps/phase_work.hpp"

namespace halomesh {

/// What the ranks of the job can do together, in operations and bytes a second: the best of some
/// tries in which all of them run at once.
struct MachinePeak {
  double fp32 = 0;
  double bf16 = 0;  ///< of dot products in vectors; 0 where the program was built without
  double triad = 0;

  /// Of layers that compute with these numbers. Numbers of bf16 may also be widened and multiplied
  /// as fp32, which is faster on some CPUs: the higher of both counts.
  double of(const std::string& precision) const {
    return precision == "bf16" ? std::max(bf16, fp32) : fp32;
  }
  /// Operations a second that `work` allows: the lower of peak and traffic (Williams, Waterman,
  /// Patterson: "Roofline", CACM 52, 2009).
  double roof(const PhaseWork& work, const std::string& precision) const;
};

/// Takes about a second. `core_share` is the part of a core that a thread of this rank has, less
/// than 1 where ranks have more threads than cores; `array_bytes` are those of each of a rank's
/// three triad arrays. Collective over `world`.
MachinePeak measure_peak(const Comm& world, double core_share, std::int64_t array_bytes);

}  // namespace halomesh
