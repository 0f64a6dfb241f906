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
  double seconds = 0;  ///< median, of an even number the shorter of the middle two
};

/// Of some measured cases.
struct KernelTimes {
  std::vector<MeasuredKernel> kernels;
  double computed_s = 0;   ///< inside layers
  std::int64_t polls = 0;  ///< calls of Pass::poll and ends of chunks in that time

  /// Adds another round over the first of these cases, in the same order, or over more of them: of
  /// each kernel the shorter time stays.
  void add_round(const KernelTimes& round);
};

/// Adds the times of the passes of `one` to `times`: the layer of the network of `options`, with
/// the boxes and chunks that it has in training, runs on random data through its public interface,
/// one step after another, until `seconds` are over, at least once. Local.
void measure(const LayerCase& one, const Options& options, DataType precision, double seconds,
             KernelTimes& times);

}  // namespace halomesh
