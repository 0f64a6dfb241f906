// SPDX-License-Identifier: Apache-2.0
// Measures the passes of one layer on one part, alone on this rank.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/cost/kernel_table.hpp"
#include "src/apps/bench/kernel_cases.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

struct MeasuredKernel {
  KernelCase call;
  double seconds = 0;  ///< the median; of an even number, the shorter of the middle two
};

/// The times of some measured cases.
struct KernelTimes {
  std::vector<MeasuredKernel> kernels;
  double computed_s = 0;   ///< inside layers
  std::int64_t polls = 0;  ///< calls of Pass::poll and chunk ends in that time

  /// Merges another round over these cases in this order, or over more cases. The shorter time of
  /// each kernel is kept.
  void add_round(const KernelTimes& round);
};

/// Adds the times of the passes of `one` to `times`: the layer of the network of `options`, with
/// its boxes and chunks of training, runs on random data through its public interface, step after
/// step, for `seconds` or at least once. Local.
void measure(const LayerCase& one, const Options& options, DataType precision, double seconds,
             KernelTimes& times);

}  // namespace halomesh
