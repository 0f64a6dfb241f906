// SPDX-License-Identifier: Apache-2.0
// Walks a box of several views at once, one contiguous run of elements after the other.
// The walk is parallel; for one in memory order on one thread see BoxRuns.
#pragma once

#include <cstdint>

#include "box.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// One contiguous run: `length` elements from global position (n, channel box.lo[kC], d, h, w) on;
/// in a dense copy of the box of all samples they begin at offset `at`.
struct Run {
  std::int64_t n = 0, d = 0, h = 0, w = 0, length = 0, at = 0;

  /// The first element of this run in a view that contains the box being walked.
  template <class T>
  T* begin_in(TensorView<T> view, const Box& box) const {
    return view.data + view.offset(n, box.lo[kC], d, h, w);
  }
};

/// Calls body(Run) for the runs of `box` in `batch` samples, in parallel; each element is visited
/// once. A run is a row of pixels when the box has all `channels` of every view walked, one
/// pixel otherwise. Bodies must write disjoint memory. Local; allocates nothing.
template <class Body>
void visit_runs(const Box& box, std::int64_t batch, bool all_channels, const Body& body) {
  if (box.empty()) return;
  // The number of elements whose walk takes about as long as a fork and join.
  constexpr std::int64_t kWorthThreads = 1 << 15;
  const std::int64_t depth = box.extent(kD), height = box.extent(kH);
  const std::int64_t pixels = all_channels ? 1 : box.extent(kW);
  const std::int64_t length = box.extent(kC) * (all_channels ? box.extent(kW) : 1);
  const std::int64_t rows = batch * depth * height;
#pragma omp parallel for schedule(static) if (rows * pixels * length > kWorthThreads)
  for (std::int64_t row = 0; row < rows; ++row) {
    Run run{row / (depth * height),
            box.lo[kD] + row / height % depth,
            box.lo[kH] + row % height,
            box.lo[kW],
            length,
            row * pixels * length};
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel, ++run.w, run.at += length) body(run);
  }
}

/// Calls body(Run) for the runs whose n + d + h leave the remainder `thread` when divided by
/// `threads`. Local; allocates nothing.
template <class Body>
void visit_runs_of_thread(const Box& box, std::int64_t batch, bool all_channels, int thread,
                          int threads, const Body& body) {
  if (box.empty()) return;
  const std::int64_t depth = box.extent(kD), height = box.extent(kH);
  const std::int64_t pixels = all_channels ? 1 : box.extent(kW);
  const std::int64_t length = box.extent(kC) * (all_channels ? box.extent(kW) : 1);
  for (std::int64_t n = 0; n < batch; ++n)
    for (std::int64_t d = 0; d < depth; ++d) {
      const std::int64_t before = (n + box.lo[kD] + d + box.lo[kH]) % threads;
      for (std::int64_t h = (thread - before + threads) % threads; h < height; h += threads) {
        Run run{n,          box.lo[kD] + d, box.lo[kH] + h,
                box.lo[kW], length,         ((n * depth + d) * height + h) * pixels * length};
        for (std::int64_t pixel = 0; pixel < pixels; ++pixel, ++run.w, run.at += length) body(run);
      }
    }
}

/// True when `box` has all channels of each view: its rows are then contiguous in all of them.
template <class... Views>
bool has_all_channels(const Box& box, const Views&... views) {
  return ((box.extent(kC) == views.span.extent(kC)) && ...);
}

}  // namespace halomesh
