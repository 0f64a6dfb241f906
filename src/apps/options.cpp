// The options of one command: see options.hpp.
#include "src/apps/options.hpp"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "src/apps/nearest.hpp"

namespace halomesh {
namespace {

namespace po = boost::program_options;

constexpr const char* kConfig = "config";

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

[[noreturn]] void unknown_option(const std::string& name, const std::string& where,
                                 const std::vector<std::string>& names) {
  throw UsageError(cat(where, "unknown option ", where.empty() ? "--" : "", name),
                   cat("did you mean ", where.empty() ? "--" : "", nearest(name, names),
                       "? --help lists all options"));
}

}  // namespace

Options::Options(std::string usage, std::string summary)
    : usage_(std::move(usage)), summary_(std::move(summary)) {
  group("General");
  add<std::string>(kConfig, "FILE", "", "read options from a file of lines NAME = VALUE");
}

Options& Options::group(std::string title) {
  group_ = std::move(title);
  return *this;
}

Options& Options::declare(Option option) {
  if (look_up(option.name) != nullptr)
    throw std::logic_error(cat("option ", option.name, " is declared twice"));
  if (option.group.empty()) option.group = group_;
  options_.push_back(std::move(option));
  return *this;
}

Options& Options::add_switch(const std::string& name, const std::string& help) {
  Option option{name, "", help, "off", text_example<bool>(), {}, readable<bool>};
  option.is_switch = true;
  return declare(std::move(option));
}

Options& Options::add_choice(const std::string& name, const std::vector<std::string>& choices,
                             const std::string& fallback, const std::string& help) {
  std::string all;
  for (const std::string& c : choices) all += (all.empty() ? "" : "|") + c;
  return declare({name, all, help, fallback, cat("one of ", all), {}, [choices](const auto& text) {
                    return std::find(choices.begin(), choices.end(), text) != choices.end();
                  }});
}

Options& Options::at_least(double bound) {
  options_.back().at_least = bound;
  return *this;
}

Options& Options::below(double bound) {
  options_.back().below = bound;
  return *this;
}

Options& Options::accept_in_config(const Options& other) {
  for (Option option : other.options_) {
    if (look_up(option.name) != nullptr) continue;
    option.foreign = true;
    declare(std::move(option));
  }
  return *this;
}

const Options::Option* Options::look_up(std::string_view name) const {
  for (const Option& option : options_)
    if (option.name == name) return &option;
  return nullptr;
}

const Options::Option& Options::find(std::string_view name) const {
  const Option* option = look_up(name);
  if (option == nullptr || option->foreign)
    throw std::logic_error(cat("option ", name, " is not declared"));
  return *option;
}

Options::Option& Options::known(const std::string& name, const std::string& where, bool in_file) {
  std::vector<std::string> names;
  for (Option& option : options_) {
    if (option.name == name && option.foreign && !in_file)
      throw UsageError(cat("--", name, " has no meaning here"),
                       "leave it out; a configuration file may hold it, --help lists all options");
    if (option.name == name) return option;
    if (option.foreign && !in_file) continue;
    names.push_back(option.name);
  }
  unknown_option(name, where, names);
}

void Options::check_value(const Option& option, const std::string& value,
                          const std::string& where) const {
  const std::string name = where.empty() ? "--" + option.name : where + option.name;
  if (!option.is_valid(value))
    throw UsageError(cat(name, ": '", value, "' is not ", option.example),
                     cat("give ", option.example));
  check_bounds(option, value, name);
}

void Options::check_bounds(const Option& option, const std::string& value,
                           const std::string& name) const {
  if (!option.at_least && !option.below) return;
  const auto numbers = from_text<std::vector<double>>(value);
  if (!numbers) return;
  for (const double number : *numbers) {
    if (option.at_least && number < *option.at_least)
      throw UsageError(cat(name, ": ", value, " is too small"),
                       cat("give at least ", *option.at_least));
    if (option.below && number >= *option.below)
      throw UsageError(cat(name, ": ", value, " is too large"), cat("stay below ", *option.below));
  }
}

bool Options::asks_for_help(int argc, const char* const* argv) {
  return std::any_of(argv + std::min(argc, 1), argv + argc, [](const std::string& argument) {
    return argument == "--help" || argument == "-h";
  });
}

void Options::parse(int argc, const char* const* argv) {
  help_wanted_ = asks_for_help(argc, argv);
  if (help_wanted_) return;
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    // An empty value is one, too: the library takes it as an argument of its own only.
    if (argument.starts_with("--") && argument.find('=') + 1 == argument.size()) {
      arguments.push_back(argument.substr(0, argument.size() - 1));
      arguments.emplace_back();
    } else {
      arguments.push_back(argument);
    }
  }
  read_command_line(arguments);
  if (is_given(kConfig)) read_file(find(kConfig).value);
  for (const Option& option : options_)
    if (option.required && !option.foreign && option.given == Source::kDefault)
      throw UsageError(cat("--", option.name, " is missing"),
                       cat("give --", option.name, ' ', option.placeholder, ": ", option.help));
}

void Options::read_command_line(const std::vector<std::string>& arguments) {
  po::options_description syntax;
  for (const Option& option : options_) {
    auto* value = po::value<std::string>();
    if (option.is_switch) value->implicit_value("on");
    if (!option.foreign) syntax.add_options()(option.name.c_str(), value, "");
  }
  namespace style = po::command_line_style;
  po::parsed_options parsed(nullptr);
  try {
    parsed = po::command_line_parser(arguments)
                 .options(syntax)
                 .style(style::allow_long | style::long_allow_adjacent | style::long_allow_next)
                 .run();
  } catch (const po::unknown_option& error) {
    const std::string name = error.get_option_name();
    known(name.substr(std::min(name.find_first_not_of('-'), name.size())), "", false);
    throw;
  } catch (const po::error_with_option_name& error) {
    throw UsageError(error.what(), "--help lists all options");
  } catch (const po::error& error) {
    throw UsageError(error.what(), "--help lists all options");
  }
  for (const auto& item : parsed.options) {
    if (item.string_key.empty())
      throw UsageError(cat("surplus argument '", item.value.front(), "'"),
                       "values follow their option, e.g. --seed 1; --help lists all options");
    Option& option = known(item.string_key, "", false);
    if (option.given == Source::kCommandLine)
      throw UsageError(cat("--", option.name, " is given twice"), "give it once");
    // A switch without "=on" or "=off" comes without a value, or with an empty one.
    const std::string value = item.value.empty() ? "" : item.value.front();
    option.value = option.is_switch && value.empty() ? "on" : value;
    check_value(option, option.value, "");
    option.given = Source::kCommandLine;
  }
}

void Options::read_file(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  int line = 0;
  while (std::getline(file, text)) read_line(trimmed(text), path, ++line);
  // A file that was not opened is not at its end either; nor is a directory.
  if (!file.eof())
    throw UsageError(cat("--config ", path, " cannot be read: ", std::strerror(errno)),
                     "give a readable file of lines NAME = VALUE");
}

void Options::read_line(const std::string& text, const std::string& path, int line) {
  const std::string where = cat(path, ':', line, ": ");
  if (text.empty() || text[0] == ';' || (text.front() == '[' && text.back() == ']')) return;
  std::istringstream one(text);
  po::parsed_options parsed(nullptr);
  try {
    // Line by line, so that messages can name the line; which options exist is checked below.
    parsed = po::parse_config_file(one, po::options_description(), true);
  } catch (const po::error&) {
    throw UsageError(cat(where, '\'', text, "' is not of the form NAME = VALUE"),
                     "write one option a line, e.g. seed = 1; comments start with #");
  }
  for (const auto& item : parsed.options) {
    Option& option = known(item.string_key, where, true);
    if (option.name == kConfig)
      throw UsageError(cat(where, "a configuration file cannot name another"),
                       "copy the other file's lines into this one");
    if (option.line != 0)
      throw UsageError(cat(where, option.name, " is given twice, first in line ", option.line),
                       "give it once");
    const std::string value = item.value.empty() ? "" : item.value.front();
    check_value(option, value, where);
    option.line = line;
    if (option.given == Source::kCommandLine) continue;
    option.value = value;
    option.given = Source::kFile;
  }
}

std::string Options::help() const {
  constexpr std::size_t kColumn = 32;
  std::ostringstream out;
  out << "halomesh " << usage_ << "\n" << summary_ << "\n";
  std::string group;
  for (const Option& option : options_) {
    if (option.foreign) continue;
    if (option.group != group) out << "\n" << (group = option.group) << "\n";
    std::string left = "  --" + option.name;
    if (!option.placeholder.empty()) left += ' ' + option.placeholder;
    out << left;
    if (left.size() + 2 > kColumn)
      out << "\n" << std::string(kColumn, ' ');
    else
      out << std::string(kColumn - left.size(), ' ');
    out << option.help;
    if (option.required) out << " (required)";
    if (!option.is_switch && !option.value.empty()) out << " (default " << option.value << ')';
    out << "\n";
    if (option.name == kConfig) out << "  --help                        print this page\n";
  }
  return out.str();
}

std::vector<std::pair<std::string, std::string>> Options::resolved() const {
  std::vector<std::pair<std::string, std::string>> result;
  for (const Option& option : options_)
    if (!option.foreign && option.name != kConfig) result.emplace_back(option.name, option.value);
  return result;
}

}  // namespace halomesh
