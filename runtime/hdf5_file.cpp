// HDF5 files, their groups and their end: see hdf5_file.hpp.
// Knows nothing of what the files mean, nor of ranks.
#include "runtime/hdf5_file.hpp"

#include <system_error>
#include <utility>

#include "error.hpp"
#include "runtime/hdf5_library.hpp"

namespace halomesh {

using hdf5::Handle;
using hdf5::reason;
using hdf5::Turn;

namespace {

/// For opening and creating files; to be closed by the caller.
hid_t file_access() {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  bool set = H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_LATEST) >= 0 &&
             H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) >= 0;
#if H5_VERSION_GE(1, 13, 0) || (H5_VERS_MINOR == 12 && H5_VERS_RELEASE >= 1) || \
    (H5_VERS_MINOR == 10 && H5_VERS_RELEASE >= 7)
  // Some parallel file systems have no locks. New files are nobody else's before they are whole.
  set = set && H5Pset_file_locking(access, false, true) >= 0;
#endif
  require(set, cat("HDF5 does not know the file format 1.10: ", reason()),
          "link with HDF5 1.10 or newer");
  return access;
}

}  // namespace

Hdf5File::Hdf5File(std::filesystem::path path, bool writable)
    : path_(std::move(path)), writable_(writable) {}

Hdf5File::Hdf5File(Hdf5File&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      writable_(other.writable_),
      datasets_(std::exchange(other.datasets_, {})) {}

Hdf5File::~Hdf5File() {
  try {
    close();
  } catch (const Error&) {  // who needs to know has called close()
  }
}

void Hdf5File::fail(const std::string& what) const {
  throw Error(cat(path_.string(), ": ", what),
              writable_ ? "check that the directory may be written to and has space left"
                        : "check that this is the right file; a damaged one must be made again");
}

Hdf5File::Id Hdf5File::checked(Id result, const char* action, const std::string& object) const {
  if (result < 0) fail(cat("cannot ", action, " ", object, ": ", reason()));
  return result;
}

Hdf5File Hdf5File::open(const std::filesystem::path& path) {
  const Turn turn;
  const Handle access(file_access(), H5Pclose);
  Hdf5File file(path, false);
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    file.fail(cat("cannot open: ", error ? error.message() : "no such file"));
  if (!std::filesystem::is_regular_file(status)) file.fail("is not a regular file");
  file.file_ = file.checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), "open", "it as HDF5");
  return file;
}

Hdf5File Hdf5File::create(const std::filesystem::path& path) {
  const Turn turn;
  const Handle access(file_access(), H5Pclose), layout(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  Hdf5File file(path, true);
  file.checked(H5Pset_obj_track_times(layout, false), "create", "it");  // same content, same bytes
  file.file_ = file.checked(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, layout, access), "create", "it");
  return file;
}

void Hdf5File::close() {
  if (file_ < 0) return;
  const Turn turn;
  std::string failure;
  const auto note = [&](herr_t result) {
    if (result < 0 && failure.empty()) failure = reason();
  };
  for (const auto& [name, id] : std::exchange(datasets_, {})) note(H5Dclose(id));
  const Id file = std::exchange(file_, -1);
  if (writable_) note(H5Fflush(file, H5F_SCOPE_GLOBAL));
  note(H5Fclose(file));  // failed or not, the identifier must not be used again
  if (!failure.empty()) fail(cat("cannot write it out: ", failure));
}

bool Hdf5File::contains(const std::string& name) const {
  const Turn turn;
  // The library asks for each group on the way to be asked about first.
  for (std::size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {
    if (name == "/") return true;
    const std::string head = name.substr(0, end);
    if (checked(H5Lexists(file_, head.c_str(), H5P_DEFAULT), "look for", head) == 0) return false;
    if (end == std::string::npos) return true;
  }
}

void Hdf5File::create_group(const std::string& name) {
  const Turn turn;
  if (contains(name)) return;
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links, 1);
  const Handle group(checked(H5Gcreate2(file_, name.c_str(), links, H5P_DEFAULT, H5P_DEFAULT),
                             "create group", name),
                     H5Gclose);
}

std::vector<std::string> Hdf5File::members(const std::string& group) const {
  const Turn turn;
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

}  // namespace halomesh
