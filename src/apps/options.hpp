// The options of one command: declared once, read from the command line and a configuration file.
// Boost.Program_options reads the syntax; names, types, help and messages are ours.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "error.hpp"
#include "src/apps/option_text.hpp"

namespace halomesh {

/// A value type: declare the options, then parse(), then get(). Every option also stands for a line
/// `name = value` of the file given as --config; the command line wins over the file, the file over
/// the default. Lines [section], # comment and ; comment of the file only serve its readers.
class Options {
 public:
  /// `usage` follows the program's name in the help page, e.g. "plan [options]".
  Options(std::string usage, std::string summary);

  /// Starts a group of options, a paragraph of the help page.
  Options& group(std::string title);

  /// Declares an option of type T (see option_text.hpp) with a default. `placeholder` stands for
  /// its value in the help page. An empty default text shows as no default.
  template <class T>
  Options& add(const std::string& name, const std::string& placeholder, const T& fallback,
               const std::string& help) {
    return declare(
        {name, placeholder, help, to_text(fallback), text_example<T>(), {}, readable<T>});
  }
  /// Declares an option that must be given, on the command line or in the file.
  template <class T>
  Options& add_required(const std::string& name, const std::string& placeholder,
                        const std::string& help) {
    Option option{name, placeholder, help, {}, text_example<T>(), {}, readable<T>};
    option.required = true;
    return declare(std::move(option));
  }
  /// Declares a switch that is off unless it is named: get<bool>(). `--name=off` and, in the file,
  /// `name = on` or `name = off` are understood as well.
  Options& add_switch(const std::string& name, const std::string& help);
  /// Declares an option whose value is one of `choices`.
  Options& add_choice(const std::string& name, const std::vector<std::string>& choices,
                      const std::string& fallback, const std::string& help);
  /// Bounds the number (or numbers of a list) of the option declared last.
  Options& at_least(double bound);
  /// The same, for values below `bound`.
  Options& below(double bound);

  /// Lets a configuration file hold the options of `other` that this command has no use for, so
  /// that one file serves several commands; their values are checked and then dropped.
  Options& accept_in_config(const Options& other);

  /// Reads `argc` arguments after argv[0]. With --help or -h nothing else is looked at. Throws
  /// UsageError: unknown option (naming the nearest), value of a wrong type (naming an example),
  /// surplus argument, missing option, option given twice, unreadable file (with its line).
  void parse(int argc, const char* const* argv);

  /// Whether --help or -h is among the arguments.
  static bool asks_for_help(int argc, const char* const* argv);
  bool help_wanted() const { return help_wanted_; }
  std::string help() const;

  /// The value of a declared option. Throws std::logic_error for a name that was not declared.
  template <class T>
  T get(std::string_view name) const {
    const Option& option = find(name);
    const std::optional<T> value = from_text<T>(option.value);
    if (!value) throw std::logic_error(cat("option ", name, " is of another type"));
    return *value;
  }
  /// True when the command line or the file gave the option.
  bool is_given(std::string_view name) const { return find(name).given != Source::kDefault; }
  /// Every option but --config and --help with its value as text, in the order of declaration.
  std::vector<std::pair<std::string, std::string>> resolved() const;

 private:
  enum class Source { kDefault, kFile, kCommandLine };
  struct Option {
    std::string name, placeholder, help, value, example;
    std::string group{};
    std::function<bool(const std::string&)> is_valid{};
    std::optional<double> at_least{}, below{};
    bool required = false, is_switch = false, foreign = false;
    Source given = Source::kDefault;
    int line = 0;  ///< of the file
  };
  template <class T>
  static bool readable(const std::string& text) {
    return from_text<T>(text).has_value();
  }

  Options& declare(Option option);
  const Option* look_up(std::string_view name) const;
  const Option& find(std::string_view name) const;
  Option& known(const std::string& name, const std::string& where, bool in_file);
  void check_value(const Option& option, const std::string& value, const std::string& where) const;
  void check_bounds(const Option& option, const std::string& value, const std::string& where) const;
  void read_command_line(const std::vector<std::string>& arguments);
  void read_file(const std::string& path);
  void read_line(const std::string& text, const std::string& path, int line);

  std::string usage_, summary_, group_;
  std::vector<Option> options_;
  bool help_wanted_ = false;
};

}  // namespace halomesh
