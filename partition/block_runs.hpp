// Where the elements of a block lie in a dense sample: as few contiguous runs.
// Pure geometry: knows nothing of data, of files or of messages.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "box.hpp"

namespace halomesh {

/// The longest runs that are contiguous both in a sample (d,h,w,c order) and in a box of it, in
/// bytes. In the order of the sample they make up the block, dense and in the same order.
class BlockRuns {
 public:
  /// No runs.
  BlockRuns() = default;
  /// `box` is within the sample; it may be empty.
  BlockRuns(const Shape& sample, const Box& box, std::int64_t voxel_bytes) {
    if (box.empty()) return;
    // Axes d, h, w, c; the bytes of a voxel belong to the last.
    const std::array<std::int64_t, 4> all{sample.d, sample.h, sample.w, sample.c * voxel_bytes};
    std::array<std::int64_t, 4> lo{}, hi{};
    for (std::size_t i = 0; i < 4; ++i) {
      const std::int64_t unit = i == 3 ? voxel_bytes : 1;
      lo[i] = unit * box.lo[(i + 1) % 4];
      hi[i] = unit * box.hi[(i + 1) % 4];
    }
    std::size_t axis = 3;  // the run's: those after it are covered
    std::int64_t stride = 1;
    for (; axis > 0 && hi[axis] - lo[axis] == all[axis]; --axis) stride *= all[axis];
    period_ = all[axis] * stride;
    begin_ = lo[axis] * stride;
    end_ = hi[axis] * stride;
    // The axes before it, the last one fastest; where there are fewer than three, of extent 1.
    for (std::size_t i = 0; i < axis; ++i) {
      all_[3 - axis + i] = all[i];
      lo_[3 - axis + i] = lo[i];
      hi_[3 - axis + i] = hi[i];
    }
  }

  /// Calls visit(a, b) for each non-empty [a, b) that bytes [lo, hi) of the sample have of a run.
  template <class Visit>
  void each(std::int64_t lo, std::int64_t hi, const Visit& visit) const {
    if (lo >= hi || period_ == 0) return;
    const std::int64_t plane = all_[1] * all_[2];
    const std::int64_t last = std::min((hi - 1) / period_ + 1, hi_[0] * plane);
    std::int64_t k = std::max(lo / period_, lo_[0] * plane);
    // Counted on, not divided anew: runs may be as short as a few voxels.
    std::int64_t y = k / all_[2] % all_[1], z = k % all_[2];
    for (; k < last; ++k) {
      const std::int64_t a = std::max(lo, k * period_ + begin_);
      const std::int64_t b = std::min(hi, k * period_ + end_);
      if (y >= lo_[1] && y < hi_[1] && z >= lo_[2] && z < hi_[2] && a < b) visit(a, b);
      if (++z < all_[2]) continue;
      z = 0;
      if (++y == all_[1]) y = 0;
    }
  }

 private:
  // Run number k is [begin, end) within the k-th period, if k's place on the outer axes is in the
  // box. No period: nothing.
  std::int64_t period_ = 0, begin_ = 0, end_ = 0;
  std::array<std::int64_t, 3> all_{1, 1, 1}, lo_{0, 0, 0}, hi_{1, 1, 1};
};

}  // namespace halomesh
