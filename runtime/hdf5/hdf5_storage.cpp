// SPDX-License-Identifier: Apache-2.0
// Sources, raw files and chunks of a dataset: see hdf5_storage.hpp.
#include "runtime/hdf5/hdf5_storage.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

#include "error.hpp"
#include "joined.hpp"
#include "narrow.hpp"

namespace halomesh::hdf5 {
namespace {

namespace fs = std::filesystem;
using Paths = std::vector<fs::path>;

/// The greatest depth of virtual datasets of virtual datasets.
constexpr int kDeepest = 16;

/// A dataset, and its name in messages.
struct Place {
  hid_t dataset;
  std::string name;
  fs::path file;
};

[[noreturn]] void fail(const Place& at, const std::string& what, const char* hint) {
  throw Error(fmt::format("{}: {}: {}", at.file.c_str(), at.name, what), hint);
}

/// Returns its argument, or throws Error if that says that a call has failed.
template <class Id>
Id checked(Id result, const Place& at) {
  if (result >= 0) return result;
  throw_read_error(at.file);
  fail(at, fmt::format("cannot find out where its elements are: {}", reason()),
       "copy or make the file again");
}

std::vector<hsize_t> extents_of(hid_t space, const Place& at) {
  std::vector<hsize_t> extents(
      static_cast<std::size_t>(checked(H5Sget_simple_extent_ndims(space), at)));
  checked(H5Sget_simple_extent_dims(space, extents.data(), nullptr), at);
  return extents;
}

/// Returns the text that `get(text, size)` writes; `get` returns the length of the whole text.
template <class Get>
std::string text_by(const Place& at, const Get& get) {
  std::string text(static_cast<std::size_t>(checked(get(nullptr, 0), at)), '\0');
  checked(get(text.data(), text.size() + 1), at);
  return text;
}

/// The directories listed by a variable of the library, in which ${ORIGIN} stands for the file's
/// directory.
Paths directories_in(const char* variable, const fs::path& origin) {
  constexpr std::string_view kOrigin = "${ORIGIN}";
  Paths all;
  const char* const value = std::getenv(variable);
  for (std::string rest = value == nullptr ? "" : value; !rest.empty();) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    std::string one = rest.substr(0, end);
    if (one.starts_with(kOrigin)) one = origin.string() + one.substr(kOrigin.size());
    if (!one.empty()) all.emplace_back(one);
    rest.erase(0, std::min(end + 1, rest.size()));
  }
  return all;
}

fs::path directory_of(const fs::path& file) {
  std::error_code ignored;
  return fs::absolute(file, ignored).parent_path();
}

/// The file that the library finds for the name of a source, in its order of search; empty if there
/// is none. ("H5Pset_virtual_prefix" of the library's reference manual.)
std::optional<fs::path> find_source(const fs::path& name, const fs::path& file) {
  std::error_code ignored;
  if (name == ".") return file;
  const fs::path beside = directory_of(file), real = fs::canonical(file, ignored);
  const fs::path relative = name.is_absolute() ? name.filename() : name;
  Paths candidates;
  if (name.is_absolute()) candidates.push_back(name);
  for (const fs::path& directory : directories_in("HDF5_VDS_PREFIX", beside))
    candidates.push_back(directory / relative);
  candidates.push_back(beside / relative);
  candidates.push_back(relative);
  if (!real.empty()) candidates.push_back(real.parent_path() / relative);
  for (fs::path& candidate : candidates)
    if (fs::exists(candidate, ignored)) return std::move(candidate);
  return std::nullopt;
}

/// The name with each %b replaced by the number of a block, and %% by %.
std::string numbered(const std::string& name, hsize_t block) {
  std::string result;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool escape = name[i] == '%' && i + 1 < name.size();
    if (escape && name[i + 1] == 'b')
      result += std::to_string(block);
    else
      result += name[i];
    i += escape && (name[i + 1] == 'b' || name[i + 1] == '%') ? 1 : 0;
  }
  return result;
}

/// The number of blocks of an unlimited selection that lie in a dataset of these extents; 1 if the
/// selection is limited.
hsize_t blocks_in(hid_t selection, const std::vector<hsize_t>& extents) {
  if (H5Sget_select_type(selection) != H5S_SEL_HYPERSLABS ||
      H5Sis_regular_hyperslab(selection) <= 0)
    return 1;
  std::vector<hsize_t> start(extents.size()), stride(start), count(start), block(start);
  if (H5Sget_regular_hyperslab(selection, start.data(), stride.data(), count.data(), block.data()) <
      0)
    return 1;
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    if (count[axis] == H5S_UNLIMITED && stride[axis] > 0 && extents[axis] > start[axis])
      return (extents[axis] - start[axis] + stride[axis] - 1) / stride[axis];
  return 1;
}

/// True if a source, of these extents, lacks some of the `points` that are selected of it.
bool lacks_some_of(hid_t selection, hssize_t points, const std::vector<hsize_t>& extents) {
  if (points < 0) return false;  // unlimited: all existing points
  hsize_t elements = 1;
  for (const hsize_t extent : extents) elements *= extent;
  if (H5Sget_select_type(selection) == H5S_SEL_ALL) return elements < static_cast<hsize_t>(points);
  std::vector<hsize_t> first(extents), last(extents);
  if (H5Sget_simple_extent_ndims(selection) != std::ssize(extents) ||
      H5Sget_select_bounds(selection, first.data(), last.data()) < 0)
    return false;
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    if (last[axis] >= extents[axis]) return true;
  return false;
}

/// True if values of one type are exact in the other.
bool keeps_values(hid_t from, hid_t to) {
  const std::size_t size = H5Tget_size(from), room = H5Tget_size(to);
  const H5T_class_t of_from = H5Tget_class(from), of_to = H5Tget_class(to);
  if (of_from == H5T_INTEGER && of_to == H5T_INTEGER)
    return H5Tget_sign(from) == H5Tget_sign(to) ? size <= room
                                                : H5Tget_sign(from) == H5T_SGN_NONE && size < room;
  if (of_from == H5T_INTEGER && of_to == H5T_FLOAT) return size < room;
  return of_from == of_to && (of_to == H5T_FLOAT ? size <= room : size == room);
}

/// Throws Error if the library cannot undo a filter of the chunks.
void check_filters(const Place& at, hid_t options) {
  const int filters = checked(H5Pget_nfilters(options), at);
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0, settings = 0;
    std::size_t values = 0;
    std::array<char, 64> name{};
    const H5Z_filter_t filter = H5Pget_filter2(options, static_cast<unsigned>(i), &flags, &values,
                                               nullptr, name.size() - 1, name.data(), &settings);
    if (filter < 0 || H5Zfilter_avail(filter) > 0) continue;
    throw Error(fmt::format("{}: {} is stored with the HDF5 filter {}{}, which is not installed",
                            at.file.c_str(), at.name, filter,
                            name[0] == '\0' ? "" : fmt::format(" ({})", name.data())),
                "rewrite the file where it is, e.g. by `h5repack -f GZIP=4 OLD NEW`, or name the "
                "directory of its plugin in HDF5_PLUGIN_PATH");
  }
}

class StorageCheck {
 public:
  explicit StorageCheck(bool of_chunks) : of_chunks_(of_chunks) {}

  void check(const Place& at, int depth);
  Paths take() { return std::move(paths_); }

 private:
  void check_virtual(const Place& at, hid_t options, const std::vector<hsize_t>& extents,
                     int depth);
  void check_source(const Place& at, const std::string& file, const std::string& name,
                    hid_t selection, hssize_t points, int depth);
  void check_raw_files(const Place& at, hid_t options, hsize_t bytes);
  static void check_chunks(const Place& at, hid_t options, hid_t space,
                           const std::vector<hsize_t>& extents);

  bool of_chunks_;
  Paths paths_;
};

void StorageCheck::check(const Place& at, int depth) {
  const Handle options(checked(H5Dget_create_plist(at.dataset), at), H5Pclose);
  const Handle space(checked(H5Dget_space(at.dataset), at), H5Sclose);
  const std::vector<hsize_t> extents = extents_of(space, at);
  const auto elements = static_cast<hsize_t>(checked(H5Sget_simple_extent_npoints(space), at));
  const H5D_layout_t layout = H5Pget_layout(options);
  check_filters(at, options);
  if (layout == H5D_VIRTUAL) {
    check_virtual(at, options, extents, depth);
  } else if (H5Pget_external_count(options) > 0) {
    const Handle type(checked(H5Dget_type(at.dataset), at), H5Tclose);
    check_raw_files(at, options, elements * H5Tget_size(type));
  } else if (of_chunks_ && layout == H5D_CHUNKED) {
    check_chunks(at, options, space, extents);
  } else if (of_chunks_ && elements > 0 && H5Dget_storage_size(at.dataset) == 0) {
    fail(at, "its elements were never written", "make the file again");
  }
}

void StorageCheck::check_virtual(const Place& at, hid_t options,
                                 const std::vector<hsize_t>& extents, int depth) {
  if (depth > kDeepest)
    fail(at, "virtual datasets of virtual datasets without end", "make the file again");
  std::size_t sources = 0;
  checked(H5Pget_virtual_count(options, &sources), at);
  hsize_t elements = 1, mapped = 0;
  for (const hsize_t extent : extents) elements *= extent;
  for (std::size_t i = 0; i < sources; ++i) {
    const std::string file = text_by(at, [&](char* text, std::size_t size) {
      return H5Pget_virtual_filename(options, i, text, size);
    });
    const std::string name = text_by(at, [&](char* text, std::size_t size) {
      return H5Pget_virtual_dsetname(options, i, text, size);
    });
    const Handle of_virtual(checked(H5Pget_virtual_vspace(options, i), at), H5Sclose);
    const Handle of_source(checked(H5Pget_virtual_srcspace(options, i), at), H5Sclose);
    const hssize_t points = H5Sget_select_npoints(of_virtual);
    mapped = points < 0 ? elements : mapped + static_cast<hsize_t>(points);
    // A name without a number has all blocks in one file.
    hsize_t blocks = blocks_in(of_virtual, extents);
    if (numbered(file, 0) == numbered(file, 1) && numbered(name, 0) == numbered(name, 1))
      blocks = 1;
    for (hsize_t block = 0; block < blocks; ++block)
      check_source(at, numbered(file, block), numbered(name, block), of_source, points, depth);
  }
  if (of_chunks_ && mapped < elements)
    fail(at, fmt::format("its sources give {} of its {} elements", mapped, elements),
         "make the virtual dataset again, of sources for all elements");
}

void StorageCheck::check_source(const Place& at, const std::string& file, const std::string& name,
                                hid_t selection, hssize_t points, int depth) {
  constexpr const char* kCopy =
      "copy the sources of virtual datasets with the files that refer to them, or name their "
      "directory in HDF5_VDS_PREFIX";
  const auto found = find_source(file, at.file);
  if (!found)
    fail(at, fmt::format("a virtual dataset whose source {} does not exist", file), kCopy);
  // The file itself is not opened twice, because closing it would close its open objects.
  const bool is_same = *found == at.file;
  const Handle access(file_access(), H5Pclose);
  const Handle opened(
      is_same ? H5Iget_file_id(at.dataset) : H5Fopen(found->c_str(), H5F_ACC_RDONLY, access),
      H5Fclose);
  if (opened < 0) throw_read_error(*found);
  if (opened < 0)
    fail(at,
         fmt::format("a virtual dataset whose source {} cannot be opened: {}", found->c_str(),
                     reason()),
         kCopy);
  const Handle dataset(H5Dopen2(opened, name.c_str(), H5P_DEFAULT), H5Dclose);
  if (dataset < 0)
    fail(at,
         fmt::format("a virtual dataset whose source {} has no dataset {}", found->c_str(), name),
         kCopy);
  const Place source{dataset, name, *found};
  const Handle stored(checked(H5Dget_type(dataset), source), H5Tclose),
      read_as(checked(H5Dget_type(at.dataset), at), H5Tclose);
  if (!keeps_values(type_of_values(stored), type_of_values(read_as)))
    fail(at,
         fmt::format("a virtual dataset of {} whose source {} has {} of {}, which HDF5 rounds or "
                     "cuts off without a word",
                     describe_type(read_as), found->c_str(), name, describe_type(stored)),
         "make the virtual dataset again, of the type of its sources");
  const Handle space(checked(H5Dget_space(dataset), source), H5Sclose);
  const std::vector<hsize_t> extents = extents_of(space, source);
  if (lacks_some_of(selection, points, extents))
    fail(at,
         fmt::format("a virtual dataset whose source {} has {} of {}, too few elements",
                     found->c_str(), name, joined(extents, "x")),
         kCopy);
  if (!is_same) paths_.push_back(*found);
  check(source, depth + 1);
}

void StorageCheck::check_raw_files(const Place& at, hid_t options, hsize_t bytes) {
  const int files = H5Pget_external_count(options);
  for (unsigned i = 0; i < static_cast<unsigned>(files) && bytes > 0; ++i) {
    std::string name(4096, '\0');  // the greatest length of a path
    off_t offset = 0;
    hsize_t size = 0;
    checked(H5Pget_external(options, i, name.size() - 1, name.data(), &offset, &size), at);
    name.resize(name.find('\0'));
    fs::path path = name;
    if (const Paths directories = directories_in("HDF5_EXTFILE_PREFIX", directory_of(at.file));
        !directories.empty() && path.is_relative())
      path = directories.front() / path;
    const hsize_t wanted = std::min(bytes, size);
    std::error_code code;
    const std::uintmax_t there = fs::file_size(path, code);
    if (code || there < static_cast<hsize_t>(offset) + wanted)
      fail(at,
           fmt::format("its elements are in the raw file {}, {}", path.c_str(),
                       code ? code.message()
                            : fmt::format("which has {} of {} bytes", there,
                                          static_cast<hsize_t>(offset) + wanted)),
           "copy the raw files, and name their directory in HDF5_EXTFILE_PREFIX or give the "
           "command where they are");
    paths_.push_back(path);
    bytes -= wanted;
  }
  if (bytes > 0)
    fail(at, fmt::format("its raw files have no room for its last {} bytes", bytes),
         "make the file again");
}

void StorageCheck::check_chunks(const Place& at, hid_t options, hid_t space,
                                const std::vector<hsize_t>& extents) {
  std::vector<hsize_t> chunk(extents);
  checked(H5Pget_chunk(options, narrow<int>(chunk.size()), chunk.data()), at);
  hsize_t all = 1, written = 0;
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    all *= (extents[axis] + chunk[axis] - 1) / chunk[axis];
#if H5_VERSION_GE(1, 10, 5)
  checked(H5Dget_num_chunks(at.dataset, space, &written), at);
#else
  H5D_space_status_t status = H5D_SPACE_STATUS_ERROR;
  checked(H5Dget_space_status(at.dataset, &status), at);
  if (status != H5D_SPACE_STATUS_NOT_ALLOCATED) written = all;
#endif
  if (written < all)
    fail(at, fmt::format("{} of its {} chunks were never written", all - written, all),
         "write all elements, or make the file again");
}

Paths checked_storage(hid_t dataset, const std::string& name, const fs::path& file,
                      bool of_chunks) {
  StorageCheck check(of_chunks);
  check.check({dataset, name, file}, 0);
  return check.take();
}

}  // namespace

Paths require_sources(hid_t dataset, const std::string& name, const fs::path& file) {
  return checked_storage(dataset, name, file, false);
}

Paths require_stored(hid_t dataset, const std::string& name, const fs::path& file) {
  return checked_storage(dataset, name, file, true);
}

}  // namespace halomesh::hdf5
