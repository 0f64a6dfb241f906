// SPDX-License-Identifier: Apache-2.0
// The options of one command: declared once, read from the command line and a configuration file.
// Boost.Program_options parses, stores and prints them; this adds bounds, choices, roles, the
// fields that values go to, suggestions for mistyped names and the line numbers of mistakes in a
// file.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <stdexcept>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

#include "error.hpp"
#include "printable.hpp"
#include "setting_role.hpp"
#include "src/apps/options/option_text.hpp"

namespace halomesh {

/// The options of one command, a value type: declare the options, then parse(), then get(). Every
/// option may also be set by a line `NAME = VALUE` of the file given as --config. The command line
/// overrides the file, and the file overrides the default. In the file, # and ; begin a comment and
/// [section] lines are ignored.
class Options {
 public:
  /// `usage` follows the program's name on the help page, e.g. "plan [options]"; `summary` says in
  /// one sentence what the command does; `example` is a command line without the program's name.
  Options(std::string usage, std::string summary, std::string example = {});

  /// Ends the help page with this text.
  Options& closing(std::string text);
  /// Starts a group of options, a paragraph of the help page. A group that belongs to the value
  /// `value` of the option `choice` is left out if the arguments beside --help name another value.
  Options& group(const std::string& title, const std::string& choice = {},
                 const std::string& value = {});

  /// Gives the options that are declared from here on, until the next group, this role.
  Options& as(SettingRole role);
  /// Declares an option of type T (see option_text.hpp) with a default. `placeholder` stands for
  /// its value on the help page, which does not show a default with empty text.
  template <class T>
  Options& add(const std::string& name, const std::string& placeholder, const T& fallback,
               const std::string& help) {
    return declare({name, placeholder, help, text_example<T>(), normal<T>, to_text(fallback)});
  }
  /// Declares an option that read<S>() stores in `field`; the field of a new S is its default.
  template <class T, class S>
  Options& add(const std::string& name, const std::string& placeholder, T S::*field,
               const std::string& help) {
    return add<T>(name, placeholder, S{}.*field, help).into(field);
  }
  /// Declares an option that must be given, on the command line or in the file.
  template <class T>
  Options& add_required(const std::string& name, const std::string& placeholder,
                        const std::string& help) {
    return declare({name, placeholder, help, text_example<T>(), normal<T>, std::nullopt});
  }
  /// Declares a switch, read by get<bool>(), that is off by default. `--name=off` and, in the file,
  /// `name = on` or `name = off` are accepted as well.
  Options& add_switch(const std::string& name, const std::string& help);
  /// Declares an option whose value is one of `choices`.
  Options& add_choice(const std::string& name, const std::vector<std::string>& choices,
                      const std::string& fallback, const std::string& help);
  /// Lets read<S>() store the value of the option declared last in `field`.
  template <class T, class S>
  Options& into(T S::*field) {
    return into<S>([field](S& values, const Options& options, const std::string& name) {
      values.*field = options.get<T>(name);
    });
  }
  /// Does so with the value that `value_of`, which may throw UsageError, makes of the text.
  template <class T, class S, class ValueOf>
  Options& into(T S::*field, ValueOf value_of) {
    return into<S>([field, value_of](S& values, const Options& options, const std::string& name) {
      values.*field = value_of(options.get<std::string>(name));
    });
  }
  /// Says when checkpoints record the option declared last, if its role says that they do; without
  /// this, always when it has a meaning. Options that are younger than some checkpoints are
  /// recorded only where they are not at their defaults.
  enum class Recorded : std::uint8_t { kAlways, kUnlessDefault, kIfGiven };
  Options& recorded(Recorded when);
  /// Records the number of the option declared last as the fp32 number that is computed with.
  Options& rounded();
  /// Bounds the number, or each number of the list or the extents, of the option declared last.
  /// Whole numbers are at most 10^12 by default, so that products of a few of them fit 64 bits.
  Options& at_least(double bound);
  Options& at_most(double bound);
  /// Bounds values from above, excluding `bound` itself.
  Options& below(double bound);
  /// Sets the value of the option declared last for a command line that gives it without one.
  Options& implicit(const std::string& text);
  /// Makes the option declared last meaningful only if the option `choice` has one of `values` or,
  /// without them, any value but "", "off" and "0". Otherwise it is refused on the command line and
  /// ignored with a note in a file, so that a file never blocks a choice.
  Options& needs(const std::string& choice, const std::vector<std::string>& values = {});
  /// The last option asks for something with the value 0 as well, which otherwise means off.
  Options& zero_is_value();
  /// Declares that the option declared last and `other` are two forms of one setting: one on the
  /// command line overrides the other in a file; otherwise only one may be given.
  Options& instead_of(const std::string& other);
  /// Gives `other` this value, unless it is given itself, where the option declared last is given.
  Options& implies(const std::string& other, const std::string& value);
  /// Leaves the option declared last out of the help page until show().
  Options& hidden();
  /// Puts a declared option into another group of the help page, with this text and default.
  Options& show(const std::string& name, const std::string& placeholder,
                const std::string& fallback, const std::string& help);

  /// Calls `check` after each parse(), for rules about several options. Rethrows its exceptions.
  Options& then(std::function<void(Options&)> check);

  /// Accepts the options of `other` in a configuration file, so that one file serves several
  /// commands; their values are checked and then ignored.
  Options& accept_in_config(const Options& other);
  /// Accepts arguments that belong to no option on the command line: see arguments(). Switches then
  /// take a value only as `--name=off`.
  Options& accept_arguments();

  /// Parses `argc` arguments after argv[0]. With --help or -h everything else is ignored. Throws
  /// UsageError: unknown option (naming the nearest), value of a wrong type or out of bounds,
  /// unexpected argument, missing option, option given twice, unreadable file or a mistake in it
  /// (with its line).
  void parse(int argc, const char* const* argv);
  void parse(const std::vector<std::string>& arguments);
  /// Parses arguments; options in `as_of_file` count as given in a file: see needs().
  void parse(const std::vector<std::string>& arguments, const std::set<std::string>& as_of_file);
  /// Parses the options in `arguments` that this object declares and returns the rest: options of
  /// `others` with their values, and everything after "--". Throws UsageError as parse() does.
  std::vector<std::string> parse_own(const std::vector<std::string>& arguments,
                                     const Options& others);

  /// True if --help or -h is among the arguments.
  static bool asks_for_help(int argc, const char* const* argv);
  bool help_wanted() const { return help_wanted_; }
  std::string help() const;

  /// The value of a declared option. Throws std::logic_error for a name that was not declared.
  template <class T>
  T get(const std::string& name) const {
    const std::optional<T> value = from_text<T>(text_of(name));
    if (!value) throw std::logic_error("option " + name + " is of another type");
    return *value;
  }
  /// `values` with the values of all options that were declared with a field of S.
  template <class S>
  S read(S values = {}) const {
    for (const Field& field : fields_)
      if (field.owner == typeid(S)) field.fill(&values, *this, field.name);
    return values;
  }
  /// Replaces the value of a declared option; `text` must be readable as its type.
  void replace(const std::string& name, const std::string& text);
  /// Leaves an option that is meaningless beside the others out of resolved(), until the next
  /// parse().
  void leave_out(const std::string& name) { left_out_.insert(name); }
  /// Refuses an option without a meaning on the command line, such as "with --model unet3d"; one in
  /// a file gets its default back, with a note.
  void set_aside(const std::string& name, const std::string& why, const std::string& hint);
  /// The options that parse() ignored in a file, one line each.
  std::vector<std::string> notes() const;
  /// True if the command has such an option.
  bool is_declared(const std::string& name) const;
  /// True if the command line or the file gave the option.
  bool is_given(const std::string& name) const;
  /// True if the command line gave the option.
  bool is_typed(const std::string& name) const;
  /// An option as given on the command line; a bare switch has no value.
  struct Given {
    std::string name;
    std::optional<std::string> value;
    char separator = ' ';  ///< '=' if the value of a switch must be attached
  };
  const std::vector<Given>& given() const { return given_; }
  /// Command-line arguments that belong to no option, if accept_arguments() allows them.
  const std::vector<std::string>& arguments() const { return arguments_; }
  /// True if the option names a file or a directory.
  bool names_path(const std::string& name) const;
  /// Every option but --config and --help, in the order of declaration.
  std::vector<std::string> names() const;
  /// The names of these options with their values as text, except those left out.
  std::vector<std::pair<std::string, std::string>> resolved() const;
  /// The roles of the options that have one, in this order.
  std::vector<std::pair<std::string, SettingRole>> roles() const;
  /// The settings that a checkpoint records, with their values: the options of the roles kNetwork
  /// and kTraining that have a meaning beside the others.
  std::map<std::string, std::string> recorded_settings() const;
  /// resolved() without the options of the role kFree: two results with the same can be compared.
  std::map<std::string, std::string> decisive_settings() const;

 private:
  struct Declaration {
    std::string name, placeholder, help, example;
    /// The text as to_text() writes its value; empty for a text that is not of the option's type.
    std::optional<std::string> (*normal)(const std::string&);
    std::optional<std::string> fallback;  ///< empty: required
    std::optional<SettingRole> role{};    ///< empty: no setting of a training run
    std::vector<std::string> choices{};
    bool is_switch = false;
    Recorded recorded = Recorded::kAlways;
  };
  class Value;
  struct Parser;  ///< the state of Boost.Program_options, which readers of options need not see
  template <class T>
  static std::optional<std::string> normal(const std::string& text) {
    const std::optional<T> value = from_text<T>(text);
    if (!value) return {};
    return to_text(*value);
  }
  /// A place for the value of an option; `fill` gets an object of the type `owner`.
  struct Field {
    std::type_index owner;
    std::string name;
    std::function<void(void*, const Options&, const std::string&)> fill;
  };
  template <class S, class Fill>
  Options& into(Fill fill) {
    fields_.push_back({typeid(S), last_name(),
                       [fill](void* values, const Options& options, const std::string& name) {
                         fill(*static_cast<S*>(values), options, name);
                       }});
    return *this;
  }

  Options& declare(const Declaration& declaration);
  [[noreturn]] void refuse_unknown(const std::string& name, const std::string& prefix,
                                   const std::vector<std::string>& more = {}) const;
  bool is_switch(const std::string& word) const;
  std::vector<std::string> boost_words(const std::vector<std::string>& arguments) const;
  void read_command_line(const std::vector<std::string>& arguments, const Options* others);
  void read_file(const std::string& path);
  void check_required();
  void check_paths();
  void check_needs();
  void check_rivals();
  void check_parsed();
  bool is_off(const std::string& name) const;
  const std::string& text_of(const std::string& name) const;
  const std::string& last_name() const;
  Parser& parser();
  const Parser& parser() const;

  std::string usage_, summary_, example_, closing_;
  std::any parser_;  ///< a Parser
  std::vector<Field> fields_;
  std::vector<Given> given_;
  std::vector<std::string> arguments_, rest_, beside_help_;
  std::vector<std::pair<std::string, std::vector<std::string>>> set_aside_;  ///< reason, names
  std::vector<std::function<void(Options&)>> checks_;
  std::set<std::string> left_out_;
  bool takes_arguments_ = false, help_wanted_ = false;
};

/// Prints Options::notes() as lines "note: ...".
inline void print_notes(std::ostream& out, const Options& options) {
  for (const std::string& note : options.notes()) out << "note: " + printable(note) + '\n';
}

}  // namespace halomesh
