// SPDX-License-Identifier: Apache-2.0
// Reads the words of a command line and the lines of a configuration file: see options.hpp.
#include <algorithm>
#include <boost/program_options/cmdline.hpp>
#include <boost/program_options/parsers.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/apps/options/nearest.hpp"
#include "src/apps/options/options_parser.hpp"

namespace halomesh {
namespace {

constexpr std::uintmax_t kMaxConfigBytes = 1 << 20;

/// The text of a configuration file. Opens regular files only: a device or a pipe may never end.
std::string config_text(const std::string& path) {
  const std::string hint = "give a text file of lines NAME = VALUE";
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  const auto refuse = [&](const std::string& what) {
    throw UsageError("--config " + path + " cannot be read: " + what, hint);
  };
  if (error) refuse(error.message());
  if (std::filesystem::is_directory(status)) refuse("it is a directory");
  if (!std::filesystem::is_regular_file(status)) refuse("it is not a regular file");
  if (std::filesystem::file_size(path, error) > kMaxConfigBytes) refuse("it is larger than 1 MiB");
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) refuse(std::generic_category().message(errno));
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);  // the byte order mark of UTF-8
  if (text.find('\0') != std::string::npos) refuse("it holds NUL bytes, so it is not a text file");
  return text;
}

}  // namespace

void Options::refuse_unknown(const std::string& name, const std::string& prefix,
                             const std::vector<std::string>& more) const {
  std::vector<std::string> known = more;
  for (const auto& option : (prefix == "--" ? parser().own : parser().in_file).options())
    known.push_back(option->long_name());
  const std::string dashes = prefix == "--" ? prefix : "";
  throw UsageError((prefix == "--" ? "unknown option --" : prefix + "unknown option ") + name,
                   "did you mean " + dashes + nearest(name, known) + "? --help lists all options");
}

bool Options::is_switch(const std::string& word) const {
  if (!word.starts_with("--")) return false;
  const auto* const option = parser().own.find_nothrow(word.substr(2), false);
  return option != nullptr && option->semantic()->min_tokens() == 0;
}

/// The words of a command line in the form that Boost reads.
std::vector<std::string> Options::boost_words(const std::vector<std::string>& arguments) const {
  std::vector<std::string> words;
  for (const std::string& argument : arguments) {
    // Boost accepts an empty value only as a separate word.
    const bool is_empty = argument.starts_with("--") && argument.find('=') + 1 == argument.size();
    words.push_back(argument.substr(0, argument.size() - (is_empty ? 1 : 0)));
    if (is_empty) words.emplace_back();
    // Boost would take the argument after a bare switch for its value.
    if (takes_arguments_ && is_switch(argument)) words.back() += "=on";
  }
  return words;
}

void Options::read_command_line(const std::vector<std::string>& arguments, const Options* others) {
  parser().values = {};
  given_.clear();
  arguments_.clear();
  rest_.clear();
  const std::vector<std::string> words = boost_words(arguments);
  using namespace po::command_line_style;
  try {
    po::parsed_options parsed = po::command_line_parser(words)
                                    .options(parser().own)
                                    .style(allow_long | long_allow_adjacent | long_allow_next)
                                    .allow_unregistered()
                                    .run();
    for (const auto& option : parsed.options) {
      const std::string name = option.string_key;
      const bool is_other = others != nullptr && (option.unregistered || option.position_key >= 0 ||
                                                  name == kConfigOption);
      if (option.unregistered &&
          (others == nullptr || others->parser().own.find_nothrow(name, false) == nullptr)) {
        if (parser().in_file.find_nothrow(name, false) != nullptr)
          throw UsageError("--" + name + " has no meaning here",
                           "leave it out; only a configuration file may hold it");
        refuse_unknown(name, "--",
                       others != nullptr ? others->names() : std::vector<std::string>{});
      }
      if (is_other)
        rest_.insert(rest_.end(), option.original_tokens.begin(), option.original_tokens.end());
      else if (!name.empty())
        given_.push_back(
            {name, option.value.empty() ? std::nullopt : std::optional(option.value.front()),
             parser().own.find(name, false).semantic()->min_tokens() == 0 ? '=' : ' '});
      else if (takes_arguments_)
        arguments_.push_back(option.value.front());
      else
        throw UsageError("unexpected argument '" + option.value.front() + '\'',
                         "a value follows its option, e.g. --seed 1; --help lists all options");
    }
    if (others != nullptr)
      std::erase_if(parsed.options, [](const auto& o) { return o.string_key == kConfigOption; });
    po::store(parsed, parser().values);
  } catch (const RefusedValue& refusal) {
    throw UsageError("--" + refusal.name + refusal.what, refusal.hint);
  } catch (const po::error& error) {
    throw UsageError(error.what(), "--help lists all options");
  }
}

void Options::read_file(const std::string& path) {
  // Finds the last line of each name. Boost gets the text without comments and [section] lines.
  std::vector<std::pair<std::string, std::string>> where;
  std::istringstream lines(config_text(path));
  std::string text;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    std::string content = trimmed(line.substr(0, line.find('#')));
    if (content.starts_with(';') || (content.starts_with('[') && content.ends_with(']')))
      content.clear();
    text += content + '\n';
    where.insert(where.begin(), {trimmed(content.substr(0, content.find('='))),
                                 path + ':' + to_text(std::int64_t{++number}) + ": "});
    if (!content.empty() && (content.starts_with('=') || content.find('=') == std::string::npos))
      throw UsageError(where.front().second + '\'' + content + "' is not of the form NAME = VALUE",
                       "write one option per line, e.g. seed = 1; comments start with #");
  }
  const auto line_of = [&](const std::string& name) {
    return std::find_if(where.begin(), where.end(), [&](const auto& w) { return w.first == name; })
        ->second;
  };
  std::istringstream stream(text);
  try {
    po::parsed_options parsed = po::parse_config_file(stream, parser().in_file);
    for (const auto& option : parsed.options)
      if (option.string_key == kConfigOption)
        throw UsageError(line_of(kConfigOption) + "a configuration file cannot name another",
                         "copy the other file's lines into this one");
    po::variables_map all;  // values that the command line overrides are checked as well
    po::store(parsed, all);
    std::erase_if(parsed.options, [&](const auto& option) {
      return parser().own.find_nothrow(option.string_key, false) == nullptr;
    });
    parsed.description = &parser().own;
    po::store(parsed, parser().values);
  } catch (const RefusedValue& refusal) {
    throw UsageError(line_of(refusal.name) + refusal.name + refusal.what, refusal.hint);
  } catch (const po::unknown_option& error) {
    const std::string name = error.get_option_name();
    refuse_unknown(name, line_of(name));
  }
}

}  // namespace halomesh
