// SPDX-License-Identifier: Apache-2.0
// Fills the templates of job scripts with values: see jobscript_template.hpp.
#include "src/apps/plan/jobscript_template.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "error.hpp"

namespace halomesh {
namespace {

const std::vector<std::string>& values_of(const std::string& name, const TemplateValues& values) {
  const auto found = values.find(name);
  if (found == values.end())
    throw Error(fmt::format("a template uses the unknown name {}", name),
                "install the templates that belong to this program");
  return found->second;
}

/// The name of the first placeholder from `begin` on, and its position.
struct Placeholder {
  std::string name;
  std::size_t begin = std::string::npos, end = std::string::npos;
};

Placeholder next_placeholder(const std::string& line, std::size_t begin) {
  const std::size_t at = line.find("@{", begin);
  const std::size_t close = line.find('}', at == std::string::npos ? line.size() : at);
  if (close == std::string::npos) return {};
  return {line.substr(at + 2, close - at - 2), at, close + 1};
}

std::string replaced(const std::string& line, const std::string& name, const std::string& value) {
  std::string text;
  std::size_t done = 0;
  for (Placeholder p = next_placeholder(line, 0); p.begin != std::string::npos;
       p = next_placeholder(line, p.end)) {
    text += line.substr(done, p.begin - done) +
            (p.name == name ? value : line.substr(p.begin, p.end - p.begin));
    done = p.end;
  }
  return text + line.substr(done);
}

/// Processes the lines of a template; a line is used if every block around it is on.
class Filler {
 public:
  Filler(std::filesystem::path directory, const TemplateValues& values)
      : directory_(std::move(directory)), values_(values) {}

  void add_file(const std::string& file) {
    std::ifstream lines(directory_ / file);
    const std::size_t open_before = blocks_.size();
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      try {
        add_line(line);
      } catch (const Error& error) {
        throw Error(fmt::format("{}:{}: {}", (directory_ / file).string(), number, error.what()),
                    error.hint());
      }
    }
    if (!lines.eof() || blocks_.size() != open_before)
      throw Error(fmt::format("{}{}", (directory_ / file).string(),
                              lines.eof() ? ": a block has no @end" : " cannot be read"),
                  "install the templates that belong to this program");
  }
  const std::string& text() const { return text_; }

 private:
  void add_line(const std::string& line) {
    const bool on = std::all_of(blocks_.begin(), blocks_.end(), [](bool block) { return block; });
    if (line.starts_with("@if ")) {
      blocks_.push_back(!values_of(line.substr(std::strlen("@if ")), values_).empty());
    } else if (line == "@else" || line == "@end") {
      require(!blocks_.empty(), line + " without its @if",
              "install the templates that belong to this program");
      if (line == "@else")
        blocks_.back() = !blocks_.back();
      else
        blocks_.pop_back();
    } else if (on && line.starts_with("@include ")) {
      add_file(line.substr(std::strlen("@include ")));
    } else if (on) {
      for (const std::string& filled : fill_line(line, values_)) put(filled);
    }
  }

  void put(std::string line) {
    while (line.ends_with(' ')) line.pop_back();
    if (line.empty() && text_.ends_with("\n\n")) return;
    text_ += line + '\n';
  }

  std::filesystem::path directory_;
  const TemplateValues& values_;
  std::string text_;
  std::vector<bool> blocks_;  ///< for each open @if, outermost first: whether it is on
};

bool is_safe(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::strchr("_-+=./:%@^", c) != nullptr;
}

}  // namespace

std::vector<std::string> fill_line(const std::string& line, const TemplateValues& values) {
  std::vector<std::string> lines = {line};
  for (Placeholder p = next_placeholder(line, 0); p.begin != std::string::npos;
       p = next_placeholder(line, p.end)) {
    std::vector<std::string> filled;
    for (const std::string& one : lines) {
      // A name that occurs twice in the line is replaced in both places at once.
      if (one.find("@{" + p.name + '}') == std::string::npos) {
        filled.push_back(one);
        continue;
      }
      for (const std::string& value : values_of(p.name, values))
        filled.push_back(replaced(one, p.name, value));
    }
    lines = std::move(filled);
  }
  return lines;
}

std::string fill_template(const std::filesystem::path& directory, const std::string& file,
                          const TemplateValues& values) {
  Filler filler(directory, values);
  filler.add_file(file);
  return filler.text();
}

std::string shell_word(const std::string& text) {
  bool safe = !text.empty();
  for (const char c : text) safe = safe && c != '\0' && is_safe(c);
  if (safe) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + '\'';
}

}  // namespace halomesh
