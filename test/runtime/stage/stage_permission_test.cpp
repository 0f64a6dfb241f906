// SPDX-License-Identifier: Apache-2.0
// A stage's directory that may be read but not written to.
#include <doctest/doctest.h>
#include <unistd.h>

#include "runtime/stage/stage_directory.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

TEST_CASE("stage_directory: one that may be read and entered, but not written to, is refused") {
  namespace fs = std::filesystem;
  const TempDirectory temp;
  fs::create_directory(temp / "shown");
  using fs::perms;
  const perms enter = perms::owner_exec | perms::group_exec | perms::others_exec;
  fs::permissions(temp / "shown",
                  enter | perms::owner_read | perms::group_read | perms::others_read);
  fs::permissions(temp.path(), enter, fs::perm_options::add);
  // Root may write anywhere, so this checks as a user who does not own the directory.
  constexpr uid_t kNobody = 65534;
  const uid_t self = ::geteuid();
  if (self == 0) REQUIRE(::seteuid(kNobody) == 0);
  const std::string refused = error_of([&] { StageDirectory(temp / "shown"); });
  REQUIRE(::seteuid(self) == 0);
  CAPTURE(refused);
  CHECK(contains(refused, "cannot write to"));
  CHECK(contains(refused, "Permission denied"));
}

}  // namespace
}  // namespace halomesh
