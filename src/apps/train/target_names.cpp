// SPDX-License-Identifier: Apache-2.0
// Names of targets and classes: see target_names.hpp.
#include "src/apps/train/target_names.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/input_file.hpp"

namespace halomesh {
namespace {

/// A JSON list of `count` names; "[]" if the directory describes no data set with so many `kind`,
/// targets or classes.
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

std::vector<std::string> names_of(const Comm& world, const Options& options,
                                  const NetworkSpec& network, const char* kind, std::size_t count) {
  const std::string text = on_first_rank(world, [&] {
    return described_names(options.get<std::string>("data"), kind, count)
        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  });
  auto names = nlohmann::json::parse(text).get<std::vector<std::string>>();
  if (names.empty()) return network.output_names(count);
  std::transform(names.begin(), names.end(), names.begin(), plain);
  return names;
}

}  // namespace

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

std::vector<std::string> target_titles(const Comm& world, const Options& options,
                                       const NetworkSpec& network, std::size_t count) {
  std::vector<std::string> titles = target_names(world, options, network, count);
  if (titles.empty())
    for (std::size_t t = 1; t <= count; ++t) titles.push_back(fmt::format("target {}", t));
  return titles;
}

}  // namespace halomesh
