// SPDX-License-Identifier: Apache-2.0
// HDF5 files: groups, attributes and n-dimensional datasets, with every library call checked. Only
// this room may use the HDF5 library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "error.hpp"
#include "runtime/hdf5/hdf5_types.hpp"
#include "runtime/hdf5/npy_array.hpp"

namespace halomesh {

/// One open HDF5 file and its open datasets (move-only). Objects are named by absolute paths such
/// as "/parameters/conv1/weight". Every failure is an Error naming file, object and the library's
/// reason, or a ReadError if the system does not read a file. New files use the format of HDF5
/// 1.10, whose metadata have checksums.
///
/// Elements have the types of Hdf5Type; attributes may also be std::string. Reading a type other
/// than the stored one is an error; byte order is converted. The library need not be thread-safe:
/// calls from several threads are serialised.
class Hdf5File {
 public:
  /// The name of the array in a .npy file.
  static constexpr const char* kArray = "/values";

  /// Opens an existing file for reading: HDF5, or a .npy file, which appears as one with the
  /// dataset kArray.
  static Hdf5File open(const std::filesystem::path& path);
  /// Creates an empty file, replacing an existing one.
  static Hdf5File create(const std::filesystem::path& path);

  /// The version of the HDF5 library in use, such as "1.10.8".
  static std::string library_version();

  Hdf5File(Hdf5File&& other) noexcept;
  Hdf5File& operator=(Hdf5File&&) = delete;
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;
  /// Closes and ignores errors: after writing, call close() first.
  ~Hdf5File();

  /// Flushes and closes. The file is complete only if this returns: a full disk may be reported
  /// here first.
  void close();
  const std::filesystem::path& path() const { return path_; }

  /// True if a group or dataset of this name exists.
  bool contains(const std::string& name) const;
  /// Creates a group and its parents if they do not exist.
  void create_group(const std::string& name);
  /// The names of a group's members, sorted.
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

  /// Creates a dataset and its parent groups without writing its elements.
  void create_dataset(const std::string& name, Hdf5Type type, const Extents& extents,
                      const DatasetLayout& layout = {});
  /// Creates a contiguous dataset of `type` with space for all elements, which the caller writes to
  /// the closed file by other means, in this host's byte order. Returns the offset of the first
  /// element in the file, in bytes.
  std::int64_t create_room(const std::string& name, Hdf5Type type, const Extents& extents);
  /// Writes a new dataset of texts of equal room, padded with zeros.
  void write_texts(const std::string& name, const std::vector<std::string>& texts);
  Extents extents(const std::string& name);
  /// True if the stored elements have this type.
  bool holds(const std::string& name, Hdf5Type type);
  /// The type of the stored elements; empty if Hdf5Type lacks it.
  std::optional<Hdf5Type> type(const std::string& name);
  /// The type's name in messages, whether Hdf5Type has it or not.
  std::string type_name(const std::string& name);
  /// `values` has as many elements as the slab, dense, in the order of its axes.
  template <class T>
  void write(const std::string& name, const Slab& slab, std::span<const T> values) {
    transfer(name, slab, values.size(), hdf5_type<T>(), nullptr, values.data());
  }
  template <class T>
  void read(const std::string& name, const Slab& slab, std::span<T> values) {
    transfer(name, slab, values.size(), hdf5_type<T>(), values.data(), nullptr);
  }
  /// Writes elements of a type known only at run time, as bytes aligned for that type.
  void write(const std::string& name, const Slab& slab, Hdf5Type type,
             std::span<const std::byte> values) {
    transfer(name, slab, values.size() / static_cast<std::size_t>(size_of(type)), type, nullptr,
             values.data());
  }
  void read(const std::string& name, const Slab& slab, Hdf5Type type, std::span<std::byte> values) {
    transfer(name, slab, values.size() / static_cast<std::size_t>(size_of(type)), type,
             values.data(), nullptr);
  }

  /// The storage layout of a dataset; empty if its element type is not native to this host, or if
  /// its filters are not those of DatasetLayout in this order.
  std::optional<DatasetLayout> layout(const std::string& name);
  /// Throws Error unless every element of a dataset is stored: a virtual dataset's sources and raw
  /// files may be missing, and for chunks that were never written the library reads fill values.
  /// (Any reading finds data that are missing for other reasons.) Returns the other files that have
  /// elements.
  std::vector<std::filesystem::path> require_stored(const std::string& name);
  /// Bytes of a dataset's elements in the file.
  std::int64_t stored_bytes(const std::string& name);
  /// Reads the chunk that starts at `offset` as stored, without undoing the filters. Fails if it
  /// has more than `most` bytes or was never written. Bit i of the result is set if filter i of the
  /// dataset was skipped for this chunk.
  std::uint32_t read_chunk(const std::string& name, const Extents& offset, std::size_t most,
                           std::vector<std::byte>& bytes);

 private:
  // This is hid_t, without including the library's header.
  using Id = std::int64_t;
  Hdf5File(std::filesystem::path path, bool writable);
  void show_array();
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
  Error problem(const std::string& what) const;
  [[noreturn]] void fail(const std::string& what) const;
  Id checked(Id result, const char* action, const std::string& object) const;

  std::filesystem::path path_;
  Id file_ = -1;
  bool writable_ = false;
  std::map<std::string, Id> datasets_;
  std::optional<NpyArray> array_;  // the array of a .npy file: file_ has only its type and extents
};

}  // namespace halomesh
