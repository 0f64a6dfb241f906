// SPDX-License-Identifier: Apache-2.0
// A box of one sample as contiguous memory for library kernels, in place where possible.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/nn/pack.hpp"
#include "src/nn/runs.hpp"
#include "src/nn/scratch.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// Sample n of a view.
template <class Byte>
TypedView<Byte> sample_of(const TypedView<Byte>& view, std::int64_t n) {
  return {view.data + n * view.sample_bytes(), view.type, view.span, 1};
}

/// The bytes of a dense copy of `box`; 0 if the box is dense in a view that spans `span`.
inline std::int64_t dense_bytes(const Box& span, const Box& box, DataType type) {
  return AnyConstView(nullptr, type, span, 1).is_dense(box) ? 0 : box.volume() * size_of(type);
}

/// Sample n of `box`: in place, or packed into `scratch`.
inline const std::byte* read_dense(AnyConstView view, std::int64_t n, const Box& box,
                                   const ScratchBuffer<std::byte>& scratch) {
  if (view.is_dense(box)) return view.begin_of(n, box);
  pack(sample_of(view, n), box, scratch.data());
  return scratch.data();
}

/// The place to compute sample n of `box` in `type`; finish_dense() then brings it into the view,
/// of that type or of another.
inline std::byte* write_dense(AnyView view, DataType type, std::int64_t n, const Box& box,
                              const ScratchBuffer<std::byte>& scratch) {
  return view.type == type && view.is_dense(box) ? view.begin_of(n, box) : scratch.data();
}

/// Brings a dense box of From into a view of one sample of To.
template <class From, class To>
void unpack_converted(const std::byte* dense, const Box& box, AnyView view) {
  const AnyConstView all(dense, DataTypeOf<From>::kType, box, 1);
  const auto from = all.as<From>();
  const auto to = view.as<To>();
  visit_runs(box, 1, has_all_channels(box, to), [&](const Run& run) {
    const From* const x = run.begin_in(from, box);
    To* const y = run.begin_in(to, box);
    for (std::int64_t i = 0; i < run.length; ++i) y[i] = To(static_cast<float>(x[i]));
  });
}

inline void finish_dense(AnyView view, DataType type, std::int64_t n, const Box& box,
                         const ScratchBuffer<std::byte>& scratch) {
  if (view.type != type && type == DataType::kFloat32)
    unpack_converted<float, Bfloat16>(scratch.data(), box, sample_of(view, n));
  else if (view.type != type)
    unpack_converted<Bfloat16, float>(scratch.data(), box, sample_of(view, n));
  else if (!view.is_dense(box))
    unpack_copy(scratch.data(), box, sample_of(view, n));
}

}  // namespace halomesh
