// SPDX-License-Identifier: Apache-2.0
// Blocks of crops: see crop_reader.hpp.
#include "runtime/data/crop_reader.hpp"

#include <algorithm>
#include <cstring>

#include "error.hpp"
#include "partition/samples/sliding_windows.hpp"
#include "src/nn/loss.hpp"

namespace halomesh {
namespace {

/// The part of a crop's box that lies in the sample, in coordinates of the sample.
Box inside(const CropReader::Crop& crop, const Box& box) {
  const Box wanted = shifted(box, crop.origin);
  Box limits = Box::whole(crop.shape);
  limits.lo[kC] = wanted.lo[kC];
  limits.hi[kC] = wanted.hi[kC];
  return intersect(wanted, limits);
}

}  // namespace

bool CropReader::is_inside(const Crop& crop, const Box& box) {
  return box.empty() || inside(crop, box) == shifted(box, crop.origin);
}

void CropReader::pad(AnyView block) const {
  if (block.type == DataType::kUint8) {
    std::memset(block.data, kOutsideLabel, static_cast<std::size_t>(block.sample_bytes()));
    return;
  }
  require(block.type == DataType::kFloat32, "a crop of counts reaches beyond a sample",
          "use crops within the samples");
  auto* const values = block.as<float>().data;
  std::fill(values, values + block.span.volume(), padding_);
}

CropReader::Source CropReader::source_of(const Crop& crop, const AnyView& block,
                                         std::vector<std::byte>& memory) {
  if (block.span.empty()) return {{}, {}, true};
  const Box box = inside(crop, block.span);
  if (is_inside(crop, block.span)) return {box, {block.data, block.type, box, 1}, true};
  memory.resize(static_cast<std::size_t>(box.volume() * size_of(block.type)));
  return {box, {memory.data(), block.type, box, 1}, false};
}

/// Fills a block that extends beyond the sample.
void CropReader::place(const Source& source, const Crop& crop, const AnyView& block) const {
  if (source.is_whole) return;
  pad(block);
  if (source.box.empty()) return;
  const Box box = shifted_back(source.box, crop.origin);
  const auto row_bytes =
      static_cast<std::size_t>(source.box.extent(kW) * source.box.extent(kC) * size_of(block.type));
  const std::byte* from = source.view.data;
  for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
    for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h) {
      Box row = box;
      row.lo[kD] = d;
      row.lo[kH] = h;
      std::memcpy(block.begin_of(0, row), from, row_bytes);
      from += row_bytes;
    }
}

void CropReader::read(const Crop& crop, AnyView dst, AnyView targets) {
  const Source values = source_of(crop, dst, values_);
  const Source labels = source_of(crop, targets, labels_);
  reader_->read(crop.sample, values.view, labels.view);
  place(values, crop, dst);
  place(labels, crop, targets);
}

void CropReader::read_slabs(const Crop& crop, const Box& box, const SampleReader::SlabSink& sink,
                            AnyView targets) {
  const Source labels = source_of(crop, targets, labels_);
  const Box source = inside(crop, box);
  if (source.empty()) {
    reader_->read(crop.sample, {}, labels.view);
  } else {
    reader_->read_slabs(
        crop.sample, source,
        [&](AnyConstView slab) {
          slab.span = shifted_back(slab.span, crop.origin);
          sink(slab);
        },
        labels.view);
  }
  place(labels, crop, targets);
}

}  // namespace halomesh
