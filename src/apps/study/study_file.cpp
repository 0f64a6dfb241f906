// SPDX-License-Identifier: Apache-2.0
// The file of a study: see study_file.hpp.
#include "src/apps/study/study_file.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include "joined.hpp"
#include "runtime/posix/input_file.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/nearest.hpp"
#include "src/apps/options/option_text.hpp"
#include "src/apps/options/train_options.hpp"

namespace halomesh {
namespace {

std::string without_comment(const std::string& line) {
  const std::string text = trimmed(line.substr(0, line.find('#')));
  return text.starts_with(';') ? std::string() : text;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> words{""};
  for (const char c : text)
    if (c == separator)
      words.emplace_back();
    else
      words.back() += c;
  for (std::string& word : words) word = trimmed(word);
  return words;
}

/// The hint for an option that a study sets for each cell, or that has no meaning there; otherwise
/// null.
const char* who_sets(const std::string& name) {
  if (name == "data" || name == "out" || name == "wall-limit")
    return "give it to the command study";
  if (name == "seed") return "give --seed and --seeds to the command study";
  if (name == "target-mae" || name == "target-score") return "give --target to the command study";
  for (const char* other : {"instances", "resume", "trace", "stage-dir", "keep-stage", "config"})
    if (name == other) return "leave it out: it has no meaning in a study";
  return nullptr;
}

/// Throws UsageError, beginning with `where`, unless `train` has this option and it accepts the
/// value.
void check_value(const std::string& where, const std::string& name, const std::string& value) {
  Options options = all_run_options();
  const std::vector<std::string> known = options.names();
  if (const char* const cure = who_sets(name))
    throw UsageError(fmt::format("{}{} cannot be set by the file of a study", where, name), cure);
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw UsageError(fmt::format("{}unknown option '{}'", where, name),
                     fmt::format("did you mean {}? halomesh train --help lists all options",
                                 nearest(name, known)));
  try {
    std::vector<std::string> arguments{"--data", "d", "--out", "o",
                                       fmt::format("--{}={}", name, value)};
    if (name != "model") arguments.push_back("--model=" + network_with(name));
    options.parse(arguments);
  } catch (const UsageError& error) {
    throw UsageError(where + error.what(), error.hint());
  }
}

/// Parses a line `NAMES = VALUES` to the alternatives of its names; without braces there is one.
std::vector<StudyValues> alternatives_of(const std::string& where, const std::string& line) {
  const std::size_t equals = line.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UsageError(fmt::format("{}'{}' is not of the form NAME = VALUE", where, line),
                     "write, for example, batch = {4 | 16}; comments start with #");
  const std::vector<std::string> names = split(line.substr(0, equals), '&');
  std::string values = trimmed(line.substr(equals + 1));
  const bool open = values.starts_with('{'), closed = values.ends_with('}');
  if (open != closed)
    throw UsageError(
        fmt::format("{}'{}' has {} brace", where, values, open ? "no closing" : "no opening"),
        "write the values as {4 | 16 | 64}");
  if (open) values = values.substr(1, values.size() - 2);
  std::vector<StudyValues> alternatives;
  for (const std::string& alternative :
       open ? split(values, '|') : std::vector<std::string>{values}) {
    const std::vector<std::string> words =
        names.size() > 1 ? split(alternative, '&') : std::vector<std::string>{alternative};
    if (words.size() != names.size())
      throw UsageError(fmt::format("{}'{}' has {} values for the {} options {}", where, alternative,
                                   words.size(), names.size(), joined(names, " & ")),
                       "give one for each, as in optimizer & lr = {sgd & 0.02 | lamb & 0.004}");
    StudyValues& all = alternatives.emplace_back();
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (open && words[i].empty())
        throw UsageError(fmt::format("{}a value of {} is empty", where, names[i]),
                         "write the values as {4 | 16 | 64}");
      check_value(where, names[i], words[i]);
      all.emplace_back(names[i], words[i]);
    }
  }
  return alternatives;
}

/// A valid directory name for a cell, with '-' for other characters.
std::string directory_name(const StudyCell& cell) {
  std::string name;
  for (const auto& [option, value] : cell.varied)
    name.append(option).append("-").append(value).append("_");
  name += "seed-" + to_text(cell.seed);
  for (char& c : name)
    if (std::string(",.+_").find(c) == std::string::npos && std::isalnum(c) == 0) c = '-';
  return name;
}

}  // namespace

StudyGrid::StudyGrid(const std::string& file) : file_(file) {
  std::string content;
  try {
    content = read_input_file(file);
  } catch (const Error& error) {
    throw UsageError(error.what(), "give a text file of lines NAME = VALUE");
  }
  if (content.find('\0') != std::string::npos)
    throw UsageError(file + " holds NUL bytes, so it is not a text file",
                     "give a text file of lines NAME = VALUE");
  std::set<std::string> seen;
  std::istringstream lines(content);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = fmt::format("{}:{}: ", file, ++number);
    std::string text = without_comment(line);
    // Braces may span lines.
    while (text.find('{') != std::string::npos && text.find('}') == std::string::npos &&
           std::getline(lines, line)) {
      ++number;
      text += ' ' + without_comment(line);
    }
    if (text.empty() || (text.starts_with('[') && text.ends_with(']'))) continue;
    Dimension alternatives = alternatives_of(where, text);
    for (const auto& value : alternatives.front())
      if (!seen.insert(value.first).second)
        throw UsageError(fmt::format("{}{} is given twice", where, value.first), "give it once");
    if (alternatives.size() > 1)
      dimensions_.push_back(std::move(alternatives));
    else
      common_.insert(common_.end(), alternatives.front().begin(), alternatives.front().end());
  }
}

std::vector<StudyCell> StudyGrid::cells(std::uint64_t first_seed, std::int64_t seeds) const {
  std::int64_t count = seeds;
  for (const Dimension& dimension : dimensions_)
    if ((count *= std::ssize(dimension)) > kMostCells) break;
  if (count > kMostCells)
    throw UsageError(fmt::format("{} asks for more than {} cells", file_, kMostCells),
                     "give fewer values, or several studies");
  std::vector<StudyCell> cells(1);
  for (const Dimension& dimension : dimensions_) {
    std::vector<StudyCell> more;
    for (const StudyCell& cell : cells)
      for (const StudyValues& alternative : dimension) {
        more.push_back(cell);
        more.back().varied.insert(more.back().varied.end(), alternative.begin(), alternative.end());
      }
    cells = std::move(more);
  }
  std::vector<StudyCell> all;
  std::set<std::string> names;
  for (const StudyCell& row : cells)
    for (std::int64_t k = 0; k < seeds; ++k) {
      StudyCell cell = row;
      cell.seed = first_seed + static_cast<std::uint64_t>(k);
      cell.name = directory_name(cell);
      if (!names.insert(cell.name).second)
        throw UsageError(fmt::format("{} has two cells {}", file_, cell.name),
                         "give each value once");
      all.push_back(std::move(cell));
    }
  return all;
}

Options options_of_cell(const std::string& config, const StudyValues& common, const StudyCell& cell,
                        const StudyValues& more) {
  std::vector<std::string> arguments;
  std::set<std::string> of_all;  // options that some cells do not use
  if (!config.empty()) arguments = {"--config", config};
  for (const StudyValues* values : {&common, &cell.varied, &more})
    for (const auto& [name, value] : *values) {
      arguments.push_back(fmt::format("--{}={}", name, value));
      if (values != &cell.varied) of_all.insert(name);
    }
  arguments.push_back("--seed=" + to_text(cell.seed));
  Options options = all_run_options();
  options.parse(arguments, of_all);
  return options;
}

}  // namespace halomesh
