// SPDX-License-Identifier: Apache-2.0
// The HDF5 library: see hdf5_library.hpp.
#include "runtime/hdf5/hdf5_library.hpp"

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "error.hpp"
#include "narrow.hpp"
#include "system_error.hpp"

namespace halomesh::hdf5 {
namespace {

/// The words with which the library reports the system's error number and the file.
constexpr std::string_view kNumber = "errno = ", kName = "name = '";

// The library has one state per process, hence one lock.
std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

// At exit the library would retry writes that failed before, and crash (seen with 1.10.8). Complete
// files are closed by then, so nothing is left to do.
bool start() {
  static const bool kStarted = H5dont_atexit() >= 0 && H5open() >= 0;
  return kStarted;
}

#if defined(H5_HAVE_PARALLEL)
// An MPI-parallel library that is initialised after MPI would do this in MPI_Finalize.
[[maybe_unused]] const bool kStartedBeforeMpi = start();
#endif

}  // namespace

LibraryLock::LibraryLock() : lock_(library_mutex()) {
  require(start(), "cannot initialise the HDF5 library", "check the installation of HDF5");
  // This setting is per thread in a thread-safe library.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

namespace {

/// A call of the system that failed, and its file.
struct FailedCall {
  int number = 0;  // errno; 0 if the last call of the library failed for another reason
  std::filesystem::path file;
};

/// Why the last call failed; `file` stands where the library names none.
FailedCall failed_call(const std::filesystem::path& file) {
  std::string text;
  const auto find = [](unsigned, const H5E_error2_t* entry, void* data) -> herr_t {
    const std::string_view told = entry->desc == nullptr ? "" : entry->desc;
    if (told.find(kNumber) != std::string_view::npos) *static_cast<std::string*>(data) = told;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, find, &text);
  const std::size_t at = text.find(kNumber);
  if (at == std::string::npos) return {};
  const std::size_t name = text.find(kName), begin = name + kName.size(),
                    end = text.find('\'', begin);
  const bool named = name != std::string::npos && end != std::string::npos;
  return {std::atoi(text.c_str() + at + kNumber.size()),
          named ? std::filesystem::path(text.substr(begin, end - begin)) : file};
}

}  // namespace

void throw_read_error(const std::filesystem::path& file) {
  const auto [number, path] = failed_call(file);
  // Damaged files lead to requests that no file can satisfy.
  if (number == 0 || number == EINVAL || number == EFBIG || number == EOVERFLOW || number == EFAULT)
    return;
  throw read_error("read", path, number);
}

std::optional<Error> write_error(const std::filesystem::path& file) {
  const auto [number, path] = failed_call(file);
  if (number == 0) return std::nullopt;
  return system_error("write", path, number, kWritable);
}

std::string reason() {
  std::string text;
  const auto keep_first = [](unsigned, const H5E_error2_t* entry, void* data) -> herr_t {
    auto& first = *static_cast<std::string*>(data);
    if (first.empty() && entry->desc != nullptr) first = entry->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &text);
  return text.empty() ? "no reason given by the HDF5 library" : text;
}

hid_t file_access() {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  bool set = H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_LATEST) >= 0 &&
             H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) >= 0;
#if H5_VERSION_GE(1, 13, 0) || (H5_VERS_MINOR == 12 && H5_VERS_RELEASE >= 1) || \
    (H5_VERS_MINOR == 10 && H5_VERS_RELEASE >= 7)
  // Some parallel file systems have no locks. New files are renamed only when complete, so none is
  // needed.
  set = set && H5Pset_file_locking(access, false, true) >= 0;
#endif
  require(set, text("HDF5 does not know the file format 1.10: {}", reason()),
          "link with HDF5 1.10 or newer");
  return access;
}

hid_t native_type(Hdf5Type type) {
  switch (type) {
    case Hdf5Type::kFloat:
      return H5T_NATIVE_FLOAT;
    case Hdf5Type::kDouble:
      return H5T_NATIVE_DOUBLE;
    case Hdf5Type::kInt8:
      return H5T_NATIVE_INT8;
    case Hdf5Type::kUint8:
      return H5T_NATIVE_UINT8;
    case Hdf5Type::kInt16:
      return H5T_NATIVE_INT16;
    case Hdf5Type::kUint16:
      return H5T_NATIVE_UINT16;
    case Hdf5Type::kInt32:
      return H5T_NATIVE_INT32;
    case Hdf5Type::kUint32:
      return H5T_NATIVE_UINT32;
    case Hdf5Type::kInt64:
      return H5T_NATIVE_INT64;
    case Hdf5Type::kUint64:
      return H5T_NATIVE_UINT64;
  }
  return H5I_INVALID_HID;
}

Handle type_of_values(hid_t type) {
  return {H5Tget_class(type) == H5T_ENUM ? H5Tget_super(type) : H5Tcopy(type), H5Tclose};
}

bool same_kind(hid_t stored, hid_t native) {
  const Handle type = type_of_values(stored);
  return H5Tget_class(type) == H5Tget_class(native) && H5Tget_size(type) == H5Tget_size(native) &&
         (H5Tget_class(type) != H5T_INTEGER || H5Tget_sign(type) == H5Tget_sign(native));
}

std::string describe_type(hid_t type) {
  const std::size_t bits = H5Tget_size(type) * 8;
  switch (H5Tget_class(type)) {
    case H5T_FLOAT:
      return fmt::format("float{}", bits);
    case H5T_INTEGER:
      return fmt::format("{}{}", H5Tget_sign(type) == H5T_SGN_NONE ? "uint" : "int", bits);
    case H5T_STRING:
      return "string";
    case H5T_BITFIELD:
      return fmt::format("bit fields of {}", bits);
    case H5T_COMPOUND:
      return "compound values";
    default:
      return "another type";
  }
}

std::vector<hsize_t> sizes(const Extents& extents) {
  std::vector<hsize_t> result;
  for (std::int64_t extent : extents) result.push_back(narrow<hsize_t>(extent));
  return result;
}

}  // namespace halomesh::hdf5
