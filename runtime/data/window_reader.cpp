// SPDX-License-Identifier: Apache-2.0
// See window_reader.hpp.
#include "runtime/data/window_reader.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "error.hpp"
#include "partition/samples/sliding_windows.hpp"

namespace halomesh {

WindowReader::WindowReader(std::unique_ptr<SampleReader> reader, const Shape& shape,
                           std::vector<Spatial> origins, float padding)
    : reader_(std::move(reader)), shape_(shape), origins_(std::move(origins)), padding_(padding) {}

WindowReader::Source WindowReader::source_of(const AnyView& block, const Spatial& origin,
                                             const Shape& shape,
                                             std::vector<std::byte>& memory) const {
  if (block.span.empty()) return {{}, {}, true};
  const Box wanted = shifted(block.span, origin);
  Box limits = Box::whole(shape);
  limits.lo[kC] = wanted.lo[kC];
  limits.hi[kC] = wanted.hi[kC];
  const Box box = intersect(wanted, limits);
  if (box == wanted) return {box, {block.data, block.type, box, 1}, true};
  require(block.type != DataType::kInt16, "a window of counts reaches beyond a sample",
          "use windows within the sample");
  memory.resize(static_cast<std::size_t>(box.volume() * size_of(block.type)));
  return {box, {memory.data(), block.type, box, 1}, false};
}

void WindowReader::place(const Source& source, const Spatial& origin, const AnyView& block) {
  const Box inside = shifted_back(source.box, origin);
  const auto row_bytes =
      static_cast<std::size_t>(source.box.extent(kW) * source.box.extent(kC) * size_of(block.type));
  const std::byte* from = source.view.data;
  for (std::int64_t d = inside.lo[kD]; d < inside.hi[kD]; ++d)
    for (std::int64_t h = inside.lo[kH]; h < inside.hi[kH]; ++h) {
      Box row = inside;
      row.lo[kD] = d;
      row.lo[kH] = h;
      std::memcpy(block.begin_of(0, row), from, row_bytes);
      from += row_bytes;
    }
}

void WindowReader::read(std::int64_t sample, AnyView dst, AnyView targets) {
  const std::int64_t count = std::ssize(origins_);
  const Spatial& origin = origins_[static_cast<std::size_t>(sample % count)];
  const Source values = source_of(dst, origin, shape_, values_);
  const Shape one_label{1, shape_.d, shape_.h, shape_.w};
  const Source labels = source_of(targets, origin, one_label, labels_);
  reader_->read(sample / count, values.view, labels.view);
  if (!values.is_whole) {
    auto* const all = dst.as<float>().data;
    std::fill(all, all + dst.span.volume(), padding_);
    if (!values.box.empty()) place(values, origin, dst);
  }
  if (!labels.is_whole) {
    std::memset(targets.data, 0, static_cast<std::size_t>(targets.sample_bytes()));
    if (!labels.box.empty()) place(labels, origin, targets);
  }
}

}  // namespace halomesh
