// SPDX-License-Identifier: Apache-2.0
// What users are told of what the operating system refused.
#include "system_error.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <system_error>

namespace halomesh {
namespace {

TEST_CASE("a refusal names action, path and reason, and gives the reason's own hint") {
  const Error missing = system_error("open", "/a/b", ENOENT, "check /a");
  CHECK(missing.what() == std::string("cannot open /a/b: No such file or directory"));
  CHECK(missing.hint() == "check /a");
  for (const int reason : {ENAMETOOLONG, ELOOP, EROFS, ENOSPC, EDQUOT}) {
    CAPTURE(reason);
    const std::string hint = system_error("write", "/a", reason, "check /a").hint();
    CHECK(hint != "check /a");
    CHECK(!hint.empty());
  }
}

TEST_CASE("exceptions of the standard library become errors with a hint") {
  const Error loop = as_error(std::filesystem::filesystem_error(
      "status", "/a", std::make_error_code(std::errc::too_many_symbolic_link_levels)));
  CHECK(loop.what() == std::string("cannot use /a: Too many levels of symbolic links"));
  CHECK(loop.hint() == path_hint(ELOOP, ""));
  CHECK(!as_error(std::bad_alloc()).hint().empty());
  const Error own = as_error(Error("broken", "mend it"));
  CHECK(own.what() == std::string("broken"));
  CHECK(own.hint() == "mend it");
  CHECK(as_error(std::runtime_error("odd")).what() == std::string("odd"));
}

}  // namespace
}  // namespace halomesh
