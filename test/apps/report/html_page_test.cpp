// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/html_page.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
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
  std::size_t names = 0;  // of XML, which are not fetched
  for (std::size_t at = page.find("http"); at != std::string::npos; at = page.find("http", at + 1))
    names += page.compare(at, 18, "http://www.w3.org/") == 0 ? 1 : 1000;
  CHECK(names >= 1);
  CHECK(names < 10);
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

// HALOMESH_SAMPLE_PAGE=FILE keeps the page, to be opened in a browser.
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

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("the numbers within a page are the JSON given") {
  const Page page = test::sample_page(10);
  const std::string text = html(page), begins = "type=\"application/json\">";
  const std::size_t begin = text.find(begins) + begins.size();
  const std::string json = text.substr(begin, text.find("</script>", begin) - begin);
  CHECK(json.find_first_of("<>&") == std::string::npos);
  CHECK(nlohmann::json::parse(json) == nlohmann::json::parse(page.raw_json));
}

TEST_CASE("verdict and warnings come first, sections and figures have headings and links") {
  const std::string page = html(test::sample_page(10));
  std::size_t last = 0;
  for (const char* part : {"<h1>", "class=\"verdict\"", "class=\"warnings\"", "<nav ", "<main "}) {
    CAPTURE(part);
    CHECK(count_of(page, part) == 1);
    CHECK(page.find(part) > last);
    last = page.find(part);
  }
  for (const char* id : {"options", "curves", "time", "scaling"}) {
    CAPTURE(id);
    CHECK(count_of(page, std::string("<a href=\"#") + id + "\">") == 1);
    CHECK(count_of(page, std::string("<h2 id=\"") + id + "\">") == 1);
  }
  CHECK(count_of(page, "<h3 id=") == 8);
  CHECK(count_of(page, "<details>") == 8);
}

}  // namespace
}  // namespace halomesh
