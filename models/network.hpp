// SPDX-License-Identifier: Apache-2.0
// The declaration of a network: its name, its options, how it is built, and its loss. Must not
// depend on the command line, which turns these options into its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "partition/cuts.hpp"
#include "registered.hpp"
#include "setting_role.hpp"
#include "src/nn/loss.hpp"
#include "src/nn/model.hpp"
#include "src/nn/parameters.hpp"

namespace halomesh {

/// The value of an option; which of these types it has is fixed by the default.
using NetworkValue =
    std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

/// The option for the value of Model::scale_counts() in networks of counts: off, on, or numbers.
inline constexpr const char* kStandardizeOption = "standardize";

/// The option by which outputs stand for scaled targets: off, on, or numbers.
inline constexpr const char* kScaleTargetsOption = "scale-targets";

/// The option for what the input of a network of counts has: counts, or fields of other numbers.
inline constexpr const char* kValuesOption = "values";

/// One option of a network, as in the command line, configuration files and checkpoints.
struct NetworkOption {
  std::string name{}, placeholder{};
  NetworkValue fallback{};
  std::string help{};
  SettingRole role = SettingRole::kNetwork;
  std::optional<double> at_least{}, at_most{}, below{};  ///< bounds for each number
  std::vector<std::string> choices{};  ///< choices of a text; if empty, any text is allowed
  /// The value of an option given without one; if empty, it must have a value.
  std::string implicit{};
  /// False for options that were added later: they are not stored at their defaults, so that
  /// versions without them can read the checkpoint.
  bool stored_at_default = true;
  /// The text that checkpoints keep of a value, where it is another: the content of a file.
  std::string (*stored)(const std::string& value) = nullptr;
};

/// The settings that a network is built from.
struct NetworkSettings {
  Shape input;                                   ///< shape of a sample
  std::map<std::string, NetworkValue> values{};  ///< values of all its options, by name
  CutSetting cuts{};
  DataType precision = DataType::kFloat32;  ///< kFloat32 or kBfloat16
  bool reproducible = false;                ///< layers must be Layer::sums_exactly()
  bool predicts = false;                    ///< without layers that only training needs

  /// The value of an option; throws std::logic_error for one that the network has not declared.
  template <class T>
  const T& get(const std::string& name) const {
    const auto found = values.find(name);
    const T* const value = found == values.end() ? nullptr : std::get_if<T>(&found->second);
    if (value == nullptr) throw std::logic_error("the network has no option " + name);
    return *value;
  }
};

/// A network, which its file registers.
struct Network {
  std::string name, summary;
  Shape input;                               ///< shape of a sample, by default
  DataType input_type = DataType::kFloat32;  ///< kInt16 counts, or kFloat32; by default
  std::vector<NetworkOption> options;
  /// Throws UsageError for settings that it cannot be built with.
  Model (*make)(const NetworkSettings& settings) = nullptr;
  /// The loss by which it is trained and judged; `output` is the global shape of its output.
  std::unique_ptr<Loss> (*make_loss)(const NetworkSettings& settings,
                                     const Shape& output) = nullptr;
  /// The names of its outputs, targets or classes; null or empty where they have no names.
  std::vector<std::string> (*output_names)(const NetworkSettings& settings) = nullptr;
  /// The least extents with which it can be built that are not below those of settings.input; null:
  /// any extents are allowed.
  Spatial (*padded_extents)(const NetworkSettings& settings) = nullptr;
  /// The shape of a sample that its options imply; null: `input`.
  Shape (*own_input)(const NetworkSettings& settings) = nullptr;
  /// By default, batch norms take all samples of a pass of training.
  bool norms_take_batch = false;
  /// Replaces initial parameters that the network comes with; null where it comes with none.
  void (*start)(const NetworkSettings& settings, Parameters& parameters) = nullptr;

  /// Null where there is no such option.
  const NetworkOption* option(const std::string& option_name) const;
  /// All options at their defaults.
  NetworkSettings defaults() const;
};

/// A network with its options: what a checkpoint describes and a command trains.
struct NetworkSpec {
  const Network* network = nullptr;  ///< an entry of registry.hpp
  NetworkSettings settings;

  Model make() const { return network->make(settings); }
  std::unique_ptr<Loss> make_loss(const Shape& output) const {
    return network->make_loss(settings, output);
  }
  /// Sets the parameters with which training begins.
  void initialize(Parameters& parameters, std::uint64_t seed) const;
  /// As many names as `outputs`, or none.
  std::vector<std::string> output_names(std::size_t outputs) const;
};

}  // namespace halomesh
