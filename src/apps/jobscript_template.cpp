// Fills the templates of job scripts with values: see jobscript_template.hpp.
#include "src/apps/jobscript_template.hpp"

#include <cstring>
#include <fstream>

#include "error.hpp"

namespace halomesh {
namespace {

const std::vector<std::string>& values_of(const std::string& name, const TemplateValues& values) {
  const auto found = values.find(name);
  if (found == values.end())
    throw Error(cat("a template uses the unknown name ", name),
                "install the templates that belong to this program");
  return found->second;
}

/// The name of the first placeholder from `begin` on, and where it starts and ends.
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

/// Goes through a template's lines, remembering the block it is in.
class Filler {
 public:
  Filler(std::filesystem::path directory, const TemplateValues& values)
      : directory_(std::move(directory)), values_(values) {}

  void add_file(const std::string& file) {
    std::ifstream lines(directory_ / file);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      try {
        add_line(line);
      } catch (const Error& error) {
        throw Error(cat((directory_ / file).string(), ':', number, ": ", error.what()),
                    error.hint());
      }
    }
    if (!lines.eof() || in_block_)
      throw Error(cat((directory_ / file).string(),
                      in_block_ ? ": a block has no @end" : " cannot be read"),
                  "install the templates that belong to this program");
  }
  const std::string& text() const { return text_; }

 private:
  void add_line(const std::string& line) {
    if (line.starts_with("@if ")) {
      in_block_ = true;
      on_ = !values_of(line.substr(std::strlen("@if ")), values_).empty();
    } else if (line == "@else") {
      on_ = !on_;
    } else if (line == "@end") {
      in_block_ = false;
      on_ = true;
    } else if (on_ && line.starts_with("@include ")) {
      add_file(line.substr(std::strlen("@include ")));
    } else if (on_) {
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
  bool in_block_ = false, on_ = true;
};

bool is_safe(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::strchr("_-+=./:,%@^", c) != nullptr;
}

}  // namespace

std::vector<std::string> fill_line(const std::string& line, const TemplateValues& values) {
  std::vector<std::string> lines = {line};
  for (Placeholder p = next_placeholder(line, 0); p.begin != std::string::npos;
       p = next_placeholder(line, p.end)) {
    std::vector<std::string> filled;
    for (const std::string& one : lines) {
      // A name that stands in the line twice was replaced both times.
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
