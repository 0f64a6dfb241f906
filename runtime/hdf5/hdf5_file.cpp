// SPDX-License-Identifier: Apache-2.0
// HDF5 files, their groups, attributes, datasets and chunks: see hdf5_file.hpp.
#include "runtime/hdf5/hdf5_file.hpp"

#include <algorithm>
#include <utility>

#include "error.hpp"
#include "narrow.hpp"
#include "runtime/hdf5/hdf5_library.hpp"
#include "runtime/hdf5/hdf5_storage.hpp"
#include "runtime/posix/input_file.hpp"

namespace halomesh {

using hdf5::Handle;
using hdf5::LibraryLock;
using hdf5::reason;

namespace {

std::string label_of(const std::string& object, const std::string& name) {
  return fmt::format("attribute {} of {}", name, object);
}

struct Attribute {
  Handle id, type, space;
};

/// Opens an attribute for reading. `checked` returns its argument, or throws if it is an error.
template <class Checked>
Attribute open_attribute(hid_t file, const std::string& object, const std::string& name,
                         const Checked& checked) {
  const hid_t id = H5Aopen_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT);
  return {{checked(id), H5Aclose},
          {checked(H5Aget_type(id)), H5Tclose},
          {checked(H5Aget_space(id)), H5Sclose}};
}

/// Records filter number `index` of a dataset. False if the filter is unknown or out of order.
bool note_filter(hid_t options, unsigned index, DatasetLayout& layout) {
  unsigned flags = 0, settings = 0, value = 0;
  std::size_t values = 1;
  char name[1];
  switch (H5Pget_filter2(options, index, &flags, &values, &value, sizeof name, name, &settings)) {
    case H5Z_FILTER_SHUFFLE:
      return layout.gzip == 0 && !layout.checksum && !std::exchange(layout.shuffle, true);
    case H5Z_FILTER_DEFLATE:
      return !layout.checksum && std::exchange(layout.gzip, 1) == 0;
    case H5Z_FILTER_FLETCHER32:
      return !std::exchange(layout.checksum, true);
    default:
      return false;
  }
}

}  // namespace

std::string Hdf5File::library_version() {
  const LibraryLock lock;
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

Hdf5File::Hdf5File(std::filesystem::path path, bool writable)
    : path_(std::move(path)), writable_(writable) {}

Hdf5File::Hdf5File(Hdf5File&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      writable_(other.writable_),
      datasets_(std::exchange(other.datasets_, {})),
      array_(std::move(other.array_)) {}

Hdf5File::~Hdf5File() {
  try {
    close();
  } catch (const Error&) {  // callers that need the error call close()
  }
}

Error Hdf5File::problem(const std::string& what) const {
  return Error(fmt::format("{}: {}", path_.c_str(), what),
               writable_
                   ? hdf5::kWritable
                   : "check that this is the right file; copy or generate a damaged one again");
}

void Hdf5File::fail(const std::string& what) const { throw problem(what); }

Hdf5File::Id Hdf5File::checked(Id result, const char* action, const std::string& object) const {
  if (result >= 0) return result;
  if (!writable_) hdf5::throw_read_error(path_);
  if (const auto failure = hdf5::write_error(path_); writable_ && failure) throw *failure;
  fail(fmt::format("cannot {} {}: {}", action, object, reason()));
}

Hdf5File Hdf5File::open(const std::filesystem::path& path) {
  const LibraryLock lock;
  const Handle access(hdf5::file_access(), H5Pclose);
  Hdf5File file(path, false);
  require_regular_file(path);
  if (path.extension() == ".npy") {
    file.array_.emplace(path);
    file.show_array();
    return file;
  }
  file.file_ = file.checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), "open", "it as HDF5");
  return file;
}

/// Makes an HDF5 file in memory whose dataset refers to the array.
void Hdf5File::show_array() {
  static std::int64_t shown = 0;  // the lock is held; files in memory need names of their own
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose),
      options(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  const auto dims = hdf5::sizes(array_->extents());
  const Handle space(H5Screate_simple(narrow<int>(dims.size()), dims.data(), nullptr), H5Sclose);
  constexpr std::size_t kGrowth = 4096;
  checked(H5Pset_fapl_core(access, kGrowth, false), "show", "its array");
  file_ = checked(H5Fcreate(fmt::format("{}:{}", path_.c_str(), ++shown).c_str(), H5F_ACC_TRUNC,
                            H5P_DEFAULT, access),
                  "show", "its array");
  checked(H5Pset_external(options, std::filesystem::absolute(path_).c_str(), array_->offset(),
                          H5F_UNLIMITED),
          "show", "its array");
  datasets_[kArray] = checked(H5Dcreate2(file_, kArray, hdf5::native_type(array_->type()), space,
                                         H5P_DEFAULT, options, H5P_DEFAULT),
                              "show", "its array");
}

Hdf5File Hdf5File::create(const std::filesystem::path& path) {
  const LibraryLock lock;
  const Handle access(hdf5::file_access(), H5Pclose), layout(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  Hdf5File file(path, true);
  // Equal content gives equal bytes.
  file.checked(H5Pset_obj_track_times(layout, false), "create", "it");
  file.file_ = file.checked(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, layout, access), "create", "it");
  return file;
}

void Hdf5File::close() {
  if (file_ < 0) return;
  const LibraryLock lock;
  std::optional<Error> failure;
  const auto note = [&](herr_t result) {
    if (result < 0 && !failure) failure = hdf5::write_error(path_);
    if (result < 0 && !failure)
      failure = problem(fmt::format("cannot write the file: {}", reason()));
  };
  for (const auto& [name, id] : std::exchange(datasets_, {})) note(H5Dclose(id));
  const Id file = std::exchange(file_, -1);
  if (writable_) note(H5Fflush(file, H5F_SCOPE_GLOBAL));
  note(H5Fclose(file));  // even after a failure the identifier must not be used again
  if (failure) throw *failure;
}

bool Hdf5File::contains(const std::string& name) const {
  const LibraryLock lock;
  // H5Lexists() fails unless every group on the path exists.
  for (std::size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {
    if (name == "/") return true;
    const std::string head = name.substr(0, end);
    if (checked(H5Lexists(file_, head.c_str(), H5P_DEFAULT), "look for", head) == 0) return false;
    if (end == std::string::npos) return true;
  }
}

void Hdf5File::create_group(const std::string& name) {
  const LibraryLock lock;
  if (name.empty() || contains(name)) return;
  create_group(std::filesystem::path(name).parent_path().string());
  const Handle options(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
  checked(H5Pset_obj_track_times(options, false), "create group",
          name);  // equal content gives equal bytes: see create()
  const Handle group(checked(H5Gcreate2(file_, name.c_str(), H5P_DEFAULT, options, H5P_DEFAULT),
                             "create group", name),
                     H5Gclose);
}

std::vector<std::string> Hdf5File::members(const std::string& group) const {
  const LibraryLock lock;
  const Handle id(checked(H5Gopen2(file_, group.c_str(), H5P_DEFAULT), "open group", group),
                  H5Gclose);
  H5G_info_t content{};
  checked(H5Gget_info(id, &content), "list", group);
  std::vector<std::string> names;
  for (hsize_t i = 0; i < content.nlinks; ++i) {
    const auto get = [&](char* text, std::size_t size) {
      return checked(
          H5Lget_name_by_idx(id, ".", H5_INDEX_NAME, H5_ITER_INC, i, text, size, H5P_DEFAULT),
          "list", group);
    };
    std::string name(static_cast<std::size_t>(get(nullptr, 0)), '\0');
    get(name.data(), name.size() + 1);
    names.push_back(std::move(name));
  }
  return names;
}

bool Hdf5File::has_attribute(const std::string& object, const std::string& name) const {
  const LibraryLock lock;
  return checked(H5Aexists_by_name(file_, object.c_str(), name.c_str(), H5P_DEFAULT),
                 "look for attributes of", object) > 0;
}

std::vector<std::string> Hdf5File::attribute_names(const std::string& object) const {
  const LibraryLock lock;
  const Handle id(checked(H5Oopen(file_, object.c_str(), H5P_DEFAULT), "open", object), H5Oclose);
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5A_info_t*, void* data) -> herr_t {
    static_cast<std::vector<std::string>*>(data)->emplace_back(name);
    return 0;
  };
  checked(H5Aiterate2(id, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names),
          "list the attributes of", object);
  return names;
}

void Hdf5File::make_attribute(const std::string& object, const std::string& name, Id type,
                              const void* value) {
  const std::string label = label_of(object, name);
  if (has_attribute(object, name))
    checked(H5Adelete_by_name(file_, object.c_str(), name.c_str(), H5P_DEFAULT), "replace", label);
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle id(checked(H5Acreate_by_name(file_, object.c_str(), name.c_str(), type, space,
                                            H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                          "create", label),
                  H5Aclose);
  checked(H5Awrite(id, type, value), "write", label);
}

void Hdf5File::write_number(const std::string& object, const std::string& name, Hdf5Type type,
                            const void* value) {
  const LibraryLock lock;
  make_attribute(object, name, hdf5::native_type(type), value);
}

void Hdf5File::write_text(const std::string& object, const std::string& name,
                          const std::string& value) {
  const LibraryLock lock;
  // The length is fixed because HDF5 does not checksum the heap of variable-length strings.
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  const std::string label = label_of(object, name);
  checked(H5Tset_size(type, std::max<std::size_t>(value.size(), 1)), "set the type of", label);
  checked(H5Tset_strpad(type, H5T_STR_NULLPAD), "set the type of", label);
  checked(H5Tset_cset(type, H5T_CSET_UTF8), "set the type of", label);
  make_attribute(object, name, type, value.c_str());
}

void Hdf5File::read_number(const std::string& object, const std::string& name, Hdf5Type type,
                           void* value) const {
  const LibraryLock lock;
  const std::string label = label_of(object, name);
  const auto [id, stored, space] = open_attribute(
      file_, object, name, [&](hid_t result) { return checked(result, "read", label); });
  const hid_t native = hdf5::native_type(type);
  if (H5Sget_simple_extent_npoints(space) != 1 || !hdf5::same_kind(stored, native))
    fail(fmt::format("{}: expected one {}, found {} of {}", label, hdf5::describe_type(native),
                     H5Sget_simple_extent_npoints(space), hdf5::describe_type(stored)));
  checked(H5Aread(id, native, value), "read", label);
}

std::string Hdf5File::read_text(const std::string& object, const std::string& name) const {
  const LibraryLock lock;
  const std::string label = label_of(object, name);
  const auto [id, stored, space] = open_attribute(
      file_, object, name, [&](hid_t result) { return checked(result, "read", label); });
  if (H5Sget_simple_extent_npoints(space) != 1 || H5Tget_class(stored) != H5T_STRING ||
      H5Tis_variable_str(stored) > 0)
    fail(fmt::format("{}: expected one string of fixed length, found {} of {}", label,
                     H5Sget_simple_extent_npoints(space), hdf5::describe_type(stored)));
  std::string text(H5Tget_size(stored), '\0');
  checked(H5Aread(id, stored, text.data()), "read", label);
  return text.substr(0, text.find('\0'));
}

void Hdf5File::create_dataset(const std::string& name, Hdf5Type type, const Extents& extents,
                              const DatasetLayout& layout) {
  const LibraryLock lock;
  const auto dims = hdf5::sizes(extents), chunk = hdf5::sizes(layout.chunk);
  const Handle space(checked(H5Screate_simple(narrow<int>(dims.size()), dims.data(), nullptr),
                             "create dataset", name),
                     H5Sclose);
  create_group(std::filesystem::path(name).parent_path().string());
  const Handle options(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  const auto set = [&](herr_t result) { checked(result, "set the layout of", name); };
  set(H5Pset_obj_track_times(options, false));  // equal content gives equal bytes
  if (!chunk.empty()) set(H5Pset_chunk(options, narrow<int>(chunk.size()), chunk.data()));
  if (layout.shuffle) set(H5Pset_shuffle(options));
  if (layout.gzip > 0) set(H5Pset_deflate(options, static_cast<unsigned>(layout.gzip)));
  // Fletcher-32 comes last, so that it covers the bytes as stored.
  if (layout.checksum) set(H5Pset_fletcher32(options));
  datasets_[name] = checked(H5Dcreate2(file_, name.c_str(), hdf5::native_type(type), space,
                                       H5P_DEFAULT, options, H5P_DEFAULT),
                            "create dataset", name);
}

void Hdf5File::write_texts(const std::string& name, const std::vector<std::string>& texts) {
  const LibraryLock lock;
  std::size_t room = 1;
  for (const std::string& text : texts) room = std::max(room, text.size());
  std::string all;
  for (const std::string& text : texts) all += text + std::string(room - text.size(), '\0');
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  checked(H5Tset_size(type, room), "set the type of", name);
  checked(H5Tset_strpad(type, H5T_STR_NULLPAD), "set the type of", name);
  checked(H5Tset_cset(type, H5T_CSET_UTF8), "set the type of", name);
  const hsize_t count = texts.size();
  const Handle space(H5Screate_simple(1, &count, nullptr), H5Sclose),
      options(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  checked(H5Pset_obj_track_times(options, false), "set the layout of", name);
  datasets_[name] =
      checked(H5Dcreate2(file_, name.c_str(), type, space, H5P_DEFAULT, options, H5P_DEFAULT),
              "create dataset", name);
  if (count > 0)
    checked(H5Dwrite(datasets_[name], type, H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data()), "write",
            name);
}

std::int64_t Hdf5File::create_room(const std::string& name, Hdf5Type type, const Extents& extents) {
  const LibraryLock lock;
  const auto dims = hdf5::sizes(extents);
  const Handle space(checked(H5Screate_simple(narrow<int>(dims.size()), dims.data(), nullptr),
                             "create dataset", name),
                     H5Sclose);
  create_group(std::filesystem::path(name).parent_path().string());
  const Handle options(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  const auto set = [&](herr_t result) { checked(result, "set the layout of", name); };
  set(H5Pset_obj_track_times(options, false));
  set(H5Pset_alloc_time(options, H5D_ALLOC_TIME_EARLY));
  set(H5Pset_fill_time(options, H5D_FILL_TIME_NEVER));
  const Id id = checked(H5Dcreate2(file_, name.c_str(), hdf5::native_type(type), space, H5P_DEFAULT,
                                   options, H5P_DEFAULT),
                        "create dataset", name);
  datasets_[name] = id;
  const haddr_t offset = H5Dget_offset(id);
  if (offset == HADDR_UNDEF) fail(fmt::format("cannot find room for {}: {}", name, reason()));
  return narrow<std::int64_t>(offset);
}

Hdf5File::Id Hdf5File::dataset(const std::string& name) {
  const auto found = datasets_.find(name);
  if (found != datasets_.end()) return found->second;
  const Id id = checked(H5Dopen2(file_, name.c_str(), H5P_DEFAULT), "open dataset", name);
  datasets_[name] = id;
  hdf5::require_sources(id, name, path_);
  return id;
}

Extents Hdf5File::extents(const std::string& name) {
  const LibraryLock lock;
  const Handle space(checked(H5Dget_space(dataset(name)), "read the extents of", name), H5Sclose);
  const Id rank = checked(H5Sget_simple_extent_ndims(space), "read the extents of", name);
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  checked(H5Sget_simple_extent_dims(space, dims.data(), nullptr), "read the extents of", name);
  Extents result;
  for (hsize_t extent : dims) result.push_back(narrow<std::int64_t>(extent));
  return result;
}

bool Hdf5File::holds(const std::string& name, Hdf5Type type) {
  const LibraryLock lock;
  const Handle stored(checked(H5Dget_type(dataset(name)), "read the type of", name), H5Tclose);
  return hdf5::same_kind(stored, hdf5::native_type(type));
}

std::optional<Hdf5Type> Hdf5File::type(const std::string& name) {
  const LibraryLock lock;
  const Handle stored(checked(H5Dget_type(dataset(name)), "read the type of", name), H5Tclose);
  for (const Hdf5Type type : kHdf5Types)
    if (hdf5::same_kind(stored, hdf5::native_type(type))) return type;
  return std::nullopt;
}

std::string Hdf5File::type_name(const std::string& name) {
  const LibraryLock lock;
  const Handle stored(checked(H5Dget_type(dataset(name)), "read the type of", name), H5Tclose);
  return hdf5::describe_type(stored);
}

void Hdf5File::transfer(const std::string& name, const Slab& slab, std::size_t values,
                        Hdf5Type type, void* destination, const void* source) {
  const LibraryLock lock;
  const hid_t native = hdf5::native_type(type);
  const Id id = dataset(name);
  const char* const action = destination != nullptr ? "read" : "write";
  const Handle stored(checked(H5Dget_type(id), action, name), H5Tclose);
  if (!hdf5::same_kind(stored, native))
    fail(fmt::format("{} holds {}, expected {}", name, hdf5::describe_type(stored),
                     hdf5::describe_type(native)));
  const Handle space(checked(H5Dget_space(id), action, name), H5Sclose);
  const auto offset = hdf5::sizes(slab.offset), count = hdf5::sizes(slab.count);
  std::size_t volume = 1;
  for (hsize_t extent : count) volume *= extent;
  if (offset.size() != count.size() || volume != values ||
      H5Sget_simple_extent_ndims(space) != static_cast<int>(count.size()))
    fail(fmt::format(
        "{}: a block of {} elements on {} axes does not fit the dataset or the {} values given",
        name, volume, count.size(), values));
  if (volume == 0) return;
  if (array_) {
    array_->read(slab, {static_cast<std::byte*>(destination),
                        values * static_cast<std::size_t>(size_of(type))});
    return;
  }
  const Handle memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                      H5Sclose);
  if (!count.empty())
    checked(
        H5Sselect_hyperslab(space, H5S_SELECT_SET, offset.data(), nullptr, count.data(), nullptr),
        action, name);
  checked(destination != nullptr ? H5Dread(id, native, memory, space, H5P_DEFAULT, destination)
                                 : H5Dwrite(id, native, memory, space, H5P_DEFAULT, source),
          action, name);
}

std::optional<DatasetLayout> Hdf5File::layout(const std::string& name) {
  const LibraryLock lock;
  const Id id = dataset(name);
  const Handle stored(checked(H5Dget_type(id), "read the type of", name), H5Tclose);
  const Handle native(H5Tget_native_type(stored, H5T_DIR_ASCEND), H5Tclose);
  const Handle options(checked(H5Dget_create_plist(id), "read the layout of", name), H5Pclose);
  DatasetLayout layout;
  if (native < 0 || H5Tequal(stored, native) <= 0) return std::nullopt;
  const H5D_layout_t kind = H5Pget_layout(options);
  if (kind == H5D_CONTIGUOUS) return layout;
  if (kind != H5D_CHUNKED) return std::nullopt;
  std::vector<hsize_t> chunk(extents(name).size());
  checked(H5Pget_chunk(options, narrow<int>(chunk.size()), chunk.data()), "read the layout of",
          name);
  for (const hsize_t extent : chunk) layout.chunk.push_back(narrow<std::int64_t>(extent));
  const int filters = narrow<int>(checked(H5Pget_nfilters(options), "read the layout of", name));
  for (int i = 0; i < filters; ++i)
    if (!note_filter(options, static_cast<unsigned>(i), layout)) return std::nullopt;
  return layout;
}

std::vector<std::filesystem::path> Hdf5File::require_stored(const std::string& name) {
  const LibraryLock lock;
  return hdf5::require_stored(dataset(name), name, path_);
}

std::int64_t Hdf5File::stored_bytes(const std::string& name) {
  const LibraryLock lock;
  return narrow<std::int64_t>(H5Dget_storage_size(dataset(name)));
}

std::uint32_t Hdf5File::read_chunk(const std::string& name, const Extents& offset, std::size_t most,
                                   std::vector<std::byte>& bytes) {
  const LibraryLock lock;
  const Id id = dataset(name);
  const auto at = hdf5::sizes(offset);
  hsize_t size = 0;
  checked(H5Dget_chunk_storage_size(id, at.data(), &size), "find a chunk of", name);
  if (size == 0 || size > most)
    fail(fmt::format("{}: a chunk of {} bytes, expected 1 to {}", name, size, most));
  bytes.resize(size);
  std::uint32_t skipped = 0;
  checked(H5Dread_chunk(id, H5P_DEFAULT, at.data(), &skipped, bytes.data()), "read a chunk of",
          name);
  return skipped;
}

}  // namespace halomesh
