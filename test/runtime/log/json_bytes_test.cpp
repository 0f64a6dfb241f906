// SPDX-License-Identifier: Apache-2.0
// Texts of any bytes in JSON: read back the same, and as Python reads them.
#include "runtime/log/json_bytes.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace halomesh {

TEST_CASE("JSON: any bytes come back the same, and UTF-8 is as the library writes it") {
  std::string all;
  for (int byte = 1; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::vector<std::string> texts = {"",
                                          "/data/caf\xe9",
                                          "caf\xc3\xa9",
                                          all,
                                          "\xf0\x9f\x98\x80",
                                          "\\udc80 \\\\udc80",
                                          "\xed\xa0\x80",
                                          "\xf4\x8f\xbf\xbf",
                                          "\xf4\x8f\xbe",
                                          "\xe2\x82",
                                          "\xc0\xaf \xff\xfe",
                                          "\"\n\t\x7f"};
  for (const std::string& text : texts) {
    const nlohmann::json json = {{"path", text}, {"list", {1, text, nullptr, {{"deep", text}}}}};
    for (const int indent : {-1, 2}) {
      const std::string written = dump_json(json, indent);
      CHECK(parse_json(written) == json);
      CHECK(dump_json(nlohmann::ordered_json(json), indent).size() == written.size());
    }
  }
  const nlohmann::json plain = {{"a", "caf\xc3\xa9 \xf0\x9f\x98\x80"}, {"b", 0.1}};
  CHECK(dump_json(plain) == plain.dump());
  CHECK(dump_json(nlohmann::json("caf\xe9/\xff")) == R"("caf\udce9/\udcff")");
}

TEST_CASE("JSON: escapes of other programs are read as the library reads them") {
  for (const char* text :
       {R"("\ud83d\ude00 \u00e9 \\udce9")", R"(["\ud83d\udcab", "\u0041"])", "{\"a\":1}"})
    CHECK(parse_json(text) == nlohmann::json::parse(text));
  CHECK(parse_json(R"("\ud83d\udcab\udcab")") == nlohmann::json("\xf0\x9f\x92\xab\xab"));
  for (const char* text : {"", "{", R"("\ud83d")", R"("\udc7f")", R"("\ud)", "\"\\", "\"\xe9\""})
    CHECK(parse_json(text).is_discarded());
}

}  // namespace halomesh
