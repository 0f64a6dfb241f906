// SPDX-License-Identifier: Apache-2.0
// Moves boxes between strided tensor views and dense buffers.
#pragma once

#include <cstdint>
#include <span>

#include "src/nn/tensor.hpp"

namespace halomesh {

/// Copies `box` of every sample of `src` to `dense` (n,d,h,w,c order of the box). Returns the
/// number of elements written: batch * box.volume().
std::int64_t pack(ConstView src, const Box& box, float* dense);

/// Copies `dense` (as pack() wrote it) into `box` of every sample of `dst`.
std::int64_t unpack_copy(const float* dense, const Box& box, View dst);

/// Adds `dense` (as pack() wrote it) to `box` of every sample of `dst`.
std::int64_t unpack_add(const float* dense, const Box& box, View dst);

/// Sets `box` of every sample of `dst` to `value`.
void fill(View dst, const Box& box, float value);

/// Versions for any element type; `dense` holds elements of that type, aligned for it. They return
/// the number of elements, too. Sums of bf16 are made in fp32 and rounded once; counts (int16) are
/// copied but never added, as they stand for logarithms.
std::int64_t pack(AnyConstView src, const Box& box, std::byte* dense);
std::int64_t unpack_copy(const std::byte* dense, const Box& box, AnyView dst);
std::int64_t unpack_add(const std::byte* dense, const Box& box, AnyView dst);
void clear(AnyView dst, const Box& box);

/// A box of a tensor and the memory of a dense copy of it. `Byte` is std::byte or const std::byte.
template <class Byte>
struct DenseBox {
  Box box;
  Byte* dense = nullptr;
};

/// Versions for several boxes of one tensor. The threads share all boxes together, even if each is
/// too small for that. Boxes given to unpack_add() may overlap: an element receives its sums in the
/// order of the boxes, with any number of threads.
void pack(AnyConstView src, std::span<const DenseBox<std::byte>> boxes);
void unpack_copy(std::span<const DenseBox<const std::byte>> boxes, AnyView dst);
void unpack_add(std::span<const DenseBox<const std::byte>> boxes, AnyView dst);

/// Adds `box` of every sample of `src` to that box of `dst`; both contain it, and have one type
/// other than int16. Returns the number of elements.
std::int64_t add_box(AnyConstView src, const Box& box, AnyView dst);

}  // namespace halomesh
