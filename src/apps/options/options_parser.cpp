// SPDX-License-Identifier: Apache-2.0
// The options of one command: see options.hpp.
#include "src/apps/options/options_parser.hpp"

#include <algorithm>
#include <boost/smart_ptr/make_shared.hpp>

#include "joined.hpp"

namespace halomesh {
namespace {

constexpr unsigned kHelpWidth = 100, kHelpColumn = 34;

}  // namespace

Options::Options(std::string usage, std::string summary, std::string example)
    : usage_(std::move(usage)),
      summary_(std::move(summary)),
      example_(std::move(example)),
      parser_(Parser()) {
  group("General");
  add<std::string>(kConfigOption, "FILE", "", "read options from a file of lines NAME = VALUE");
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

Options& Options::implies(const std::string& other, const std::string& value) {
  parser().last->implied = {other, value};
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
  if (is_given(kConfigOption)) read_file(text_of(kConfigOption));
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
    lines.push_back(text_of(kConfigOption) + ": " + joined(names, ", ") +
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
    if (!names_path(option.name)) continue;
    const std::string kind = declared->semantic()->name();
    const std::string cure = declared->semantic()->is_required()
                                 ? "give " + kind
                                 : "give " + kind + ", or leave --" + option.name + " out";
    throw UsageError("--" + option.name + " is given without a path", cure);
  }
}

void Options::check_parsed() {
  check_required();
  for (const Value* const option : parser().declared())
    if (const auto& [other, value] = option->implied;
        !other.empty() && !is_off(option->declaration().name) && !is_given(other))
      replace(other, value);
  left_out_.clear();
  set_aside_.clear();
  check_rivals();
  check_needs();
  for (const auto& check : checks_) check(*this);
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

bool Options::names_path(const std::string& name) const {
  const std::string kind = parser().own.find(name, false).semantic()->name();
  return kind.find("FILE") != std::string::npos || kind.find("DIR") != std::string::npos;
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
  std::map<std::string, std::string> settings;
  for (const Value* const option : parser().declared()) {
    const Declaration& d = option->declaration();
    if (d.role == SettingRole::kFree || left_out_.contains(d.name)) continue;
    const std::string& text = text_of(d.name);
    settings[d.name] = d.normal(text).value_or(text);
  }
  return settings;
}

}  // namespace halomesh
