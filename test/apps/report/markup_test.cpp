// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/markup.hpp"

#include <doctest/doctest.h>

#include <string>

namespace halomesh {
namespace {

const std::string kReplaced = "\xEF\xBF\xBD";

TEST_CASE("markup in a text is escaped") {
  CHECK(escaped("<a href=\"x\">'&'</a>") ==
        "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
  CHECK(escaped("line\n\ttab") == "line\n\ttab");
}

TEST_CASE("what is no character of XML is replaced") {
  CHECK(escaped(std::string("a\0b\x1F\x7F", 5)) == "a" + kReplaced + "b" + kReplaced + kReplaced);
  CHECK(escaped("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80") ==
        "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  CHECK(escaped("\xC3") == kReplaced);                                  // cut off
  CHECK(escaped("\xC0\xAF") == kReplaced + kReplaced);                  // an overlong '/'
  CHECK(escaped("\xED\xA0\x80") == kReplaced + kReplaced + kReplaced);  // a surrogate
  CHECK(escaped("\xEF\xBF\xBF") == kReplaced + kReplaced + kReplaced);  // U+FFFF
}

TEST_CASE("ids begin with a letter and hold no spaces") {
  CHECK(anchor("time to solution") == "time-to-solution");
  CHECK(anchor("2a\"><") == "n2a---");
  CHECK(anchor("") == "n");
}

TEST_CASE("pixels have at most one decimal") {
  CHECK(px(12) == "12");
  CHECK(px(0.04) == "0");
  CHECK(px(-3.26) == "-3.3");
}

TEST_CASE("texts are cut between characters") {
  CHECK(shortened("halo", 4) == "halo");
  CHECK(shortened("halos", 4) == "hal\xE2\x80\xA6");
  CHECK(shortened("\xC3\xA9\xC3\xA9\xC3\xA9", 2) == "\xC3\xA9\xE2\x80\xA6");
}

TEST_CASE("text becomes well-formed whatever it holds") {
  CHECK(escaped("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&#39;");
  CHECK(escaped("\xC3\xA9 \xFF \x01") == "\xC3\xA9 \xEF\xBF\xBD \xEF\xBF\xBD");
  CHECK(escaped("\xE2\x82") == "\xEF\xBF\xBD\xEF\xBF\xBD");          // cut off
  CHECK(escaped("\xED\xA0\x80").find('\xED') == std::string::npos);  // half a surrogate pair
  CHECK(anchor("2 runs <x>") == "n2-runs--x-");
  CHECK(shortened("abcdef", 6) == "abcdef");
  CHECK(shortened("abcdefg", 6) == "abcde…");
  CHECK(px(12.04) == "12");
  CHECK(px(-0.04) == "0");
}

}  // namespace
}  // namespace halomesh
