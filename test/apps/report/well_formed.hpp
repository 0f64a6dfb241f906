// SPDX-License-Identifier: Apache-2.0
// Whether a text is well-formed XML, as far as pages and figures of a report use it.
#pragma once

#include <cctype>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace halomesh::test {

/// Reads elements, attributes, the five entities, CDATA sections, comments and a document type.
class XmlReader {
 public:
  explicit XmlReader(std::string_view text) : text_(text) {}

  /// "" if the text is one well-formed element in which no id occurs twice; else what is wrong.
  std::string fault() {
    if (starts("<!DOCTYPE")) skip_past(">");
    while (fault_.empty() && at_ < text_.size()) step();
    if (fault_.empty() && !open_.empty()) fail("not closed: " + open_.back());
    if (fault_.empty() && elements_ == 0) fail("no element");
    return fault_;
  }
  std::size_t elements() const { return elements_; }

 private:
  bool starts(std::string_view with) const { return text_.substr(at_, with.size()) == with; }
  void fail(const std::string& what) {
    if (fault_.empty()) fault_ = what + " before: " + std::string(text_.substr(at_, 60));
  }
  void skip_past(std::string_view end) {
    const std::size_t found = text_.find(end, at_);
    if (found == std::string_view::npos) fail("no " + std::string(end));
    at_ = found == std::string_view::npos ? text_.size() : found + end.size();
  }
  void skip_spaces() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  std::string name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  text_[at_] == '-' || text_[at_] == ':'))
      ++at_;
    if (begin == at_) fail("no name");
    return std::string(text_.substr(begin, at_ - begin));
  }
  /// Character data up to `end`.
  std::string characters(char end) {
    const std::size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] != end; ++at_) {
      if (text_[at_] == '<') fail("a '<'");
      if (text_[at_] == '&' && !starts("&amp;") && !starts("&lt;") && !starts("&gt;") &&
          !starts("&quot;") && !starts("&#39;"))
        fail("an '&'");
      if (static_cast<unsigned char>(text_[at_]) < 0x20 && text_[at_] != '\n' && text_[at_] != '\t')
        fail("a control character");
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  void step() {
    if (starts("<![CDATA[")) {
      skip_past("]]>");
    } else if (starts("<!--")) {
      skip_past("-->");
    } else if (starts("</")) {
      at_ += 2;
      const std::string closed = name();
      if (open_.empty() || open_.back() != closed) return fail("closes " + closed);
      open_.pop_back();
      skip_past(">");
    } else if (starts("<")) {
      ++at_;
      element();
    } else {
      const std::string between = characters('<');
      if (open_.empty() && between.find_first_not_of(" \n") != std::string::npos)
        fail("text outside of the element");
    }
  }

  void element() {
    if (open_.empty() && elements_ > 0) return fail("a second element");
    ++elements_;
    open_.push_back(name());
    std::set<std::string> attributes;
    for (skip_spaces(); fault_.empty() && !starts(">") && !starts("/>"); skip_spaces()) {
      const std::string attribute = name();
      if (!attributes.insert(attribute).second) fail("twice: " + attribute);
      if (!starts("=\"")) return fail("no value of " + attribute);
      at_ += 2;
      const std::string value = characters('"');
      ++at_;
      if (attribute == "id" && !ids_.insert(value).second) fail("id twice: " + value);
    }
    if (starts("/>")) open_.pop_back();
    at_ += starts("/>") ? 2 : 1;
  }

  std::string_view text_;
  std::size_t at_ = 0, elements_ = 0;
  std::vector<std::string> open_;
  std::set<std::string> ids_;
  std::string fault_;
};

inline std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

}  // namespace halomesh::test
