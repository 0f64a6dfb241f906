// SPDX-License-Identifier: Apache-2.0
// Atomic replacement of files: see atomic_file.hpp.
#include "runtime/posix/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "error.hpp"
#include "runtime/posix/descriptor.hpp"
#include "system_error.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".partial";

[[noreturn]] void fail(const char* action, const fs::path& path, int error_number) {
  throw system_error(action, path, error_number,
                     "check that its directory exists, may be written to and has space left");
}

/// The target of an output option.
struct OutputTarget {
  fs::path path;          // after following the links at its end
  bool streamed = false;  // a device, a FIFO, or a descriptor of this process
  int descriptor = -1;    // /dev/fd/N or /dev/stdout: shared with other writers
};

OutputTarget follow(const fs::path& path) {
  constexpr int kMostLinks = 40;  // the limit of Linux
  const fs::path own_descriptors = fmt::format("/proc/{}/fd", ::getpid());
  OutputTarget target{path};
  std::error_code error;
  for (int links = 0;; ++links) {
    const fs::path directory = target.path.has_parent_path() ? target.path.parent_path() : ".";
    if (fs::canonical(directory, error) == own_descriptors && !error) {
      const std::string name = target.path.filename().string();
      std::from_chars(name.data(), name.data() + name.size(), target.descriptor);
      break;
    }
    const fs::path link = fs::read_symlink(target.path, error);
    if (error) break;  // not a link
    if (links == kMostLinks) fail("write", path, ELOOP);
    target.path = directory / link;
  }
  const fs::file_status status = fs::status(target.path, error);
  target.streamed = target.descriptor >= 0 || (fs::exists(status) && !fs::is_directory(status) &&
                                               !fs::is_regular_file(status));
  return target;
}

/// Opens a target that is no regular file. A FIFO without a reader would block for ever, so it gets
/// ten seconds.
Descriptor open_stream(const OutputTarget& target, const fs::path& path) {
  using std::chrono::steady_clock;
  if (target.descriptor >= 0) {
    Descriptor copy(::fcntl(target.descriptor, F_DUPFD_CLOEXEC, 0));
    if (copy.get() < 0) fail("write", path, errno);
    return copy;
  }
  const auto end = steady_clock::now() + std::chrono::seconds(10);
  for (;;) {
    Descriptor stream(::open(target.path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    if (stream.get() >= 0) {
      ::fcntl(stream.get(), F_SETFL, ::fcntl(stream.get(), F_GETFL) & ~O_NONBLOCK);
      return stream;
    }
    if (errno != ENXIO || !fs::is_fifo(target.path)) fail("write", path, errno);
    if (steady_clock::now() > end)
      throw Error(fmt::format("cannot write {}: no process reads this FIFO", path.c_str()),
                  "start its reader first, or name a file");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// Writes all of `text`, unless the reader has left, as head does: it needs no more.
void write_all(const Descriptor& file, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const ssize_t count = ::write(file.get(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EPIPE) return;
    if (count < 0) fail("write", path, errno);
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

Descriptor open_file(const fs::path& path, int flags) {
  return Descriptor(::open(path.c_str(), flags | O_CLOEXEC, 0666));
}

/// Copies the content of a file to a target that is no regular file.
void stream_file(const fs::path& from, const OutputTarget& target, const fs::path& path) {
  const Descriptor file = open_file(from, O_RDONLY);
  if (file.get() < 0) fail("open", from, errno);
  Descriptor stream = open_stream(target, path);
  std::vector<char> piece(std::size_t{1} << 20);
  for (;;) {
    const ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("read", from, errno);
    if (count == 0) break;
    write_all(stream, {piece.data(), static_cast<std::size_t>(count)}, path);
  }
  if (!stream.close()) fail("write", path, errno);
}

}  // namespace

AtomicFile::AtomicFile(fs::path path, Writers writers) : path_(std::move(path)) {
  const OutputTarget target = follow(path_);
  target_ = target.path;
  streamed_ = target.streamed;
  std::string name = "." + target_.filename().string();
  if (writers == Writers::kSeveral || streamed_)
    name += fmt::format(".{}-{}", ::getpid(),
                        std::chrono::steady_clock::now().time_since_epoch().count());
  // Beside a device there may be no space, or no permission.
  temporary_ =
      (streamed_ ? fs::temp_directory_path() : target_.parent_path()) / name.append(kSuffix);
}

AtomicFile::~AtomicFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void AtomicFile::commit() {
  if (streamed_) {
    stream_file(temporary_, follow(path_), path_);
    return;
  }
  {
    Descriptor file = open_file(temporary_, O_RDWR);
    if (file.get() < 0) fail("open", temporary_, errno);
    if (::fsync(file.get()) != 0 || !file.close()) fail("write", path_, errno);
  }
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("rename to", path_, errno);
  committed_ = true;
  // The new name reaches the disk only with its directory. File systems that cannot fsync a
  // directory return EINVAL.
  const Descriptor directory =
      open_file(target_.has_parent_path() ? target_.parent_path() : ".", O_RDONLY | O_DIRECTORY);
  if (directory.get() < 0) fail("open the directory of", path_, errno);
  if (::fsync(directory.get()) != 0 && errno != EINVAL)
    fail("write the directory of", path_, errno);
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  if (const OutputTarget target = follow(path); target.streamed) {
    Descriptor stream = open_stream(target, path);
    write_all(stream, text, path);
    if (!stream.close()) fail("write", path, errno);
    return;
  }
  AtomicFile target(path, AtomicFile::Writers::kSeveral);
  {
    Descriptor file = open_file(target.temporary_path(), O_WRONLY | O_CREAT | O_TRUNC);
    if (file.get() < 0) fail("create", path, errno);
    write_all(file, text, path);
    if (!file.close()) fail("write", path, errno);
  }
  target.commit();
}

void require_writable(const fs::path& path) {
  if (fs::is_directory(path)) fail("write", path, EISDIR);
  if (const OutputTarget target = follow(path); target.streamed) {
    if (target.descriptor < 0 ? ::access(target.path.c_str(), W_OK) != 0
                              : ::fcntl(target.descriptor, F_GETFL) < 0)
      fail("write", path, errno);
    return;
  }
  const AtomicFile target(path, AtomicFile::Writers::kSeveral);
  if (open_file(target.temporary_path(), O_WRONLY | O_CREAT | O_EXCL).get() < 0)
    fail("create", path, errno);
}

void remove_partial_files(const fs::path& directory, std::string_view prefix) {
  std::error_code error;
  std::vector<fs::path> partial;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("." + std::string(prefix)) && name.ends_with(kSuffix))
      partial.push_back(entry->path());
  }
  for (const auto& path : partial)
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail("remove", path, errno);
}

}  // namespace halomesh
