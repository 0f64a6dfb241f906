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

/// The place to compute sample n of `box`; finish_dense() then brings it into the view.
inline std::byte* write_dense(AnyView view, std::int64_t n, const Box& box,
                              const ScratchBuffer<std::byte>& scratch) {
  return view.is_dense(box) ? view.begin_of(n, box) : scratch.data();
}
inline void finish_dense(AnyView view, std::int64_t n, const Box& box,
                         const ScratchBuffer<std::byte>& scratch) {
  if (!view.is_dense(box)) unpack_copy(scratch.data(), box, sample_of(view, n));
}

/// Brings a box of bf16 into a view of one sample of fp32.
inline void unpack_widened(const ScratchBuffer<std::byte>& scratch, const Box& box, AnyView view) {
  const AnyConstView dense(scratch.data(), DataType::kBfloat16, box, 1);
  const auto from = dense.as<Bfloat16>();
  const View to = view.as<float>();
  visit_runs(box, 1, has_all_channels(box, to), [&](const Run& run) {
    const Bfloat16* const x = run.begin_in(from, box);
    float* const y = run.begin_in(to, box);
    for (std::int64_t i = 0; i < run.length; ++i) y[i] = static_cast<float>(x[i]);
  });
}

}  // namespace halomesh
