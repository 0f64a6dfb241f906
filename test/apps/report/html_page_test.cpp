// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/html_page.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "test/apps/report/sample_page.hpp"
#include "test/apps/report/xml_check.hpp"

namespace halomesh {
namespace {

TEST_CASE("a page is well-formed whatever its texts hold") {
  const std::string page = html(test::sample_page(2000));
  CHECK(test::xml_fault(page) == "");
  CHECK(page.find("<script>alert") == std::string::npos);
  CHECK(page.find(R"("name": "\u003c/script\u003e)") != std::string::npos);
  CHECK(test::xml_fault("<a><b></a>") != "");  // the check itself
  CHECK(test::xml_fault("<a b=\"1\" b=\"2\"/>") != "");
}

TEST_CASE("a page asks nothing of the network and says the verdict first") {
  const std::string page = html(test::sample_page(2000));
  for (const char* link : {"src=", "url(http", "@import", "<link rel=\"stylesheet\"", "fetch("}) {
    CHECK(page.find(link) == std::string::npos);
  }
  const std::size_t verdict = page.find("class=\"verdict\""),
                    warnings = page.find("class=\"warnings\"");
  const std::size_t section = page.find("<h2 id=\"options\">");
  REQUIRE(section != std::string::npos);
  CHECK(verdict < warnings);
  CHECK(warnings < section);
}

TEST_CASE("equal ids get numbers, and the contents lead to them") {
  Page page;
  page.sections = {{"same", "A", {}, {Figure{.id = "same"}}, {}}, {"same", "B", {}, {}, {}}};
  const std::string out = html(page);
  CHECK(test::xml_fault(out) == "");
  CHECK(out.find("href=\"#same-2\">B<") != std::string::npos);
}

// test/system/report_browser_test.mjs opens what is written here.
TEST_CASE("five runs of 100,000 steps make a page of less than 2 MB") {
  Page sample = test::sample_page();
  for (int i = 0; i < 5; ++i)
    sample.sections[1].figures[0].series.push_back(test::noisy_curve("run", 100000, 1));
  const std::string page = html(sample);
  CHECK(page.size() > 100000);
  CHECK(page.size() < 2000000);
  if (const char* path = std::getenv("HALOMESH_SAMPLE_PAGE")) {
    std::ofstream file(path);
    file << page;
    CHECK(file.good());
  }
}

}  // namespace
}  // namespace halomesh
