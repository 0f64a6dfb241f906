// SPDX-License-Identifier: Apache-2.0
// The options that define the network: see model_options.hpp.
#include "src/apps/options/model_options.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <variant>

#include "joined.hpp"
#include "models/registry.hpp"
#include "runtime/train/checkpoint_directory.hpp"
#include "runtime/train/checkpoint_file.hpp"
#include "simulation.hpp"
#include "src/apps/options/standardize_option.hpp"
#include "src/nn/onednn/library.hpp"

namespace halomesh {
namespace {

constexpr const char* kModel = "model";
constexpr const char* kInput = "input";
/// These options affect how the network is computed, not what it is, and are not stored in
/// checkpoints.
constexpr const char* kCuts = "cuts";
constexpr const char* kChannelCuts = "channel-cuts";
constexpr const char* kUseVersionOfFile = "use the version of halomesh that wrote the file";

std::string text_of(const NetworkValue& value) {
  return std::visit([](const auto& v) { return to_text(v); }, value);
}
void read_value(const Options& options, const std::string& name, NetworkValue& value) {
  std::visit([&](auto& v) { v = options.get<std::remove_reference_t<decltype(v)>>(name); }, value);
}

/// Whether the options are those of training.
bool trains(const Options& options) {
  const std::vector<std::string> known = options.names();
  return std::find(known.begin(), known.end(), "resume") != known.end();
}

/// All choices that some network has for an option of this name.
std::vector<std::string> choices_of(const std::string& name) {
  std::vector<std::string> all;
  for (const Network& network : networks())
    if (const NetworkOption* const option = network.option(name))
      for (const std::string& choice : option->choices)
        if (std::find(all.begin(), all.end(), choice) == all.end()) all.push_back(choice);
  return all;
}

std::vector<std::string> networks_with(const std::string& option) {
  std::vector<std::string> names;
  for (const Network& network : networks())
    if (network.option(option) != nullptr) names.push_back(network.name);
  return names;
}

/// Declares an option of some networks, which the help page shows with each of them.
void declare(Options& options, const NetworkOption& option) {
  if (!option.choices.empty()) {
    options.add_choice(option.name, choices_of(option.name), std::get<std::string>(option.fallback),
                       option.help);
  } else {
    std::visit(
        [&](const auto& value) {
          options.add(option.name, option.placeholder, value, option.help);
        },
        option.fallback);
    if (!option.implicit.empty()) options.implicit(option.implicit);
  }
  // Takes the bounds that any network allows; check_bounds() knows the chosen one.
  NetworkOption loosest = option;
  for (const Network& network : networks()) {
    const NetworkOption* const same = network.option(option.name);
    if (same == nullptr) continue;
    // An option without a bound has the least.
    loosest.at_least = std::min(loosest.at_least, same->at_least);
    for (auto bound : {&NetworkOption::at_most, &NetworkOption::below})
      if (loosest.*bound && (!(same->*bound) || *(same->*bound) > *(loosest.*bound)))
        loosest.*bound = same->*bound;
  }
  if (loosest.at_least) options.at_least(*loosest.at_least);
  if (loosest.at_most) options.at_most(*loosest.at_most);
  if (loosest.below) options.below(*loosest.below);
  const std::vector<std::string> users = networks_with(option.name);
  if (option.stored != nullptr) options.implies(kModel, users.front());
  options.needs(kModel, users).hidden();
}

/// Throws std::logic_error if options of one name in two networks are of two kinds.
void check_kind(const NetworkOption& option) {
  for (const Network& other : networks())
    if (const NetworkOption* const same = other.option(option.name);
        same != nullptr &&
        (same->fallback.index() != option.fallback.index() || same->role != option.role ||
         same->choices.empty() != option.choices.empty()))
      throw std::logic_error("option " + option.name + " is of two kinds");
}

/// Refuses a choice that only other networks have. A choice in a file gives way to --model on the
/// command line.
void check_choice(Options& options, const NetworkOption& option, const std::string& network) {
  const std::vector<std::string>& choices = option.choices;
  const auto value = options.get<std::string>(option.name);
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) return;
  if (options.is_typed(option.name) || !options.is_typed(kModel))
    throw UsageError(
        fmt::format("--{} {}: the network {} has no such choice", option.name, value, network),
        fmt::format("give one of {}", joined(choices, ", ")));
  options.set_aside(option.name, fmt::format("with --{} {}", kModel, network), {});
  options.replace(option.name, text_of(option.fallback));
}

/// Refuses a number that only other networks allow.
void check_bounds(const Options& options, const NetworkOption& option, const std::string& network) {
  const auto text = options.get<std::string>(option.name);
  const auto refuse = [&](const char* what, const std::string& hint) {
    throw UsageError(fmt::format("--{} {} is too {} for {}", option.name, text, what, network),
                     hint);
  };
  for (const double number : from_text<std::vector<double>>(text).value_or(std::vector<double>{})) {
    if (option.at_least && number < *option.at_least)
      refuse("small", fmt::format("give at least {:g}", *option.at_least));
    if (option.at_most && number > *option.at_most)
      refuse("large", fmt::format("give at most {:g}", *option.at_most));
    if (option.below && number >= *option.below)
      refuse("large", fmt::format("give less than {:g}", *option.below));
  }
}

/// The checkpoint that a training run begins with; empty if there is none.
[[maybe_unused]] std::string first_checkpoint(const Options& options) {
  const auto resume = options.get<std::string>("resume");
  if (resume == "auto")
    if (const auto latest = latest_checkpoint(
            std::filesystem::path(options.get<std::string>("out")) / "checkpoints"))
      return latest->string();
  return resume == "auto" || resume == "never" ? options.get<std::string>("init-from") : resume;
}

/// Takes a network's file from the checkpoint that a run begins with, unless it is given.
void take_stored(Options& options, const NetworkOption& option) {
  if (option.stored == nullptr || options.is_given(option.name) || !trains(options)) return;
  if constexpr (!simulation::kOn) {  // simulated ranks have no files
    const std::string file = first_checkpoint(options);
    if (file.empty()) return;
    const auto settings = read_state(file).model;
    if (const auto found = settings.find(option.name); found != settings.end())
      options.replace(option.name, found->second);
  }
}

/// Sets the network's defaults for options not given.
void choose_network(Options& options) {
  const Network& chosen = network_named(options.get<std::string>(kModel));
  for (const NetworkOption& option : chosen.options) {
    if (!options.is_given(option.name)) options.replace(option.name, text_of(option.fallback));
    take_stored(options, option);
    check_choice(options, option, chosen.name);
    check_bounds(options, option, chosen.name);
  }
  if (chosen.norms_take_batch && trains(options) && !options.is_given("batch-norm"))
    options.replace(
        "batch-norm",
        to_text(std::max<std::int64_t>(
            options.get<std::int64_t>("batch") / options.get<std::int64_t>("accumulate"), 1)));
  if (options.is_given(kInput)) return;
  Shape input = chosen.input;
  if (chosen.own_input != nullptr) {
    NetworkSettings settings = chosen.defaults();
    for (auto& [name, value] : settings.values) read_value(options, name, value);
    input = chosen.own_input(settings);
  }
  options.replace(kInput, to_text(input));
}

}  // namespace

void add_model_options(Options& options) {
  options.group("Network")
      .add_choice(kModel, network_names(), default_network().name, "network architecture")
      .add<Shape>(kInput, "DxHxWxC", default_network().input, {})
      .at_most(65536)
      .hidden()
      .add<std::string>(kCuts, "CUTS", "auto",
                        "how convolutions are cut over the parts of a sample: auto: in space, by "
                        "output channels or both, as costs least; space; channels: all of one "
                        "kind; or a list of blocks of space x groups of channels, e.g. "
                        "conv4:4x2,conv5:1x8, with all others in space")
      .add<bool>(kChannelCuts, "on|off", true,
                 "older form of --cuts, which overrides it: on: auto, off: space");
  std::set<std::string> declared;
  for (const Network& network : networks()) {
    options.group(fmt::format("Network {}: {}", network.name, network.summary), kModel,
                  network.name);
    const bool has_extents = !network.own_input;
    options.show(kInput, "DxHxWxC", has_extents ? to_text(network.input) : "",
                 has_extents ? "extents and channels of a sample"
                             : "extents and channels of a sample (default: those of the file)");
    for (const NetworkOption& option : network.options) {
      check_kind(option);
      if (declared.insert(option.name).second) declare(options, option);
      options.show(option.name,
                   option.choices.empty() ? option.placeholder : joined(option.choices, "|"),
                   text_of(option.fallback), option.help);
    }
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
  if (name != "bf16")
    throw UsageError(fmt::format("unknown --precision {}", name), "give fp32 or bf16");
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
  for (auto& [name, value] : settings.values) read_value(options, name, value);
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
    model.scale_counts(parse_scales(
        kStandardizeOption, spec.settings.get<std::string>(kStandardizeOption), model.input().c));
  return model;
}

std::unique_ptr<Loss> make_loss(const NetworkSpec& spec, const Shape& output) {
  auto loss = spec.make_loss(output);
  if (spec.network->option(kScaleTargetsOption) == nullptr) return loss;
  auto scales = parse_scales(kScaleTargetsOption,
                             spec.settings.get<std::string>(kScaleTargetsOption), output.c);
  if (!scales.empty()) loss->scale_targets(scales);
  return loss;
}

std::map<std::string, std::string> model_settings(const Options& options) {
  std::map<std::string, std::string> settings;
  for (const char* const name : {kModel, kInput}) settings[name] = options.get<std::string>(name);
  for (const NetworkOption& option : network_named(settings[kModel]).options) {
    const auto value = options.get<std::string>(option.name);
    if (option.role == SettingRole::kComputing) continue;
    if (option.stored_at_default || value != text_of(option.fallback))
      settings[option.name] = option.stored != nullptr ? option.stored(value) : value;
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
    // Not every option belongs to the network: --config would make it read another file.
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
  using enum SettingRole;
  std::vector<ResumeRule> rules{{kModel, kNetwork}, {kInput, kNetwork}};
  std::set<std::string> ruled;
  for (const Network& network : networks())
    for (const NetworkOption& option : network.options)
      if (ruled.insert(option.name).second) rules.push_back({option.name, option.role});
  rules.push_back({kCuts, kComputing});
  rules.push_back({kChannelCuts, kComputing});
  return rules;
}

}  // namespace halomesh
