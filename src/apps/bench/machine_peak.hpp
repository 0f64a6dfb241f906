// SPDX-License-Identifier: Apache-2.0
// The peak performance of all ranks of a job together, and the roofline of a phase.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "runtime/mpi/mpi.hpp"
#include "runtime/step/phase_work.hpp"

namespace halomesh {

/// Operations and bytes per second of all ranks together: the best of several runs in which all
/// compute at once.
struct MachinePeak {
  double fp32 = 0;
  double bf16 = 0;  ///< by the library's products; 0 where the CPU has no instructions for them
  double triad = 0;

  /// The peak in a compute precision. bf16 may also be widened and multiplied as fp32, which is
  /// faster on some CPUs, so its peak is the higher of the two.
  double of(const std::string& precision) const {
    return precision == "bf16" ? std::max(bf16, fp32) : fp32;
  }
  /// Operations per second attainable for `work`: the lower of peak and memory bound (Williams,
  /// Waterman, Patterson: "Roofline", CACM 52, 2009).
  double roof(const PhaseWork& work, const std::string& precision) const;
};

/// Measures the peak in about a second. `core_share` is the share of a core that each thread of
/// this rank has, below 1 if there are more threads than cores; `array_bytes` is the size of each
/// of a rank's three triad arrays. Collective over `world`.
MachinePeak measure_peak(const Comm& world, double core_share, std::int64_t array_bytes);

}  // namespace halomesh
