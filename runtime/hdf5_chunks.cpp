// How datasets of HDF5 files lie in them, and their chunks as stored: see hdf5_file.hpp.
// Knows nothing of what they mean, nor of ranks.
#include <utility>

#include "error.hpp"
#include "narrow.hpp"
#include "runtime/hdf5_file.hpp"
#include "runtime/hdf5_library.hpp"

namespace halomesh {

using hdf5::Handle;
using hdf5::Turn;

namespace {

/// Notes filter number `index` of a dataset's; false when it is another or out of order.
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

std::optional<DatasetLayout> Hdf5File::layout(const std::string& name) {
  const Turn turn;
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

std::int64_t Hdf5File::stored_bytes(const std::string& name) {
  const Turn turn;
  return narrow<std::int64_t>(H5Dget_storage_size(dataset(name)));
}

std::uint32_t Hdf5File::read_chunk(const std::string& name, const Extents& offset, std::size_t most,
                                   std::vector<std::byte>& bytes) {
  const Turn turn;
  const Id id = dataset(name);
  const auto at = hdf5::sizes(offset);
  hsize_t size = 0;
  checked(H5Dget_chunk_storage_size(id, at.data(), &size), "find a chunk of", name);
  if (size == 0 || size > most)
    fail(cat(name, ": a chunk of ", size, " bytes, expected 1 to ", most));
  bytes.resize(size);
  std::uint32_t skipped = 0;
  checked(H5Dread_chunk(id, H5P_DEFAULT, at.data(), &skipped, bytes.data()), "read a chunk of",
          name);
  return skipped;
}

}  // namespace halomesh
