// SPDX-License-Identifier: Apache-2.0
// See hdf5_blocks.hpp.
#include "runtime/hdf5/hdf5_blocks.hpp"

#include <algorithm>
#include <utility>

#include "error.hpp"
#include "runtime/posix/read_counts.hpp"

namespace halomesh {
namespace {

/// The number of planes to read at a time from a dataset without chunks.
constexpr std::int64_t kContiguousPlanes = 8;

std::int64_t volume_of(const Extents& extents) {
  std::int64_t volume = 1;
  for (const std::int64_t extent : extents) volume *= extent;
  return volume;
}

/// The memory of a dense array from the first element of a block.
template <class Byte>
struct Region {
  Byte* data;
  Extents extents;  // the array's extents
  std::int64_t element_bytes;

  Region(Byte* array, Extents of_array, const Extents& start, std::int64_t bytes)
      : data(array), extents(std::move(of_array)), element_bytes(bytes) {
    for (std::size_t a = 0; a < start.size(); ++a) data += start[a] * stride(a);
  }
  /// The distance of neighbours along an axis, in bytes.
  std::int64_t stride(std::size_t axis) const {
    std::int64_t stride = element_bytes;
    for (std::size_t a = axis + 1; a < extents.size(); ++a) stride *= extents[a];
    return stride;
  }
};

/// Copies `count` elements along each axis, in the longest runs that are contiguous on both sides.
void copy(const Region<const std::byte>& src, const Region<std::byte>& dst, const Extents& count) {
  // The first axes are walked; the axes after them form one run.
  std::size_t runs = count.size() - 1;
  while (runs > 0 && count[runs] == src.extents[runs] && count[runs] == dst.extents[runs]) --runs;
  std::int64_t run = src.element_bytes;
  for (std::size_t a = runs; a < count.size(); ++a) run *= count[a];
  const auto walk = [&](const auto& self, std::size_t axis, const std::byte* from,
                        std::byte* to) -> void {
    if (axis == runs) {
      std::copy_n(from, run, to);
      return;
    }
    for (std::int64_t i = 0; i < count[axis]; ++i)
      self(self, axis + 1, from + i * src.stride(axis), to + i * dst.stride(axis));
  };
  walk(walk, 0, src.data, dst.data);
}

Hdf5Type type_in(Hdf5File& file, const std::string& name) {
  const auto type = file.type(name);
  require(type.has_value(), text("{}: {} does not hold numbers", file.path().c_str(), name),
          "keep only files of samples in the directory");
  return *type;
}

}  // namespace

Hdf5Blocks::Hdf5Blocks(Hdf5File& file, std::string name)
    : file_(file),
      name_(std::move(name)),
      extents_(file.extents(name_)),
      type_(type_in(file, name_)),
      layout_(file.layout(name_)) {
  // A damaged file may claim chunks larger than the dataset; these are left to the HDF5 library.
  is_contiguous_ = layout_ && layout_->chunk.empty();
  if (layout_ && (layout_->chunk.empty() || volume_of(layout_->chunk) > volume_of(extents_)))
    layout_.reset();
  if (layout_) chunk_.resize(static_cast<std::size_t>(size_of(type_) * volume_of(layout_->chunk)));
}

std::int64_t Hdf5Blocks::chunk_extent(std::size_t axis) const {
  if (is_contiguous_) return std::min<std::int64_t>(kContiguousPlanes, extents_[axis]);
  return layout_ ? layout_->chunk[axis] : extents_[axis];
}

void Hdf5Blocks::read(const Slab& block, std::span<std::byte> values) {
  const std::size_t axes = extents_.size();
  if (!layout_ || block.count.size() != axes || volume_of(block.count) == 0) {
    const CountedRead read;
    file_.read(name_, block, type_, values);
    // An estimate: the library does not report what it reads.
    if (const std::int64_t all = volume_of(extents_); all > 0)
      read.count(static_cast<std::int64_t>(static_cast<double>(file_.stored_bytes(name_)) *
                                           static_cast<double>(volume_of(block.count)) /
                                           static_cast<double>(all)));
    return;
  }
  Extents first(axes), end(axes), at(axes);
  for (std::size_t a = 0; a < axes; ++a) {
    require(block.offset[a] >= 0 && block.offset[a] + block.count[a] <= extents_[a],
            text("{}: {}: the block exceeds the dataset", file_.path().c_str(), name_));
    first[a] = at[a] = block.offset[a] / layout_->chunk[a] * layout_->chunk[a];
    end[a] = block.offset[a] + block.count[a];
  }
  for (std::size_t axis = axes; axis > 0;) {  // counts like an odometer, the last axis fastest
    read_chunk(at, block, values);
    for (axis = axes; axis > 0; --axis) {
      at[axis - 1] += layout_->chunk[axis - 1];
      if (at[axis - 1] < end[axis - 1]) break;
      at[axis - 1] = first[axis - 1];
    }
  }
}

void Hdf5Blocks::read_chunk(const Extents& offset, const Slab& block, std::span<std::byte> values) {
  const Extents& chunk = layout_->chunk;
  const CountedRead read;
  const std::uint32_t skipped =
      file_.read_chunk(name_, offset, largest_stored(chunk_.size()), stored_);
  read.count(static_cast<std::int64_t>(stored_.size()));
  if (const char* problem = decoder_.decode(*layout_, skipped, stored_, chunk_, size_of(type_))) {
    std::string where;
    for (const std::int64_t o : offset) where += fmt::format("{}{}", where.empty() ? "" : ",", o);
    throw Error(
        fmt::format("{}: {}: chunk at ({}): {}", file_.path().c_str(), name_, where, problem),
        "the file is damaged: copy or make it again");
  }
  Extents from(offset.size()), to(offset.size()), count(offset.size());
  for (std::size_t a = 0; a < offset.size(); ++a) {
    const std::int64_t lo = std::max(offset[a], block.offset[a]);
    from[a] = lo - offset[a];
    to[a] = lo - block.offset[a];
    count[a] = std::min(offset[a] + chunk[a], block.offset[a] + block.count[a]) - lo;
  }
  copy({chunk_.data(), chunk, from, size_of(type_)},
       {values.data(), block.count, to, size_of(type_)}, count);
}

}  // namespace halomesh
