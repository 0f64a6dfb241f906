// SPDX-License-Identifier: Apache-2.0
// The options of one command: see options.hpp.
#include "src/apps/options/options.hpp"

#include <algorithm>
#include <boost/program_options/cmdline.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <boost/program_options/variables_map.hpp>
#include <boost/smart_ptr/make_shared.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "joined.hpp"
#include "src/apps/options/nearest.hpp"

namespace halomesh {
namespace {

namespace po = boost::program_options;

constexpr const char* kConfig = "config";
constexpr std::uintmax_t kMaxConfigBytes = 1 << 20;
constexpr double kMaxWholeNumber = 1e12;
constexpr unsigned kHelpWidth = 100, kHelpColumn = 34;

/// A rejected value, before its place is known.
struct Refusal {
  std::string name, what, hint;
};

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

/// Makes Boost accept any text that is_valid() and within the bounds.
class Options::Value : public po::typed_value<std::string> {
 public:
  explicit Value(Declaration declaration)
      : typed_value(nullptr), declaration_(std::move(declaration)) {
    if (declaration_.fallback)
      default_value(*declaration_.fallback);
    else
      required();
    if (declaration_.is_switch) implicit_value("on");
    if (declaration_.example == text_example<std::int64_t>()) at_most = kMaxWholeNumber;
  }
  /// An option on which this one depends, and the values at which it has a meaning.
  struct Need {
    std::string choice;
    std::vector<std::string> values;

    bool is_met(const Options& options) const {
      if (values.empty()) return !options.is_off(choice);
      return std::find(values.begin(), values.end(), options.text_of(choice)) != values.end();
    }
  };
  std::optional<double> at_least, at_most, below;
  std::vector<Need> needs;
  bool zero_is_value = false;  ///< 0 does not mean off
  std::string rival;           ///< the option with the same meaning in another form

  const Declaration& declaration() const { return declaration_; }
  Declaration& declaration() { return declaration_; }
  /// True if checkpoints record the option beside the values of the others.
  bool is_recorded(const Options& options) const {
    const Declaration& d = declaration_;
    if (d.role != SettingRole::kNetwork && d.role != SettingRole::kTraining) return false;
    if (d.recorded == Recorded::kIfGiven && !options.is_given(d.name)) return false;
    if (d.recorded == Recorded::kUnlessDefault && d.normal(options.text_of(d.name)) == d.fallback)
      return false;
    return std::all_of(needs.begin(), needs.end(),
                       [&](const Need& n) { return n.is_met(options); });
  }

  std::string name() const override { return declaration_.placeholder; }
  void xparse(boost::any& value, const std::vector<std::string>& tokens) const override {
    if (!value.empty()) refuse(" is given twice", "give it once");
    typed_value::xparse(value, tokens);
    const auto& text = boost::any_cast<const std::string&>(value);
    check_bounds(text);
    const auto& choices = declaration_.choices;
    if (!declaration_.normal(text) ||
        (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end()))
      refuse(": '" + text + "' is not " + declaration_.example, "give " + declaration_.example);
    check_range(text);
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& hint) const {
    throw Refusal{declaration_.name, what, hint};
  }
  void check_range(const std::string& text) const {
    if (declaration_.example != text_example<double>() &&
        declaration_.example != text_example<std::vector<double>>())
      return;
    const auto numbers = from_text<std::vector<double>>(text).value_or(std::vector<double>{});
    if (!std::all_of(numbers.begin(), numbers.end(), fits_fp32))
      refuse(": " + text + " is outside fp32's range",
             "give 0, or a number of a magnitude between 1e-38 and 3e38");
  }
  void check_bounds(const std::string& text) const {
    if (!at_least && !at_most && !below) return;
    std::string list = text;
    std::replace(list.begin(), list.end(), 'x', ',');
    for (const double number :
         from_text<std::vector<double>>(list).value_or(std::vector<double>{})) {
      if (at_least && number < *at_least)
        refuse(": " + text + " is too small", "give at least " + to_text(*at_least));
      if (at_most && number > *at_most)
        refuse(": " + text + " is too large", "give at most " + to_text(*at_most));
      if (below && number >= *below)
        refuse(": " + text + " is too large", "give less than " + to_text(*below));
    }
  }

  Declaration declaration_;
};

struct Options::Parser {
  using Descriptions = po::options_description;
  /// A paragraph of the help page.
  struct Group {
    std::string title, choice, value;
    std::vector<boost::shared_ptr<po::option_description>> options{};
  };
  std::vector<Group> groups{};
  std::optional<SettingRole> role{};  ///< the role of the options declared next
  Descriptions own{}, in_file{};      ///< the options of the command line, and of a file
  Value* last = nullptr;              ///< owned by `own`
  po::variables_map values{};

  std::vector<const Value*> declared() const {
    std::vector<const Value*> all;
    for (const auto& option : own.options())
      if (option->long_name() != kConfig)
        all.push_back(static_cast<const Value*>(option->semantic().get()));
    return all;
  }
};

Options::Options(std::string usage, std::string summary, std::string example)
    : usage_(std::move(usage)),
      summary_(std::move(summary)),
      example_(std::move(example)),
      parser_(Parser()) {
  group("General");
  add<std::string>(kConfig, "FILE", "", "read options from a file of lines NAME = VALUE");
  parser().groups.front().options.push_back(boost::make_shared<po::option_description>(
      "help", new po::untyped_value(true), "print this page"));
}

Options::Parser& Options::parser() { return *std::any_cast<Parser>(&parser_); }
const Options::Parser& Options::parser() const { return *std::any_cast<Parser>(&parser_); }

const std::string& Options::text_of(const std::string& name) const {
  return parser().values.at(name).as<std::string>();
}

const std::string& Options::last_name() const { return parser().last->declaration().name; }

Options& Options::group(const std::string& title, const std::string& choice,
                        const std::string& value) {
  parser().groups.push_back({title, choice, value});
  parser().role.reset();
  return *this;
}

Options& Options::as(SettingRole role) {
  parser().role = role;
  return *this;
}

Options& Options::declare(const Declaration& d) {
  if (parser().own.find_nothrow(d.name, false) != nullptr)
    throw std::logic_error("option " + d.name + " is declared twice");
  const std::string shown = !d.fallback                          ? " (required)"
                            : d.fallback->empty() || d.is_switch ? ""
                                                                 : " (default " + *d.fallback + ')';
  parser().last = new Value(d);  // owned by the description
  parser().last->declaration().role = parser().role;
  const auto option = boost::make_shared<po::option_description>(d.name.c_str(), parser().last,
                                                                 (d.help + shown).c_str());
  parser().own.add(option);
  parser().in_file.add(option);
  parser().groups.back().options.push_back(option);
  return *this;
}

Options& Options::hidden() {
  parser().groups.back().options.pop_back();
  return *this;
}

Options& Options::show(const std::string& name, const std::string& placeholder,
                       const std::string& fallback, const std::string& help) {
  const std::string shown = fallback.empty() ? "" : " (default " + fallback + ')';
  parser().groups.back().options.push_back(boost::make_shared<po::option_description>(
      name.c_str(), new Value({name, placeholder, help, "", normal<std::string>, fallback}),
      (help + shown).c_str()));
  return *this;
}

Options& Options::add_switch(const std::string& name, const std::string& help) {
  return declare({name, "", help, text_example<bool>(), normal<bool>, "off", {}, {}, true});
}

Options& Options::add_choice(const std::string& name, const std::vector<std::string>& choices,
                             const std::string& fallback, const std::string& help) {
  const std::string all = joined(choices, "|");
  return declare({name, all, help, "one of " + all, normal<std::string>, fallback, {}, choices});
}

Options& Options::recorded(Recorded when) {
  parser().last->declaration().recorded = when;
  return *this;
}

Options& Options::rounded() {
  parser().last->declaration().normal = [](const std::string& text) {
    const auto number = from_text<double>(text);
    return number ? std::optional(fmt::format("{}", static_cast<float>(*number))) : std::nullopt;
  };
  return *this;
}

Options& Options::closing(std::string text) {
  closing_ = std::move(text);
  return *this;
}

Options& Options::at_least(double bound) {
  parser().last->at_least = bound;
  return *this;
}

Options& Options::at_most(double bound) {
  parser().last->at_most = bound;
  return *this;
}

Options& Options::below(double bound) {
  parser().last->below = bound;
  return *this;
}

Options& Options::implicit(const std::string& text) {
  parser().last->implicit_value(text);
  return *this;
}

Options& Options::needs(const std::string& choice, const std::vector<std::string>& values) {
  parser().last->needs.push_back({choice, values});
  return *this;
}

Options& Options::zero_is_value() {
  parser().last->zero_is_value = true;
  return *this;
}

Options& Options::instead_of(const std::string& other) {
  parser().last->rival = other;
  return *this;
}

Options& Options::accept_in_config(const Options& other) {
  for (const auto& option : other.parser().own.options())
    if (parser().in_file.find_nothrow(option->long_name(), false) == nullptr)
      parser().in_file.add(option);
  return *this;
}

Options& Options::then(std::function<void(Options&)> check) {
  checks_.push_back(std::move(check));
  return *this;
}

Options& Options::accept_arguments() {
  takes_arguments_ = true;
  return *this;
}

bool Options::asks_for_help(int argc, const char* const* argv) {
  return std::any_of(argv + std::min(argc, 1), argv + argc, [](const std::string& argument) {
    return argument == "--help" || argument == "-h";
  });
}

void Options::parse(int argc, const char* const* argv) {
  help_wanted_ = asks_for_help(argc, argv);
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (help_wanted_)
    beside_help_ = arguments;
  else
    parse(arguments);
}

void Options::parse(const std::vector<std::string>& arguments) { parse(arguments, {}); }

void Options::parse(const std::vector<std::string>& arguments,
                    const std::set<std::string>& as_of_file) {
  read_command_line(arguments, nullptr);
  std::erase_if(given_, [&](const Given& given) { return as_of_file.contains(given.name); });
  check_paths();
  if (is_given(kConfig)) read_file(text_of(kConfig));
  check_parsed();
}

std::vector<std::string> Options::parse_own(const std::vector<std::string>& arguments,
                                            const Options& others) {
  read_command_line(arguments, &others);
  check_paths();
  check_parsed();
  return rest_;
}

void Options::check_required() {
  try {
    po::notify(parser().values);
  } catch (const po::required_option& error) {
    const std::string name = error.get_option_name().substr(2);
    const auto& option = parser().own.find(name, false);
    throw UsageError(
        "--" + name + " is missing",
        "give --" + name + ' ' + option.semantic()->name() + ": " + option.description());
  }
}

bool Options::is_typed(const std::string& name) const {
  return std::any_of(given_.begin(), given_.end(), [&](const Given& g) { return g.name == name; });
}

bool Options::is_declared(const std::string& name) const { return parser().values.count(name) > 0; }

bool Options::is_given(const std::string& name) const {
  return !parser().values.at(name).defaulted();
}

void Options::replace(const std::string& name, const std::string& text) {
  const_cast<po::variable_value&>(parser().values.at(name)).value() = text;  // NOLINT
}

bool Options::is_off(const std::string& name) const {
  const std::string& value = text_of(name);
  const auto& declared = static_cast<const Value&>(*parser().own.find(name, false).semantic());
  return value.empty() || value == "off" || (value == "0" && !declared.zero_is_value);
}

void Options::set_aside(const std::string& name, const std::string& why, const std::string& hint) {
  leave_out(name);
  if (!is_given(name)) return;
  const bool typed = is_typed(name);  // as off: it asks for nothing
  if (typed && !is_off(name)) throw UsageError("--" + name + " has no meaning " + why, hint);
  boost::any value;
  parser().own.find(name, false).semantic()->apply_default(value);
  parser().values.erase(name);
  parser().values.insert({name, po::variable_value(value, true)});
  if (typed) return;
  auto same = std::find_if(set_aside_.begin(), set_aside_.end(),
                           [&](const auto& aside) { return aside.first == why; });
  if (same == set_aside_.end()) same = set_aside_.insert(same, {why, {}});
  same->second.push_back(name);
}

std::vector<std::string> Options::notes() const {
  std::vector<std::string> lines;
  for (const auto& [why, names] : set_aside_)
    lines.push_back(text_of(kConfig) + ": " + joined(names, ", ") +
                    (names.size() == 1 ? " is ignored " : " are ignored ") + why);
  return lines;
}

void Options::check_needs() {
  for (const Value* const option : parser().declared())
    for (const Value::Need& need : option->needs) {
      if (need.is_met(*this)) continue;
      const auto& [choice, values] = need;
      const bool absent = is_off(choice) && !is_given(choice);
      const std::string& name = option->declaration().name;
      const std::string cure = values == std::vector<std::string>{""} ? "leave out --" + choice
                               : !values.empty() ? "give --" + choice + ' ' + joined(values, " or ")
                               : absent          ? "give --" + choice + " as well"
                                                 : "give another --" + choice;
      set_aside(name, absent ? "without --" + choice : "with --" + choice + ' ' + text_of(choice),
                fmt::format("{}, or leave --{} out", cure, name));
    }
}

void Options::check_rivals() {
  for (const Value* const option : parser().declared()) {
    const std::string &a = option->declaration().name, &b = option->rival;
    if (b.empty() || !is_given(a) || !is_given(b) || is_off(a) || is_off(b)) continue;
    if (is_typed(a) == is_typed(b))
      throw UsageError(fmt::format("--{} and --{} exclude each other", a, b), "give one of them");
    set_aside(is_typed(a) ? b : a, "with --" + (is_typed(a) ? a : b), {});
  }
}

// Such an option is typed with a variable of the shell that is not set.
void Options::check_paths() {
  for (const Given& option : given_) {
    const auto* const declared = parser().own.find_nothrow(option.name, false);
    if (declared == nullptr || !option.value || !option.value->empty()) continue;
    const std::string kind = declared->semantic()->name();
    if (kind.find("FILE") == std::string::npos && kind.find("DIR") == std::string::npos) continue;
    throw UsageError("--" + option.name + " is given without a path",
                     "give " + kind + ", or leave --" + option.name + " out");
  }
}

void Options::check_parsed() {
  check_required();
  left_out_.clear();
  set_aside_.clear();
  check_rivals();
  check_needs();
  for (const auto& check : checks_) check(*this);
}

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

void Options::read_command_line(const std::vector<std::string>& arguments, const Options* others) {
  parser().values = {};
  given_.clear();
  arguments_.clear();
  rest_.clear();
  std::vector<std::string> words;
  for (const std::string& argument : arguments) {
    // Boost accepts an empty value only as a separate word.
    const bool is_empty = argument.starts_with("--") && argument.find('=') + 1 == argument.size();
    words.push_back(argument.substr(0, argument.size() - (is_empty ? 1 : 0)));
    if (is_empty) words.emplace_back();
    // Boost would take the argument after a bare switch for its value.
    if (takes_arguments_ && is_switch(argument)) words.back() += "=on";
  }
  using namespace po::command_line_style;
  try {
    po::parsed_options parsed = po::command_line_parser(words)
                                    .options(parser().own)
                                    .style(allow_long | long_allow_adjacent | long_allow_next)
                                    .allow_unregistered()
                                    .run();
    for (const auto& option : parsed.options) {
      const std::string name = option.string_key;
      const bool is_other =
          others != nullptr && (option.unregistered || option.position_key >= 0 || name == kConfig);
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
      std::erase_if(parsed.options, [](const auto& o) { return o.string_key == kConfig; });
    po::store(parsed, parser().values);
  } catch (const Refusal& refusal) {
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
      if (option.string_key == kConfig)
        throw UsageError(line_of(kConfig) + "a configuration file cannot name another",
                         "copy the other file's lines into this one");
    po::variables_map all;  // values that the command line overrides are checked as well
    po::store(parsed, all);
    std::erase_if(parsed.options, [&](const auto& option) {
      return parser().own.find_nothrow(option.string_key, false) == nullptr;
    });
    parsed.description = &parser().own;
    po::store(parsed, parser().values);
  } catch (const Refusal& refusal) {
    throw UsageError(line_of(refusal.name) + refusal.name + refusal.what, refusal.hint);
  } catch (const po::unknown_option& error) {
    const std::string name = error.get_option_name();
    refuse_unknown(name, line_of(name));
  }
}

std::string Options::help() const {
  Parser::Descriptions all("", kHelpWidth, kHelpWidth - kHelpColumn);
  for (const Parser::Group& group : parser().groups) {
    // The value in the arguments: --choice=VALUE is one word, --choice VALUE are two.
    const std::string choice = "--" + group.choice;
    auto word = std::find_if(beside_help_.begin(), beside_help_.end(), [&](const std::string& w) {
      return w == choice || w.starts_with(choice + '=');
    });
    const bool apart = word != beside_help_.end() && *word == choice;
    if (apart) ++word;
    if (!group.choice.empty() && word != beside_help_.end() &&
        word->substr(apart ? 0 : choice.size() + 1) != group.value)
      continue;
    Parser::Descriptions paragraph(group.title, kHelpWidth, kHelpWidth - kHelpColumn);
    for (const auto& option : group.options) paragraph.add(option);
    all.add(paragraph);
  }
  std::ostringstream out;
  out << "usage: halomesh " << usage_ << "\n\n" << summary_ << "\n";
  if (!example_.empty()) out << "\nExample:\n  " << example_ << "\n";
  out << all;
  if (!closing_.empty()) out << "\n" << closing_;
  return out.str();
}

std::vector<std::string> Options::names() const {
  std::vector<std::string> names;
  for (const Value* const option : parser().declared()) names.push_back(option->declaration().name);
  return names;
}

std::vector<std::pair<std::string, std::string>> Options::resolved() const {
  std::vector<std::pair<std::string, std::string>> result;
  for (const std::string& name : names())
    if (!left_out_.contains(name)) result.emplace_back(name, text_of(name));
  return result;
}

std::vector<std::pair<std::string, SettingRole>> Options::roles() const {
  std::vector<std::pair<std::string, SettingRole>> roles;
  for (const Value* const option : parser().declared())
    if (const auto role = option->declaration().role)
      roles.emplace_back(option->declaration().name, *role);
  return roles;
}

std::map<std::string, std::string> Options::recorded_settings() const {
  std::map<std::string, std::string> settings;
  for (const Value* const option : parser().declared())
    if (const Declaration& d = option->declaration(); option->is_recorded(*this))
      settings[d.name] = *d.normal(text_of(d.name));
  return settings;
}

std::map<std::string, std::string> Options::decisive_settings() const {
  const auto all = resolved();
  std::map<std::string, std::string> settings(all.begin(), all.end());
  for (const auto& [name, role] : roles())
    if (role == SettingRole::kFree) settings.erase(name);
  return settings;
}

}  // namespace halomesh
