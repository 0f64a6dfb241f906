// SPDX-License-Identifier: Apache-2.0
// The part of Options that is made of Boost.Program_options: the values and bounds of options, and
// their groups. Included by the sources of Options alone.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <boost/program_options/variables_map.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "joined.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

namespace po = boost::program_options;

constexpr const char* kConfigOption = "config";
constexpr double kMaxWholeNumber = 1e12;

/// A rejected value, before its place is known.
struct RefusedValue {
  std::string name, what, hint;
};

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
  std::pair<std::string, std::string> implied;  ///< another option and the value that it then has

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
    throw RefusedValue{declaration_.name, what, hint};
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
      if (option->long_name() != kConfigOption)
        all.push_back(static_cast<const Value*>(option->semantic().get()));
    return all;
  }
};

}  // namespace halomesh
