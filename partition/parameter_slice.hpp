// SPDX-License-Identifier: Apache-2.0
// The block of one parameter that a part holds: some outputs, and the same inputs of each. A value
// type.
#pragma once

#include <cstdint>

#include "box.hpp"
#include "partition/window.hpp"

namespace halomesh {

/// The rows `out` of a parameter and the block `in` of the inputs of each row. Layers cut in space
/// hold all of both, layers split over their input a block of `in`, layers cut by output channels
/// some rows. Empty when either is.
struct ParameterSlice {
  Range out;
  Box in;

  std::int64_t volume() const { return out.extent() * in.volume(); }
  bool empty() const { return volume() == 0; }
  friend bool operator==(const ParameterSlice&, const ParameterSlice&) = default;
  /// Whether the slices have an element in common.
  friend bool overlap(const ParameterSlice& a, const ParameterSlice& b) {
    return intersect(a.out, b.out).extent() > 0 && !intersect(a.in, b.in).empty();
  }
};

}  // namespace halomesh

/// Prints "outputs [lo,hi) x inputs".
template <>
struct fmt::formatter<halomesh::ParameterSlice> : halomesh::PlainFormatter {
  static auto format(const halomesh::ParameterSlice& slice, fmt::format_context& context) {
    return print(fmt::format("outputs [{},{}) x {}", slice.out.lo, slice.out.hi, slice.in),
                 context);
  }
};
