// SPDX-License-Identifier: Apache-2.0
// Blocks of one tensor in an HDF5 file: see hdf5_field.hpp.
#include "runtime/data/hdf5_field.hpp"

#include <algorithm>

#include "error.hpp"

namespace halomesh {

/// The block `box` of a sample in coordinates of the dataset.
Slab Hdf5Field::slab_of(std::int64_t index, const Box& box) const {
  Slab slab;
  const auto add = [&](std::int64_t offset, std::int64_t count) {
    slab.offset.push_back(offset);
    slab.count.push_back(count);
  };
  const std::int64_t n = kind_.cuts;
  const bool cut = !kind_.stacked && samples_ > 1;  // a box of a universe
  if (kind_.stacked) add(index, 1);
  add(box.lo[kD] + (cut ? index / n / n * shape_.d : 0), box.extent(kD));
  if (!kind_.is_flat) add(box.lo[kH] + (cut ? index / n % n * shape_.h : 0), box.extent(kH));
  add(box.lo[kW] + (cut ? index % n * shape_.w : 0), box.extent(kW));
  if (&tensor_ == &kind_.voxels && kind_.has_channels) add(box.lo[kC], box.extent(kC));
  return slab;
}

/// The values that the stored elements of a slab stand for, checked.
std::span<const std::byte> Hdf5Field::values_of(const Box& slab, const std::string& where) {
  std::span<std::byte> values = stored_;
  if (!format_.is_stored_as(blocks_.type())) {
    values_.resize(static_cast<std::size_t>(slab.volume() * size_of(format_.type())));
    values = values_;
  }
  check_values(format_.convert(blocks_.type(), stored_, slab.lo[kC], slab.extent(kC), values),
               format_, slab, where);
  return values;
}

void read_numbers(Hdf5File& file, const std::string& name, const Slab& slab,
                  std::vector<float>& numbers) {
  const auto type = file.type(name);
  require(
      type.has_value(),
      text("{}: {} holds {}, expected numbers", file.path().c_str(), name, file.type_name(name)),
      "write integers, float32 or float64");
  std::size_t count = 1;
  for (const std::int64_t extent : slab.count) count *= static_cast<std::size_t>(extent);
  numbers.resize(count);
  with_type(*type, [&](auto element) {
    std::vector<decltype(element)> stored(count);
    file.read<decltype(element)>(name, slab, stored);
    std::transform(stored.begin(), stored.end(), numbers.begin(),
                   [](auto x) { return static_cast<float>(x); });
  });
}

void Hdf5Field::check_sum(std::int64_t index, std::uint32_t found, const std::string& where) {
  std::array<std::uint32_t, 1> stored{};
  file_.read<std::uint32_t>(tensor_.checksums, {{index}, {1}}, stored);
  require(
      stored[0] == found,
      text("{}: checksum of the {}: expected {:#x}, found {:#x}", where,
           format_.kind() == SampleFormat::Kind::kLabels ? "labels" : "voxels", stored[0], found),
      "the archive is damaged: copy it or convert again");
}

}  // namespace halomesh
