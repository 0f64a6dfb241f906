// SPDX-License-Identifier: Apache-2.0
// Types shared by the HDF5 modules: element types, extents, slabs and layouts of datasets.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace halomesh {

/// The type of an element or attribute in a file.
enum class Hdf5Type {
  kFloat,
  kDouble,
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64
};

inline constexpr std::array kHdf5Types{
    Hdf5Type::kFloat,  Hdf5Type::kDouble, Hdf5Type::kInt8,   Hdf5Type::kUint8, Hdf5Type::kInt16,
    Hdf5Type::kUint16, Hdf5Type::kInt32,  Hdf5Type::kUint32, Hdf5Type::kInt64, Hdf5Type::kUint64};

template <class T>
constexpr Hdf5Type hdf5_type() {
  if constexpr (std::is_same_v<T, float>) return Hdf5Type::kFloat;
  if constexpr (std::is_same_v<T, double>) return Hdf5Type::kDouble;
  if constexpr (std::is_same_v<T, std::int8_t>) return Hdf5Type::kInt8;
  if constexpr (std::is_same_v<T, std::uint8_t>) return Hdf5Type::kUint8;
  if constexpr (std::is_same_v<T, std::int16_t>) return Hdf5Type::kInt16;
  if constexpr (std::is_same_v<T, std::uint16_t>) return Hdf5Type::kUint16;
  if constexpr (std::is_same_v<T, std::int32_t>) return Hdf5Type::kInt32;
  if constexpr (std::is_same_v<T, std::uint32_t>) return Hdf5Type::kUint32;
  if constexpr (std::is_same_v<T, std::int64_t>) return Hdf5Type::kInt64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return Hdf5Type::kUint64;
}

/// "float32", "int16", ...
constexpr const char* name_of(Hdf5Type type) {
  switch (type) {
    case Hdf5Type::kFloat:
      return "float32";
    case Hdf5Type::kDouble:
      return "float64";
    case Hdf5Type::kInt8:
      return "int8";
    case Hdf5Type::kUint8:
      return "uint8";
    case Hdf5Type::kInt16:
      return "int16";
    case Hdf5Type::kUint16:
      return "uint16";
    case Hdf5Type::kInt32:
      return "int32";
    case Hdf5Type::kUint32:
      return "uint32";
    case Hdf5Type::kInt64:
      return "int64";
    case Hdf5Type::kUint64:
      break;
  }
  return "uint64";
}

/// Bytes of one element.
constexpr std::int64_t size_of(Hdf5Type type) {
  switch (type) {
    case Hdf5Type::kInt8:
    case Hdf5Type::kUint8:
      return 1;
    case Hdf5Type::kInt16:
    case Hdf5Type::kUint16:
      return 2;
    case Hdf5Type::kFloat:
    case Hdf5Type::kInt32:
    case Hdf5Type::kUint32:
      return 4;
    case Hdf5Type::kDouble:
    case Hdf5Type::kInt64:
    case Hdf5Type::kUint64:
      break;
  }
  return 8;
}

/// Calls body(T{}) with the C++ type of the elements.
template <class Body>
auto with_type(Hdf5Type type, const Body& body) {
  switch (type) {
    case Hdf5Type::kFloat:
      return body(float{});
    case Hdf5Type::kDouble:
      return body(double{});
    case Hdf5Type::kInt8:
      return body(std::int8_t{});
    case Hdf5Type::kUint8:
      return body(std::uint8_t{});
    case Hdf5Type::kInt16:
      return body(std::int16_t{});
    case Hdf5Type::kUint16:
      return body(std::uint16_t{});
    case Hdf5Type::kInt32:
      return body(std::int32_t{});
    case Hdf5Type::kUint32:
      return body(std::uint32_t{});
    case Hdf5Type::kInt64:
      return body(std::int64_t{});
    case Hdf5Type::kUint64:
      break;
  }
  return body(std::uint64_t{});
}

/// Extents of a dataset, slowest axis first.
using Extents = std::vector<std::int64_t>;

/// A block of a dataset: `count[i]` elements from `offset[i]` along axis i.
struct Slab {
  Extents offset, count;
  static Slab whole(const Extents& extents) { return {Extents(extents.size(), 0), extents}; }
};

/// The storage layout of a dataset, by default contiguous.
struct DatasetLayout {
  Extents chunk;          ///< empty: not chunked; the members below require chunks
  bool checksum = false;  ///< Fletcher-32 for each chunk, verified by each read
  bool shuffle = false;   ///< groups bytes of equal significance before gzip
  int gzip = 0;           ///< 1..9; 0: not compressed
};

}  // namespace halomesh
