// SPDX-License-Identifier: Apache-2.0
// Names of targets and classes: see target_names.hpp.
#include "src/apps/train/target_names.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "joined.hpp"
#include "printable.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/input_file.hpp"
#include "runtime/train/checkpoint.hpp"
#include "runtime/train/checkpoint_file.hpp"

namespace halomesh {
namespace {

/// A JSON list of `count` names; "[]" if the directory describes no data set with this number of
/// `kind`, targets or classes.
nlohmann::json described_names(const std::filesystem::path& directory, const char* kind,
                               std::size_t count) {
  const std::filesystem::path file = directory / "dataset.json";
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return nlohmann::json::array();
  const auto description = nlohmann::json::parse(read_input_file(file), nullptr, false);
  if (!description.is_object()) return nlohmann::json::array();
  const auto names = description.find(kind);
  const bool usable = names != description.end() && names->is_array() && names->size() == count &&
                      std::all_of(names->begin(), names->end(), [](const nlohmann::json& name) {
                        return name.is_string() && !name.get<std::string>().empty();
                      });
  return usable ? *names : nlohmann::json::array();
}

std::string plain(std::string name) {
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) {
        return std::isalnum(c) == 0 &&
               std::string_view("._+-").find(static_cast<char>(c)) == std::string_view::npos;
      },
      '_');
  return name;
}

/// The items of a list separated by commas; none in an empty text.
std::vector<std::string> items_of(const std::string& list) {
  std::vector<std::string> items;
  std::istringstream text(list);
  for (std::string item; std::getline(text, item, ',');) items.push_back(item);
  return items;
}

/// The names in the data set; else those in the command's checkpoint, if it has one, from its
/// training data; else the network's own.
std::vector<std::string> names_of(const Comm& world, const Options& options,
                                  const NetworkSpec& network, const char* kind, std::size_t count) {
  std::string list = data_names(world, options.get<std::string>("data"), kind, count);
  if (list.empty() && options.is_declared("checkpoint")) {
    const auto names_in = [&](const std::string& file) {
      return on_first_rank(world, [&] {
        const TrainingState state = read_state(file);
        const auto found = state.run.find(kOutputNames);
        return found == state.run.end() ? std::string() : found->second;
      });
    };
    list = with_newest_checkpoint(world, options.get<std::string>("checkpoint"), names_in);
  }
  const std::vector<std::string> names = items_of(list);
  return names.size() == count ? names : network.output_names(count);
}

}  // namespace

std::string data_names(const Comm& world, const std::filesystem::path& data, const char* kind,
                       std::size_t count) {
  return on_first_rank(world, [&] {
    const nlohmann::json found = described_names(data, kind, count);
    std::vector<std::string> names;
    for (const nlohmann::json& name : found) names.push_back(plain(name.get<std::string>()));
    return joined(names, ",");
  });
}

std::vector<std::string> target_names(const Comm& world, const Options& options,
                                      const NetworkSpec& network, std::size_t count) {
  return names_of(world, options, network, "targets", count);
}

std::vector<std::string> class_names(const Comm& world, const Options& options,
                                     const NetworkSpec& network, std::size_t count) {
  std::vector<std::string> names = names_of(world, options, network, "classes", count);
  for (std::size_t c = names.size(); c < count; ++c) names.push_back(fmt::format("class {}", c));
  return names;
}

LabelNames label_names(const Comm& world, const Options& options, const NetworkSpec& network,
                       const Loss& loss) {
  const auto targets = static_cast<std::size_t>(loss.target_shape().c);
  const auto classes = static_cast<std::size_t>(loss.sample_classes());
  if (loss.takes_yes_or_no()) return {target_titles(world, options, network, targets), {"0", "1"}};
  return {{"class"}, class_names(world, options, network, classes)};
}

void warn_of_absent_class(const std::string& where, const std::string& name, std::size_t number,
                          const char* what) {
  std::cerr << fmt::format(
      "WARNING: no voxel {} is labelled {} (class {}): {}; hint: check the labels, or train a "
      "network of fewer --classes\n",
      where, printable(name), number, what);
}

void warn_of_absent_classes(const Options& options, const std::string& split,
                            const std::vector<std::string>& names, const Evaluation& result) {
  for (std::size_t c = 0; c < names.size(); ++c)
    if (result.classes[c].voxels == 0)
      warn_of_absent_class(
          fmt::format("in {}, split {},", printable(options.get<std::string>("data")), split),
          names[c], c, "its Dice and IoU only tell whether it is predicted");
  if (result.is_empty())
    std::cerr << "WARNING: without any foreground a network that predicts none has the best score, "
                 "and no target is reached\n";
}

std::vector<std::string> target_titles(const Comm& world, const Options& options,
                                       const NetworkSpec& network, std::size_t count) {
  std::vector<std::string> titles = target_names(world, options, network, count);
  if (titles.empty())
    for (std::size_t t = 1; t <= count; ++t) titles.push_back(fmt::format("target {}", t));
  return titles;
}

}  // namespace halomesh
