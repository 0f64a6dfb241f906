// SPDX-License-Identifier: Apache-2.0
// Finds the boxes that intersect a given one, without testing all of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "box.hpp"

namespace halomesh {

/// An index of boxes, which must outlive it, sorted along the two axes on which they have the most
/// distinct starts.
class BoxIndex {
 public:
  explicit BoxIndex(const std::vector<Box>& boxes) : boxes_(boxes) {
    std::array<std::pair<std::size_t, std::size_t>, 4> starts;  // number of starts, and the axis
    for (std::size_t a = 0; a < starts.size(); ++a) {
      std::set<std::int64_t> begins;
      for (const Box& box : boxes) begins.insert(box.lo[a]);
      starts[a] = {begins.size(), a};
    }
    std::sort(starts.rbegin(), starts.rend());
    first_.number = starts[0].second;
    second_.number = starts[1].second;
    for (Axis* axis : {&first_, &second_})
      for (const Box& box : boxes)
        axis->longest = std::max(axis->longest, box.extent(axis->number));
    order_.resize(boxes.size());
    std::iota(order_.begin(), order_.end(), 0);
    const auto begin = [&](std::size_t i) {
      return std::tuple(boxes[i].lo[first_.number], boxes[i].lo[second_.number], i);
    };
    std::sort(order_.begin(), order_.end(),
              [&](std::size_t a, std::size_t b) { return begin(a) < begin(b); });
  }

  /// Numbers of the boxes that have an element in common with `box`, ascending.
  std::vector<std::size_t> meeting(const Box& box) const {
    std::vector<std::size_t> found;
    auto i = order_.begin();
    const auto end = order_.end();
    for (i = from(i, end, first_, box.lo[first_.number] - first_.longest + 1);
         i != end && boxes_[*i].lo[first_.number] < box.hi[first_.number];) {
      const auto next = from(i, end, first_, boxes_[*i].lo[first_.number] + 1);
      for (i = from(i, next, second_, box.lo[second_.number] - second_.longest + 1);
           i != next && boxes_[*i].lo[second_.number] < box.hi[second_.number]; ++i)
        if (meet(boxes_[*i], box)) found.push_back(*i);
      i = next;
    }
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  struct Axis {
    std::size_t number = kD;
    std::int64_t longest = 0;
  };
  using Iterator = std::vector<std::size_t>::const_iterator;

  /// The first box of a sorted range that starts at `lo` or later.
  Iterator from(Iterator begin, Iterator end, const Axis& axis, std::int64_t lo) const {
    return std::partition_point(begin, end,
                                [&](std::size_t i) { return boxes_[i].lo[axis.number] < lo; });
  }

  static bool meet(const Box& a, const Box& b) {
    for (const std::size_t axis : {kH, kW, kD, kC})
      if (std::max(a.lo[axis], b.lo[axis]) >= std::min(a.hi[axis], b.hi[axis])) return false;
    return true;
  }

  const std::vector<Box>& boxes_;
  Axis first_, second_;
  std::vector<std::size_t> order_;
};

}  // namespace halomesh
