// SPDX-License-Identifier: Apache-2.0
// Types shared by the HDF5 modules: element types, extents, slabs and layouts of datasets.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

namespace halomesh {

/// The type of an element or attribute in a file.
enum class Hdf5Type { kFloat, kDouble, kInt16, kInt64, kUint32, kUint64 };

template <class T>
constexpr Hdf5Type hdf5_type() {
  if constexpr (std::is_same_v<T, float>) return Hdf5Type::kFloat;
  if constexpr (std::is_same_v<T, double>) return Hdf5Type::kDouble;
  if constexpr (std::is_same_v<T, std::int16_t>) return Hdf5Type::kInt16;
  if constexpr (std::is_same_v<T, std::int64_t>) return Hdf5Type::kInt64;
  if constexpr (std::is_same_v<T, std::uint32_t>) return Hdf5Type::kUint32;
  if constexpr (std::is_same_v<T, std::uint64_t>) return Hdf5Type::kUint64;
}

/// Extents of a dataset, slowest axis first.
using Extents = std::vector<std::int64_t>;

/// A block of a dataset: `count[i]` elements from `offset[i]` along axis i.
struct Slab {
  Extents offset, count;
  static Slab whole(const Extents& extents) { return {Extents(extents.size(), 0), extents}; }
};

/// The storage layout of a dataset. By default contiguous.
struct DatasetLayout {
  Extents chunk;          ///< empty: no chunks; required by what follows
  bool checksum = false;  ///< Fletcher-32 for each chunk, verified by each read
  bool shuffle = false;   ///< groups bytes of equal significance before gzip
  int gzip = 0;           ///< 1..9; 0: not compressed
};

}  // namespace halomesh
