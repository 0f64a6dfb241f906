// SPDX-License-Identifier: Apache-2.0
// The code that all readers of samples share: see dataset.hpp.
#include "runtime/data/dataset.hpp"

#include <algorithm>
#include <vector>

#include "error.hpp"
#include "runtime/data/dataset_files.hpp"

namespace halomesh {

void copy_scalars(std::span<const float> all, AnyView targets) {
  const Box& box = targets.span;
  if (box.empty()) return;
  std::copy(all.begin() + box.lo[kC], all.begin() + box.hi[kC], targets.as<float>().data);
}

void SampleReader::read_slabs(std::int64_t sample, const Box& box, const SlabSink& sink,
                              AnyView targets) {
  const std::vector<Box> all = slabs(box, type());
  if (all.empty()) {
    read(sample, {}, targets);
    return;
  }
  AlignedBuffer<std::byte> values(all.front().volume() * size_of(type()));
  for (const Box& slab : all) {
    const AnyView view{values.data(), type(), slab, 1};
    read(sample, view, slab == all.front() ? targets : AnyView());
    sink(view);
  }
}

void SampleReader::stream(std::int64_t sample, const VoxelSink& /*sink*/, AnyView /*targets*/) {
  throw Error(fmt::format("sample {} is not stored in a file and cannot be staged", sample));
}

void SampleReader::stream_labels(std::int64_t sample, const VoxelSink& /*sink*/) {
  throw Error(fmt::format("sample {} has no labels in a file and cannot be staged", sample));
}

const DatasetFiles& Dataset::files() const {
  static const DatasetFiles kNone({}, {});
  return kNone;
}

}  // namespace halomesh
