// SPDX-License-Identifier: Apache-2.0
// Files that are replaced whole, and targets that are not files: links, devices, FIFOs,
// descriptors.
#include "runtime/posix/atomic_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <future>
#include <string>

#include "runtime/posix/descriptor.hpp"
#include "test/harness/full_disk.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

/// By both ways: text at once, and a temporary that is committed.
void write_twice(const fs::path& path, const std::string& text) {
  write_file_atomically(path, text);
  AtomicFile file(path, AtomicFile::Writers::kSeveral);
  put_contents(file.temporary_path(), text);
  file.commit();
}

TEST_CASE("atomic file: a link stays and its target is replaced") {
  const TempDirectory directory;
  fs::create_directories(directory / "there");
  put_contents(directory / "there/old.json", "old");
  fs::create_symlink("there/old.json", directory / "relative");
  fs::create_symlink(directory / "relative", directory / "two");
  fs::create_symlink("there/none.json", directory / "dangling");
  for (const char* link : {"relative", "two", "dangling"}) {
    CAPTURE(link);
    write_twice(directory / link, link);
    CHECK(fs::is_symlink(directory / link));
    CHECK(contents(directory / link) == link);
  }
  CHECK(contents(directory / "there/old.json") == "two");
  CHECK(contents(directory / "there/none.json") == "dangling");
  CHECK(std::distance(fs::directory_iterator(directory / "there"), fs::directory_iterator()) == 2);
  fs::create_symlink("loop", directory / "loop");
  CHECK(contains(error_of([&] { write_file_atomically(directory / "loop", "x"); }), "links"));
  CHECK(fs::is_symlink(directory / "loop"));
}

// Links to devices: the devices themselves are not put at risk.
TEST_CASE("atomic file: a device is written to, and one that is full is an error") {
  const TempDirectory directory;
  fs::create_symlink("/dev/null", directory / "null");
  fs::create_symlink("/dev/full", directory / "full");
  require_writable(directory / "null");
  write_twice(directory / "null", "text");
  require_writable(directory / "full");
  CHECK(contains(error_of([&] { write_file_atomically(directory / "full", "text"); }),
                 "No space left"));
  CHECK(contains(error_of([&] { write_twice(directory / "full", "text"); }), "No space left"));
  for (const char* name : {"null", "full"}) CHECK(fs::is_character_file(directory / name));
  CHECK(directory.entries() == 2);
}

TEST_CASE("atomic file: the reader of a FIFO gets the text") {
  const TempDirectory directory;
  const fs::path fifo = directory / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  require_writable(fifo);
  const std::string text(100000, 'x');  // more than a pipe holds
  for (const bool committed : {false, true}) {
    auto got = std::async(std::launch::async, [&] { return contents(fifo); });
    if (committed) {
      AtomicFile file(fifo);
      put_contents(file.temporary_path(), text);
      file.commit();
    } else {
      write_file_atomically(fifo, text);
    }
    CHECK(got.get() == text);
    CHECK(fs::is_fifo(fifo));
  }
  CHECK(directory.entries() == 1);
}

TEST_CASE("atomic file: a descriptor of this process is written to where it stands") {
  const TempDirectory directory;
  const Descriptor file(::open((directory / "log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(file.get() >= 0);
  const std::string name = fmt::format("/dev/fd/{}", file.get());
  require_writable(name);
  for (const char* text : {"one ", "two ", "three"}) write_file_atomically(name, text);
  CHECK(contents(directory / "log") == "one two three");
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const Descriptor reader(ends[0]), writer(ends[1]);
  write_file_atomically(fmt::format("/proc/self/fd/{}", writer.get()), "text");
  std::array<char, 8> got{};
  CHECK(::read(reader.get(), got.data(), got.size()) == 4);
  CHECK(std::string(got.data()) == "text");
  CHECK(contains(error_of([] { write_file_atomically("/dev/fd/987654", "x"); }), "/dev/fd/987654"));
}

TEST_CASE("atomic file: a limit on the size of files leaves the old one and no other") {
  const TempDirectory directory;
  write_file_atomically(directory / "file", "old");
  {
    const FileSizeLimit limit(1000);
    const std::string error =
        error_of([&] { write_file_atomically(directory / "file", std::string(5000, 'x')); });
    CHECK(contains(error, "File too large"));
    CHECK(contains(error, "ulimit -f"));
  }
  CHECK(contents(directory / "file") == "old");
  CHECK(directory.entries() == 1);
}

}  // namespace
}  // namespace halomesh
