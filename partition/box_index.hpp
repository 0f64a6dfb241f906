// SPDX-License-Identifier: Apache-2.0
// Finds which of many boxes intersect a given one, without testing all of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "box.hpp"

namespace halomesh {

/// An index of boxes, which must outlive it, sorted along the axis on which they have the most
/// distinct starts.
class BoxIndex {
 public:
  explicit BoxIndex(const std::vector<Box>& boxes) : boxes_(boxes) {
    std::size_t places = 0;
    for (std::size_t a = 0; a < 4; ++a) {
      std::set<std::int64_t> begins;
      for (const Box& box : boxes) begins.insert(box.lo[a]);
      if (begins.size() <= places) continue;
      places = begins.size();
      axis_ = a;
    }
    order_.resize(boxes.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(boxes[a].lo[axis_], a) < std::pair(boxes[b].lo[axis_], b);
    });
    for (const Box& box : boxes) longest_ = std::max(longest_, box.extent(axis_));
  }

  /// Numbers of the boxes that have an element in common with `box`, ascending.
  std::vector<std::size_t> meeting(const Box& box) const {
    std::vector<std::size_t> found;
    const auto first = std::partition_point(order_.begin(), order_.end(), [&](std::size_t i) {
      return boxes_[i].lo[axis_] <= box.lo[axis_] - longest_;
    });
    for (auto i = first; i != order_.end() && boxes_[*i].lo[axis_] < box.hi[axis_]; ++i)
      if (meet(boxes_[*i], box)) found.push_back(*i);
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  static bool meet(const Box& a, const Box& b) {
    for (const std::size_t axis : {kH, kW, kD, kC})
      if (std::max(a.lo[axis], b.lo[axis]) >= std::min(a.hi[axis], b.hi[axis])) return false;
    return true;
  }

  const std::vector<Box>& boxes_;
  std::size_t axis_ = kD;
  std::int64_t longest_ = 0;
  std::vector<std::size_t> order_;
};

}  // namespace halomesh
