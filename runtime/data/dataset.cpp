// SPDX-License-Identifier: Apache-2.0
// Shared by all readers of samples: see dataset.hpp.
#include "runtime/data/dataset.hpp"

#include <algorithm>
#include <vector>

#include "error.hpp"

namespace halomesh {

void copy_scalars(std::span<const float> all, AnyView targets) {
  const Box& box = targets.span;
  if (box.empty()) return;
  std::copy(all.begin() + box.lo[kC], all.begin() + box.hi[kC], targets.as<float>().data);
}

void SampleReader::read_slabs(std::int64_t sample, const Box& box, const SlabSink& sink,
                              AnyView targets) {
  const std::vector<Box> all = slabs(box);
  if (all.empty()) {
    read(sample, {}, targets);
    return;
  }
  AlignedBuffer<std::int16_t> counts(all.front().volume());
  for (const Box& slab : all) {
    const TensorView<std::int16_t> view{counts.data(), slab, 1};
    read(sample, view, slab == all.front() ? targets : AnyView());
    sink(view);
  }
}

void SampleReader::stream(std::int64_t sample, const VoxelSink& /*sink*/, AnyView /*targets*/) {
  throw Error(fmt::format("sample {} is not stored in a file and cannot be staged", sample));
}

}  // namespace halomesh
