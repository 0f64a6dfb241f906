// SPDX-License-Identifier: Apache-2.0
// The options that define the network: see model_options.hpp.
#include "src/apps/options/model_options.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <variant>

#include "joined.hpp"
#include "models/registry.hpp"
#include "src/apps/options/standardize_option.hpp"
#include "src/nn/onednn_library.hpp"

namespace halomesh {
namespace {

constexpr const char* kModel = "model";
constexpr const char* kInput = "input";
/// Define how the network is computed, not what: not stored in checkpoints.
constexpr const char* kCuts = "cuts";
constexpr const char* kChannelCuts = "channel-cuts";
constexpr const char* kUseVersionOfFile = "use the version of halomesh that wrote the file";

std::string text_of(const NetworkValue& value) {
  return std::visit([](const auto& v) { return to_text(v); }, value);
}

/// The choices that any network has for an option of this name.
std::vector<std::string> choices_of(const std::string& name) {
  std::vector<std::string> all;
  for (const Network& network : networks())
    if (const NetworkOption* const option = network.option(name))
      for (const std::string& choice : option->choices)
        if (std::find(all.begin(), all.end(), choice) == all.end()) all.push_back(choice);
  return all;
}

/// Declares an option with the help page's text `help`.
void declare(Options& options, const NetworkOption& option, const std::string& help) {
  if (!option.choices.empty()) {
    options.add_choice(option.name, choices_of(option.name), std::get<std::string>(option.fallback),
                       help);
  } else {
    std::visit(
        [&](const auto& value) { options.add(option.name, option.placeholder, value, help); },
        option.fallback);
    if (!option.implicit.empty()) options.implicit(option.implicit);
  }
  if (option.at_least) options.at_least(*option.at_least);
  if (option.at_most) options.at_most(*option.at_most);
  if (option.below) options.below(*option.below);
}

/// The option's help, and what it is to networks after `first` that have one of the same name.
std::string help_of(const NetworkOption& option, const Network& first) {
  std::string help = option.help;
  for (const Network& other : networks()) {
    const NetworkOption* const same = other.option(option.name);
    if (&other == &first || same == nullptr) continue;
    if (same->fallback.index() != option.fallback.index() || same->role != option.role ||
        same->choices.empty() != option.choices.empty())
      throw std::logic_error("option " + option.name + " is of two kinds");
    help += "; " + other.name + ": " + same->help;
    if (same->fallback != option.fallback) help += ", default " + text_of(same->fallback);
  }
  return help;
}

/// Of the input, where networks differ.
std::string input_help() {
  std::string help = "extents and channels of a sample";
  for (const Network& other : networks())
    if (other.input != default_network().input)
      help += fmt::format("; default of {}: {}", other.name, other.input);
  return help;
}

std::string names_with(const std::string& option) {
  std::string names;
  for (const Network& network : networks())
    if (network.option(option) != nullptr) names += (names.empty() ? "" : ", ") + network.name;
  return names;
}

bool is_on_command_line(const Options& options, const std::string& name) {
  return std::any_of(options.given().begin(), options.given().end(),
                     [&](const Options::Given& given) { return given.name == name; });
}

/// Refuses a choice that only other networks have.
void check_choice(const Options& options, const NetworkOption& option, const std::string& network) {
  const std::vector<std::string>& choices = option.choices;
  if (choices.empty()) return;
  const auto value = options.get<std::string>(option.name);
  if (std::find(choices.begin(), choices.end(), value) == choices.end())
    throw UsageError(
        fmt::format("--{} {}: the network {} has no such choice", option.name, value, network),
        fmt::format("give one of {}", joined(choices, ", ")));
}

/// Refuses the options of other networks, and puts this one's defaults where nothing is given.
void choose_network(Options& options) {
  const Network& chosen = network_named(options.get<std::string>(kModel));
  for (const Network& other : networks())
    for (const NetworkOption& option : other.options) {
      if (chosen.option(option.name) != nullptr) continue;
      if (options.is_given(option.name))
        throw UsageError(
            fmt::format("{}{}: the network {} has no such option",
                        is_on_command_line(options, option.name) ? "--" : "", option.name,
                        chosen.name),
            fmt::format("leave it out; it is one of --model {}", names_with(option.name)));
      options.leave_out(option.name);
    }
  for (const NetworkOption& option : chosen.options) {
    if (!options.is_given(option.name)) options.replace(option.name, text_of(option.fallback));
    check_choice(options, option, chosen.name);
  }
  if (!options.is_given(kInput)) options.replace(kInput, to_text(chosen.input));
}

}  // namespace

void add_model_options(Options& options) {
  options.group("Network")
      .add_choice(kModel, network_names(), default_network().name, "network architecture")
      .add<Shape>(kInput, "DxHxWxC", default_network().input, input_help())
      .at_most(65536)
      .add<std::string>(kCuts, "CUTS", "auto",
                        "how convolutions are cut over the parts of a sample: auto: in space, by "
                        "output channels or both, as costs least; space; channels: all of one "
                        "kind; or a list of blocks of space x groups of channels, e.g. "
                        "conv4:4x2,conv5:1x8, with all others in space")
      .add<bool>(kChannelCuts, "on|off", true,
                 "older form of --cuts, which overrides it: on: auto, off: space");
  std::set<std::string> declared;
  for (const Network& network : networks()) {
    options.group(fmt::format("Network {}: {}", network.name, network.summary));
    for (const NetworkOption& option : network.options)
      if (declared.insert(option.name).second) declare(options, option, help_of(option, network));
  }
  options.then(choose_network);
}

std::string network_with(const std::string& name) {
  for (const Network& network : networks())
    if (network.option(name) != nullptr) return network.name;
  return default_network().name;
}

DataType precision_named(const std::string& name) {
  if (name == "fp32") return DataType::kFloat32;
  if (name != "bf16") throw UsageError(fmt::format("--precision {}", name), "give fp32 or bf16");
  if (!cpu_computes_bf16())
    throw UsageError(
        fmt::format("--precision bf16: this CPU has no instructions for bf16 (oneDNN sees {})",
                    cpu_isa_name()),
        "use --precision fp32, or nodes with AVX512-BF16 or AMX");
  return DataType::kBfloat16;
}

NetworkSpec network_spec(const Options& options, DataType precision, bool reproducible) {
  const Network& network = network_named(options.get<std::string>(kModel));
  NetworkSettings settings = network.defaults();
  settings.input = options.get<Shape>(kInput);
  for (auto& [name, value] : settings.values)
    std::visit([&options, &option = name](
                   auto& v) { v = options.get<std::remove_reference_t<decltype(v)>>(option); },
               value);
  settings.cuts = parse_cuts(options.get<std::string>(kCuts));
  if (!options.is_given(kCuts) && !options.get<bool>(kChannelCuts))
    settings.cuts.kind = CutSetting::Kind::kSpace;
  settings.precision = precision;
  settings.reproducible = reproducible;
  return {&network, std::move(settings)};
}

Model make_model(const NetworkSpec& spec) {
  Model model = spec.make();
  if (spec.network->option(kStandardizeOption) != nullptr)
    model.scale_counts(
        parse_standardization(spec.settings.get<std::string>(kStandardizeOption), model.input().c));
  return model;
}

std::map<std::string, std::string> model_settings(const Options& options) {
  std::map<std::string, std::string> settings;
  for (const char* const name : {kModel, kInput}) settings[name] = options.get<std::string>(name);
  for (const NetworkOption& option : network_named(settings[kModel]).options) {
    const auto value = options.get<std::string>(option.name);
    if (option.role == NetworkOption::Role::kComputing) continue;
    if (option.stored_at_default || value != text_of(option.fallback))
      settings[option.name] = value;
  }
  return settings;
}

Options options_of_settings(const std::map<std::string, std::string>& settings,
                            const std::string& file) {
  Options options("", "");
  add_model_options(options);
  const std::vector<std::string> known = options.names();
  std::vector<std::string> arguments;
  arguments.reserve(settings.size());
  for (const auto& [name, value] : settings) {
    // Not every option is one of the network: --config would have another file read.
    require(std::find(known.begin(), known.end(), name) != known.end(),
            text("{} describes a network that this version does not support: unknown setting {}",
                 file, name),
            kUseVersionOfFile);
    arguments.push_back(fmt::format("--{}={}", name, value));
  }
  try {
    options.parse(arguments);
  } catch (const UsageError& error) {
    throw Error(fmt::format("{} describes a network that this version does not support: {}", file,
                            error.what()),
                kUseVersionOfFile);
  }
  return options;
}

std::vector<ResumeRule> network_resume_rules() {
  std::vector<ResumeRule> rules{{kModel, ChangeRule::kNever}, {kInput, ChangeRule::kNever}};
  std::set<std::string> ruled;
  for (const Network& network : networks())
    for (const NetworkOption& option : network.options) {
      if (!ruled.insert(option.name).second) continue;
      using enum NetworkOption::Role;
      rules.push_back({option.name, option.role == kNetwork    ? ChangeRule::kNever
                                    : option.role == kTraining ? ChangeRule::kAllowed
                                                               : ChangeRule::kFree});
    }
  rules.push_back({kCuts, ChangeRule::kFree});
  rules.push_back({kChannelCuts, ChangeRule::kFree});
  return rules;
}

}  // namespace halomesh
