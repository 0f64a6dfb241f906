// Locks on directories: one holder, named, and nothing left behind.
// Knows nothing of what is written.
#include "runtime/directory_lock.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "test/runtime/temp_files.hpp"

namespace halomesh {
namespace {

TEST_CASE("directory lock: one holder at a time, who is named to others") {
  const TempDirectory directory;
  std::optional<DirectoryLock> first(std::in_place, directory.path());
  CHECK(first->effective());
  const std::string error = error_of([&] { const DirectoryLock second(directory.path()); });
  CHECK(contains(error, directory.path().string() + " is being written to by process"));
  CHECK(contains(error, cat("process ", ::getpid(), " on ")));
  first.reset();
  CHECK(directory.entries() == 0);
  { const DirectoryLock third(directory.path()); }
  CHECK(directory.entries() == 0);
}

TEST_CASE("directory lock: what a dead holder left does not matter; a link is refused") {
  const TempDirectory directory;
  put_contents(directory / ".lock", "process 1 on a host that is long gone");
  { const DirectoryLock lock(directory.path()); }
  CHECK(directory.entries() == 0);
  put_contents(directory / "other", "mine");
  std::filesystem::create_symlink("other", directory / ".lock");
  CHECK(contains(error_of([&] { const DirectoryLock lock(directory.path()); }), "cannot create"));
  CHECK(contents(directory / "other") == "mine");
  CHECK(contains(error_of([&] { const DirectoryLock lock(directory / "none"); }), "No such file"));
}

}  // namespace
}  // namespace halomesh
