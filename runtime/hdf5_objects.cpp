// Attributes and datasets of HDF5 files: see hdf5_file.hpp.
// Knows nothing of what they mean, nor of ranks.
#include <algorithm>
#include <utility>

#include "error.hpp"
#include "narrow.hpp"
#include "runtime/hdf5_file.hpp"
#include "runtime/hdf5_library.hpp"

namespace halomesh {

using hdf5::Handle;
using hdf5::Turn;

namespace {

std::string label_of(const std::string& object, const std::string& name) {
  return cat("attribute ", name, " of ", object);
}

}  // namespace

bool Hdf5File::has_attribute(const std::string& object, const std::string& name) const {
  const Turn turn;
  return checked(H5Aexists_by_name(file_, object.c_str(), name.c_str(), H5P_DEFAULT),
                 "look for attributes of", object) > 0;
}

std::vector<std::string> Hdf5File::attribute_names(const std::string& object) const {
  const Turn turn;
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
  const Turn turn;
  make_attribute(object, name, hdf5::native_type(type), value);
}

void Hdf5File::write_text(const std::string& object, const std::string& name,
                          const std::string& value) {
  const Turn turn;
  // Of fixed length: texts of variable length lie in memory that HDF5 does not checksum.
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  const std::string label = label_of(object, name);
  checked(H5Tset_size(type, std::max<std::size_t>(value.size(), 1)), "set the type of", label);
  checked(H5Tset_strpad(type, H5T_STR_NULLPAD), "set the type of", label);
  checked(H5Tset_cset(type, H5T_CSET_UTF8), "set the type of", label);
  make_attribute(object, name, type, value.c_str());
}

void Hdf5File::read_number(const std::string& object, const std::string& name, Hdf5Type type,
                           void* value) const {
  const Turn turn;
  const std::string label = label_of(object, name);
  const Handle id(
      checked(H5Aopen_by_name(file_, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
              "read", label),
      H5Aclose);
  const Handle stored(checked(H5Aget_type(id), "read", label), H5Tclose);
  const Handle space(checked(H5Aget_space(id), "read", label), H5Sclose);
  const hid_t native = hdf5::native_type(type);
  if (H5Sget_simple_extent_npoints(space) != 1 || !hdf5::same_kind(stored, native))
    fail(cat(label, ": expected one ", hdf5::describe_type(native), ", found ",
             H5Sget_simple_extent_npoints(space), " of ", hdf5::describe_type(stored)));
  checked(H5Aread(id, native, value), "read", label);
}

std::string Hdf5File::read_text(const std::string& object, const std::string& name) const {
  const Turn turn;
  const std::string label = label_of(object, name);
  const Handle id(
      checked(H5Aopen_by_name(file_, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
              "read", label),
      H5Aclose);
  const Handle stored(checked(H5Aget_type(id), "read", label), H5Tclose);
  const Handle space(checked(H5Aget_space(id), "read", label), H5Sclose);
  if (H5Sget_simple_extent_npoints(space) != 1 || H5Tget_class(stored) != H5T_STRING ||
      H5Tis_variable_str(stored) > 0)
    fail(cat(label, ": expected one text of fixed length, found ",
             H5Sget_simple_extent_npoints(space), " of ", hdf5::describe_type(stored)));
  std::string text(H5Tget_size(stored), '\0');
  checked(H5Aread(id, stored, text.data()), "read", label);
  return text.substr(0, text.find('\0'));
}

void Hdf5File::create_dataset(const std::string& name, Hdf5Type type, const Extents& extents,
                              const DatasetLayout& layout) {
  const Turn turn;
  const auto dims = hdf5::sizes(extents), chunk = hdf5::sizes(layout.chunk);
  const Handle space(checked(H5Screate_simple(narrow<int>(dims.size()), dims.data(), nullptr),
                             "create dataset", name),
                     H5Sclose);
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links, 1);
  const Handle options(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  const auto set = [&](herr_t result) { checked(result, "set the layout of", name); };
  set(H5Pset_obj_track_times(options, false));  // the same content makes the same bytes
  if (!chunk.empty()) set(H5Pset_chunk(options, narrow<int>(chunk.size()), chunk.data()));
  if (layout.shuffle) set(H5Pset_shuffle(options));
  if (layout.gzip > 0) set(H5Pset_deflate(options, static_cast<unsigned>(layout.gzip)));
  if (layout.filter)
    set(H5Pset_filter(options, layout.filter->number, H5Z_FLAG_OPTIONAL,
                      layout.filter->values.size(), layout.filter->values.data()));
  // Last, so that it covers the bytes as they lie in the file.
  if (layout.checksum) set(H5Pset_fletcher32(options));
  datasets_[name] = checked(
      H5Dcreate2(file_, name.c_str(), hdf5::native_type(type), space, links, options, H5P_DEFAULT),
      "create dataset", name);
}

Hdf5File::Id Hdf5File::dataset(const std::string& name) {
  const auto found = datasets_.find(name);
  if (found != datasets_.end()) return found->second;
  const Id id = checked(H5Dopen2(file_, name.c_str(), H5P_DEFAULT), "open dataset", name);
  return datasets_[name] = id;
}

Extents Hdf5File::extents(const std::string& name) {
  const Turn turn;
  const Handle space(checked(H5Dget_space(dataset(name)), "read the extents of", name), H5Sclose);
  const Id rank = checked(H5Sget_simple_extent_ndims(space), "read the extents of", name);
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  checked(H5Sget_simple_extent_dims(space, dims.data(), nullptr), "read the extents of", name);
  Extents result;
  for (hsize_t extent : dims) result.push_back(narrow<std::int64_t>(extent));
  return result;
}

bool Hdf5File::holds(const std::string& name, Hdf5Type type) {
  const Turn turn;
  const Handle stored(checked(H5Dget_type(dataset(name)), "read the type of", name), H5Tclose);
  return hdf5::same_kind(stored, hdf5::native_type(type));
}

void Hdf5File::transfer(const std::string& name, const Slab& slab, std::size_t values,
                        Hdf5Type type, void* destination, const void* source) {
  const Turn turn;
  const hid_t native = hdf5::native_type(type);
  const Id id = dataset(name);
  const char* const action = destination != nullptr ? "read" : "write";
  const Handle stored(checked(H5Dget_type(id), action, name), H5Tclose);
  if (!hdf5::same_kind(stored, native))
    fail(cat(name, " holds ", hdf5::describe_type(stored), ", expected ",
             hdf5::describe_type(native)));
  const Handle space(checked(H5Dget_space(id), action, name), H5Sclose);
  const auto offset = hdf5::sizes(slab.offset), count = hdf5::sizes(slab.count);
  std::size_t volume = 1;
  for (hsize_t extent : count) volume *= extent;
  if (offset.size() != count.size() || volume != values ||
      H5Sget_simple_extent_ndims(space) != static_cast<int>(count.size()))
    fail(cat(name, ": a block of ", volume, " elements on ", count.size(),
             " axes does not fit the dataset or the ", values, " values given"));
  if (volume == 0) return;
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

}  // namespace halomesh
