// SPDX-License-Identifier: Apache-2.0
// Blocks of one tensor of the samples in one HDF5 file: of their images, or of their labels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "box.hpp"
#include "runtime/data/hdf5_kind.hpp"
#include "runtime/data/sample_checks.hpp"
#include "runtime/data/sample_format.hpp"
#include "runtime/hdf5/hdf5_blocks.hpp"
#include "runtime/hdf5/hdf5_file.hpp"
#include "runtime/posix/crc32c.hpp"

namespace halomesh {

/// Reads numbers of any type of Hdf5Type as fp32. Throws Error if the dataset holds anything else.
void read_numbers(Hdf5File& file, const std::string& name, const Slab& slab,
                  std::vector<float>& numbers);

/// Reads the dataset slab by slab, checks and converts its values. For one thread.
class Hdf5Field {
 public:
  /// `shape` is the tensor's; labels have one channel. `samples` is their number in the file. All
  /// references must outlive this object.
  Hdf5Field(Hdf5File& file, const Hdf5Kind& kind, const Hdf5Tensor& tensor, const Shape& shape,
            const SampleFormat& format, std::int64_t samples)
      : file_(file),
        kind_(kind),
        tensor_(tensor),
        shape_(shape),
        format_(format),
        samples_(samples),
        blocks_(file, tensor.name) {}

  /// Reads a block of sample number `index` of the file in slabs of whole planes: take(slab, its
  /// values, in the format's type). Throws Error starting with `where` for an invalid value, or if
  /// the checksum of a whole sample is wrong.
  template <class Take>
  void each_slab(std::int64_t index, const Box& block, const std::string& where, const Take& take) {
    if (block.empty()) return;
    const bool whole = block == Box::whole(shape_);
    const std::size_t axis = kind_.stacked ? 1 : 0;
    const std::int64_t origin = slab_of(index, block).offset[axis];
    const std::int64_t planes = blocks_.chunk_extent(axis);
    std::uint32_t checksum = 0;
    for (std::int64_t d = block.lo[kD]; d < block.hi[kD];) {
      // A slab ends at the next chunk's first plane in the file, so that no chunk is read twice.
      const std::int64_t left = planes - (origin + d - block.lo[kD]) % planes;
      const Box slab = with_d_range(block, d, std::min(d + left, block.hi[kD]));
      stored_.resize(static_cast<std::size_t>(slab.volume() * size_of(blocks_.type())));
      blocks_.read(slab_of(index, slab), stored_);
      if (whole) checksum = crc32c(stored_, checksum);
      take(slab, values_of(slab, where));
      d = slab.hi[kD];
    }
    if (whole && !tensor_.checksums.empty()) check_sum(index, checksum, where);
  }

 private:
  Slab slab_of(std::int64_t index, const Box& box) const;
  std::span<const std::byte> values_of(const Box& slab, const std::string& where);
  void check_sum(std::int64_t index, std::uint32_t found, const std::string& where);

  Hdf5File& file_;
  const Hdf5Kind& kind_;
  const Hdf5Tensor& tensor_;
  Shape shape_;
  const SampleFormat& format_;
  std::int64_t samples_;
  Hdf5Blocks blocks_;
  std::vector<std::byte> stored_, values_;  // one slab; from operator new, so aligned
};

}  // namespace halomesh
