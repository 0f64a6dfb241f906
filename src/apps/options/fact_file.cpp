// SPDX-License-Identifier: Apache-2.0
// Files of facts: see fact_file.hpp.
#include "src/apps/options/fact_file.hpp"

#include <algorithm>
#include <sstream>

#include "error.hpp"
#include "runtime/posix/input_file.hpp"
#include "src/apps/options/nearest.hpp"
#include "src/apps/options/option_text.hpp"

namespace halomesh {

namespace fs = std::filesystem;

std::vector<Fact> read_facts(const fs::path& file, const std::string& what) {
  std::istringstream lines;
  try {
    lines.str(read_input_file(file));
  } catch (const Error& error) {
    throw UsageError(error.what(), fmt::format("give the name of a {0}, or the path of one", what));
  }
  std::vector<Fact> facts;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = fmt::format("{}:{}", file.c_str(), ++number);
    const auto hash = line.find('#');
    const std::string text = trimmed(line.substr(0, hash));
    if (text.empty()) continue;
    const auto equals = text.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw UsageError(fmt::format("{}: '{}' is not of the form NAME = VALUE", where, text),
                       "write one fact per line, e.g. cores = 48; comments start with #");
    facts.push_back({trimmed(text.substr(0, equals)), trimmed(text.substr(equals + 1)),
                     hash == std::string::npos ? "" : trimmed(line.substr(hash + 1)), where});
  }
  return facts;
}

std::vector<std::string> fact_file_names(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    if (entry.path().extension() == ".ini") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool is_fact_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".ini") || name.ends_with(".json");
}

fs::path find_fact_file(const std::string& option, const std::string& name,
                        const fs::path& directory) {
  if (is_fact_path(name)) return name;
  const std::vector<std::string> names = fact_file_names(directory);
  if (std::find(names.begin(), names.end(), name) != names.end())
    return directory / (name + ".ini");
  if (fs::exists(name)) return name;
  throw UsageError(
      fmt::format("unknown {} '{}'", option, name),
      fmt::format("did you mean {}? --{} list lists all; a path names a file of your own",
                  nearest(name, names), option));
}

}  // namespace halomesh
