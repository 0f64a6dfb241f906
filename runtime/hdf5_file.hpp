// HDF5 files: groups, attributes and n-dimensional datasets, each library call checked.
// Owns every use of the HDF5 library; knows nothing of what the files mean, nor of ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/hdf5_filter.hpp"

namespace halomesh {

/// What an element or attribute is, as the file says it.
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

/// How a dataset lies in its file. All defaults: contiguous.
struct DatasetLayout {
  Extents chunk;          ///< empty: no chunks; required by what follows
  bool checksum = false;  ///< Fletcher-32 for each chunk, verified by each read
  bool shuffle = false;   ///< bytes of equal significance together, before gzip or `filter`
  int gzip = 0;           ///< 1..9; 0: not compressed
  /// Instead of gzip; passed over where it does not shorten a chunk, as gzip is.
  std::optional<Hdf5Filter> filter = {};
};

/// One open HDF5 file and its open datasets (move-only). Objects are named by absolute paths such
/// as "/parameters/conv1/weight". The library reports failures only through Error, which names
/// file, object and the library's own reason. The format of new files is that of HDF5 1.10, whose
/// metadata carry checksums.
///
/// Elements and attributes are of the types of Hdf5Type, attributes also std::string. Reading a
/// type other than the stored one is an error; byte order is converted. The library need not be
/// thread-safe: calls from several threads take turns.
class Hdf5File {
 public:
  /// Opens an existing file for reading.
  static Hdf5File open(const std::filesystem::path& path);
  /// Makes an empty file, replacing one of that name.
  static Hdf5File create(const std::filesystem::path& path);

  Hdf5File(Hdf5File&& other) noexcept;
  Hdf5File& operator=(Hdf5File&&) = delete;
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;
  /// Closes without a report: after writing, call close() first.
  ~Hdf5File();

  /// Writes out and closes. A file is whole only if this returns: a full disk may show only here.
  void close();
  const std::filesystem::path& path() const { return path_; }

  /// True when there is a group or dataset of this name.
  bool contains(const std::string& name) const;
  /// Makes a group and those above it, unless they are there.
  void create_group(const std::string& name);
  /// Names of the members of a group, sorted.
  std::vector<std::string> members(const std::string& group) const;

  /// Attributes of a group or dataset; "/" is the file itself.
  template <class T>
  void write_attribute(const std::string& object, const std::string& name, const T& value) {
    if constexpr (std::is_same_v<T, std::string>)
      write_text(object, name, value);
    else
      write_number(object, name, hdf5_type<T>(), &value);
  }
  template <class T>
  T read_attribute(const std::string& object, const std::string& name) const {
    T value{};
    if constexpr (std::is_same_v<T, std::string>)
      value = read_text(object, name);
    else
      read_number(object, name, hdf5_type<T>(), &value);
    return value;
  }
  bool has_attribute(const std::string& object, const std::string& name) const;
  std::vector<std::string> attribute_names(const std::string& object) const;

  /// Makes a dataset, and the groups above it, whose elements are not yet written.
  void create_dataset(const std::string& name, Hdf5Type type, const Extents& extents,
                      const DatasetLayout& layout = {});
  Extents extents(const std::string& name);
  /// True when the stored elements are of this type.
  bool holds(const std::string& name, Hdf5Type type);
  /// `values` has as many elements as the slab, dense, in the order of its axes.
  template <class T>
  void write(const std::string& name, const Slab& slab, std::span<const T> values) {
    transfer(name, slab, values.size(), hdf5_type<T>(), nullptr, values.data());
  }
  template <class T>
  void read(const std::string& name, const Slab& slab, std::span<T> values) {
    transfer(name, slab, values.size(), hdf5_type<T>(), values.data(), nullptr);
  }

  /// How a dataset lies in the file; nothing where its elements are not as this host has them, or
  /// pass through other filters or in another order than those of DatasetLayout.
  std::optional<DatasetLayout> layout(const std::string& name);
  /// Bytes that a dataset's elements take in the file.
  std::int64_t stored_bytes(const std::string& name);
  /// The bytes of the chunk that starts at `offset`, as they lie in the file: for who undoes the
  /// filters himself. Fails where they are more than `most`, or the chunk was never written. Bit i
  /// of the result is set where the chunk did not pass through filter i of its dataset.
  std::uint32_t read_chunk(const std::string& name, const Extents& offset, std::size_t most,
                           std::vector<std::byte>& bytes);

 private:
  // The library's identifiers are 64-bit integers; its header stays out of this one.
  using Id = std::int64_t;
  Hdf5File(std::filesystem::path path, bool writable);
  void write_number(const std::string& object, const std::string& name, Hdf5Type type,
                    const void* value);
  void read_number(const std::string& object, const std::string& name, Hdf5Type type,
                   void* value) const;
  void write_text(const std::string& object, const std::string& name, const std::string& value);
  std::string read_text(const std::string& object, const std::string& name) const;
  void make_attribute(const std::string& object, const std::string& name, Id type,
                      const void* value);
  Id dataset(const std::string& name);
  void transfer(const std::string& name, const Slab& slab, std::size_t values, Hdf5Type type,
                void* destination, const void* source);
  [[noreturn]] void fail(const std::string& what) const;
  Id checked(Id result, const char* action, const std::string& object) const;

  std::filesystem::path path_;
  Id file_ = -1;
  bool writable_ = false;
  std::map<std::string, Id> datasets_;
};

}  // namespace halomesh
