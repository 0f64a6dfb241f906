// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/html_page.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "test/apps/report/sample_page.hpp"
#include "test/apps/report/well_formed.hpp"

namespace halomesh {
namespace {

using test::count_of;

TEST_CASE("a page with hostile texts is well-formed, and its ids are unique") {
  const std::string page = html(test::sample_page(1000));
  test::XmlReader reader(page);
  CHECK(reader.fault() == "");
  CHECK(reader.elements() > 2000);
  CHECK(count_of(page, "<script>alert") == 0);
  CHECK(count_of(page, "&lt;script&gt;alert(1)") == 2);  // <title> and <h1>
}

TEST_CASE("the reader of XML finds what is not well-formed") {
  CHECK(test::XmlReader("<a id=\"x\"><b/>&amp;</a>").fault() == "");
  for (const char* text : {"", "<a>", "<a></b>", "<a>&</a>", "<a b=c/>", "<a/><b/>", "<a x=\"<\"/>",
                           "<a b=\"\" b=\"\"/>", "<a><b id=\"x\"/><b id=\"x\"/></a>"}) {
    CAPTURE(text);
    CHECK(test::XmlReader(text).fault() != "");
  }
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

TEST_CASE("a page asks nothing of any server") {
  const std::string page = html(test::sample_page(10));
  for (const char* part : {"src=", "@import", "url(http", "url(\"", "href=\"http", "fetch("}) {
    CAPTURE(part);
    CHECK(count_of(page, part) == 0);
  }
  CHECK(count_of(page, "http") == count_of(page, "http://www.w3.org/"));  // names of XML alone
}

TEST_CASE("equal ids of figures and sections become different") {
  Page page;
  page.sections = {{.id = "time", .figures = {{.id = "time"}, {.id = "time"}}}};
  const std::string text = html(page);
  CHECK(test::XmlReader(text).fault() == "");
  CHECK(count_of(text, "<figure id=\"time-2\">") == 1);
  CHECK(count_of(text, "<figure id=\"time-3\">") == 1);
}

TEST_CASE("five curves of 100,000 steps make a page of less than 2 MB") {
  Page page;
  page.sections = {{.id = "curves", .figures = {{.id = "loss"}}}};
  for (int run = 0; run < 5; ++run)
    page.sections[0].figures[0].series.push_back(test::noisy_curve("run", 100000, 1 + run));
  const std::string text = html(page);
  CHECK(text.size() > 10000);
  CHECK(text.size() < 2000000);
}

// For a look at it, and for the test in a browser.
TEST_CASE("the sample page is written where HALOMESH_SAMPLE_PAGE says") {
  const std::string page = html(test::sample_page());
  CHECK(page.size() > 10000);
  if (const char* path = std::getenv("HALOMESH_SAMPLE_PAGE")) {
    std::ofstream file(path);
    file << page;
    CHECK(file.good());
  }
}

}  // namespace
}  // namespace halomesh
