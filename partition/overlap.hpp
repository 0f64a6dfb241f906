// The order in which a part computes its output so that computation hides the exchange: chunks of
// D-planes whose inputs are all owned come first.
#pragma once

#include <functional>
#include <vector>

#include "box.hpp"

namespace halomesh {

/// A block of D-planes of a layer's output and whether it needs data of other parts.
struct Chunk {
  Box dst;
  bool needs_remote = false;
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

/// Splits `dst` along D into the planes that need only owned data (one chunk, first) and those
/// before and after them. `is_local(box)` says whether everything that a dst box needs is owned.
/// The chunks are disjoint and cover `dst`; at most three; none when dst is empty.
std::vector<Chunk> order_chunks(const Box& dst, const std::function<bool(const Box&)>& is_local);

}  // namespace halomesh
