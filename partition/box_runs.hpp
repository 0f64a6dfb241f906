// SPDX-License-Identifier: Apache-2.0
// Where the elements of a box lie in a dense array, as few contiguous runs. Pure geometry. This is
// the serial walk over a sub-box. visit_runs() distributes rows over threads and gives coordinates,
// for views that span different boxes; transform() steps along permuted and mirrored axes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "box.hpp"

namespace halomesh {

/// The longest runs that are contiguous both in a dense array and in a box of it, of up to five
/// axes. Taken in the order of the array, they make up the box in its own dense order.
class BoxRuns {
 public:
  /// One axis of an array, and the range [lo, hi) of the box along it.
  struct AxisCut {
    std::int64_t extent = 1, lo = 0, hi = 1;
  };
  /// No runs.
  BoxRuns() = default;
  /// Axes from the slowest to the fastest; offsets are in elements. The box may be empty.
  explicit BoxRuns(std::span<const AxisCut> axes) {
    for (const AxisCut& axis : axes)
      if (axis.lo >= axis.hi) return;
    length_ = 1;
    for (std::size_t i = axes.size(); i-- > 0;) {
      const AxisCut& axis = axes[i];
      if (count_ == 0 && length_ == period_) {  // the box covers all faster axes
        begin_ = axis.lo * period_;
        length_ = (axis.hi - axis.lo) * period_;
        period_ *= axis.extent;
      } else {
        outer_[count_++] = axis;
      }
    }
  }
  /// `box` of a sample in d,h,w,c order; offsets are in bytes when a voxel has `voxel_bytes`.
  BoxRuns(const Shape& sample, const Box& box, std::int64_t voxel_bytes = 1)
      : BoxRuns(std::array{
            AxisCut{sample.d, box.lo[kD], box.hi[kD]}, AxisCut{sample.h, box.lo[kH], box.hi[kH]},
            AxisCut{sample.w, box.lo[kW], box.hi[kW]},
            AxisCut{sample.c * voxel_bytes, box.lo[kC] * voxel_bytes, box.hi[kC] * voxel_bytes}}) {}

  /// Calls visit(a, b, at) for each non-empty [a, b) that offsets [lo, hi) of the array share with
  /// a run, in order; `at` is the offset of `a` in the dense box.
  template <class Visit>
  void each(std::int64_t lo, std::int64_t hi, const Visit& visit) const {
    if (lo >= hi || length_ == 0) return;
    for (Cursor run = first_from(lo); run.more && run.base + begin_ < hi; next(run)) {
      const std::int64_t begin = run.base + begin_;
      const std::int64_t a = std::max(lo, begin), b = std::min(hi, begin + length_);
      if (a < b) visit(a, b, run.at + a - begin);
    }
  }
  /// Calls visit(a, b, at) for the runs of the whole array.
  template <class Visit>
  void each(const Visit& visit) const {
    each(0, INT64_MAX, visit);
  }

 private:
  // A run: where its period begins in the array, where it lies in the dense box, and its position
  // along the outer axes.
  struct Cursor {
    std::int64_t base = 0, at = 0;
    std::array<std::int64_t, 4> place{};
    bool more = true;
  };

  void next(Cursor& run) const {
    run.at += length_;
    std::int64_t stride = period_;
    for (std::size_t i = 0; i < count_; ++i) {
      const AxisCut& along = outer_[i];
      run.base += stride;
      if (++run.place[i] < along.hi) return;
      run.place[i] = along.lo;
      run.base -= (along.hi - along.lo) * stride;
      stride *= along.extent;
    }
    run.more = false;
  }

  // The first run of the box whose period ends after `offset`.
  Cursor first_from(std::int64_t offset) const {
    Cursor run;
    std::int64_t period = offset / period_;
    std::size_t outside = count_;  // the slowest axis along which that period is not in the box
    bool beyond = count_ == 0 && period > 0;
    for (std::size_t i = 0; i < count_; ++i) {
      const bool slowest = i + 1 == count_;
      run.place[i] = slowest ? period : period % outer_[i].extent;
      period /= outer_[i].extent;
    }
    for (std::size_t i = count_; i-- > 0 && outside == count_;)
      if (run.place[i] < outer_[i].lo || run.place[i] >= outer_[i].hi) outside = i;
    if (outside < count_) {
      beyond = run.place[outside] >= outer_[outside].hi;
      for (std::size_t i = 0; i <= outside; ++i) run.place[i] = outer_[i].lo;
      // Behind the box along this axis: continue at its first position in the next one along the
      // slower axes.
      for (std::size_t i = outside + 1; beyond && i < count_; ++i) {
        beyond = ++run.place[i] >= outer_[i].hi;
        if (beyond) run.place[i] = outer_[i].lo;
      }
    }
    run.more = !beyond;
    for (std::size_t i = count_; i-- > 0;) {
      run.base = run.base * outer_[i].extent + run.place[i];
      run.at = run.at * (outer_[i].hi - outer_[i].lo) + run.place[i] - outer_[i].lo;
    }
    run.base *= period_;
    run.at *= length_;
    return run;
  }

  // A run is [begin, begin + length) within a period of the array. A length of 0 means no runs.
  std::int64_t period_ = 1, begin_ = 0, length_ = 0;
  std::array<AxisCut, 4> outer_{};  // from the fastest to the slowest
  std::size_t count_ = 0;
};

}  // namespace halomesh
