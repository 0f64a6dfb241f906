// SPDX-License-Identifier: Apache-2.0
// The HDF5 library's lock, identifiers, errors and types, for the sources of Hdf5File.
// The only file that includes the library's header.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "error.hpp"
#include "runtime/hdf5/hdf5_types.hpp"

namespace halomesh::hdf5 {

static_assert(std::is_same_v<hid_t, std::int64_t>, "HDF5 1.10 or newer is needed");

/// Serialises calls into the HDF5 library, which need not be thread-safe, and switches off its own
/// error messages.
class LibraryLock {
 public:
  LibraryLock();

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

/// An identifier, released with this object.
class Handle {
 public:
  Handle(hid_t id, herr_t (*release)(hid_t)) : id_(id), release_(release) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (id_ >= 0) release_(id_);
  }
  operator hid_t() const { return id_; }  // NOLINT(google-explicit-constructor): it is one

 private:
  hid_t id_;
  herr_t (*release_)(hid_t);
};

/// The property list for opening and creating files; the caller closes it.
hid_t file_access();

/// Throws ReadError if the last call failed because the system did not open or read a file. It
/// names the file that the library names, or else `file`.
void throw_read_error(const std::filesystem::path& file);

/// The error, if the last call failed because the system did not write a file.
std::optional<Error> write_error(const std::filesystem::path& file);
/// The hint about a file that is written.
inline constexpr const char* kWritable =
    "check that the directory may be written to and has space left";

/// Why the last call failed: the innermost entry of the library's error stack.
std::string reason();

/// The library's type for this host; owned by the library.
hid_t native_type(Hdf5Type type);
/// The type of an enumeration's integers, such as the booleans of h5py; a copy of any other type.
Handle type_of_values(hid_t type);
/// True if class, size and signedness of values are equal, so that conversion does not change them.
bool same_kind(hid_t stored, hid_t native);
/// "float32", "int16", "string", ...
std::string describe_type(hid_t type);
std::vector<hsize_t> sizes(const Extents& extents);

}  // namespace halomesh::hdf5
