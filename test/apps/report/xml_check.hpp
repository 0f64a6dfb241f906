// SPDX-License-Identifier: Apache-2.0
// A small strict check that a text is well-formed XML without a DTD of its own.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace halomesh::test {

/// "" or what is wrong and where: tags that do not match, attributes without quotes or given twice,
/// ids that are not unique, a bare '&' or '<', control characters.
inline std::string xml_fault(const std::string& text) {
  const auto at = [&](const char* what, std::size_t i) {
    return what + (" at " + std::to_string(i)) + ": " + text.substr(i, 60);
  };
  const auto name_end = [&](std::size_t i) { return text.find_first_of(" \t\n/>=", i); };
  const auto bad_entity = [&](std::size_t i) {
    for (const char* good : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}) {
      if (text.compare(i, std::string_view(good).size(), good) == 0) return false;
    }
    return true;
  };
  std::vector<std::string> open;
  std::set<std::string> ids;
  std::size_t elements = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t')
      return at("control character", i);
    if (c == '&' && bad_entity(i)) return at("bare &", i);
    if (c != '<') continue;
    if (text.compare(i, 9, "<![CDATA[") == 0) {
      i = text.find("]]>", i) + 2;
    } else if (text.compare(i, 9, "<!DOCTYPE") == 0) {
      i = text.find('>', i);
    } else if (text[i + 1] == '/') {
      const std::string name = text.substr(i + 2, name_end(i + 2) - i - 2);
      if (open.empty() || open.back() != name) return at("closing tag without its opening", i);
      open.pop_back();
      i = text.find('>', i);
    } else {
      std::size_t k = name_end(i + 1);
      if (k == std::string::npos || k == i + 1) return at("bare <", i);
      const std::string name = text.substr(i + 1, k - i - 1);
      std::set<std::string> attributes;
      while (text[k] == ' ' || text[k] == '\n') {
        const std::size_t equals = name_end(k + 1);
        const std::string attribute = text.substr(k + 1, equals - k - 1);
        if (text.compare(equals, 2, "=\"") != 0) return at("attribute without value", k);
        const std::size_t end = text.find('"', equals + 2);
        const std::string value = text.substr(equals + 2, end - equals - 2);
        if (value.find('<') != std::string::npos) return at("< in an attribute", k);
        for (auto e = value.find('&'); e != std::string::npos; e = value.find('&', e + 1)) {
          if (bad_entity(equals + 2 + e)) return at("bare & in an attribute", k);
        }
        if (!attributes.insert(attribute).second) return at("attribute given twice", k);
        if (attribute == "id" && !ids.insert(value).second) return at("id given twice", k);
        k = end + 1;
      }
      const bool closed = text[k] == '/';
      if (text[k + (closed ? 1 : 0)] != '>') return at("tag does not end", i);
      if (!closed) open.push_back(name);
      i = k + (closed ? 1 : 0);
      ++elements;
    }
  }
  if (!open.empty()) return "not closed: " + open.back();
  return elements == 0 ? "no element" : "";
}

}  // namespace halomesh::test
