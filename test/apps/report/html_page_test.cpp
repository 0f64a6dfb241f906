// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/html_page.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "test/apps/report/sample_page.hpp"

namespace halomesh {
namespace {

// For a browser test, which opens it: test/system/report_browser_test.mjs.
TEST_CASE("the sample page is written where HALOMESH_SAMPLE_PAGE says") {
  const std::string page = html(test::sample_page());
  CHECK(page.size() > 10000);
  CHECK(page.size() < 2000000);
  if (const char* path = std::getenv("HALOMESH_SAMPLE_PAGE")) {
    std::ofstream file(path);
    file << page;
    CHECK(file.good());
  }
}

}  // namespace
}  // namespace halomesh
