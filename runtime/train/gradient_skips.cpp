// SPDX-License-Identifier: Apache-2.0
// Layers that are frozen during training: see gradient_skips.hpp.
#include "runtime/train/gradient_skips.hpp"

#include <charconv>
#include <sstream>

#include "error.hpp"

namespace halomesh {
namespace {

bool parse_number(const std::string& text, std::int64_t& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end && number > 0;
}

}  // namespace

std::vector<GradientSkip> parse_gradient_skips(const std::string& text) {
  std::vector<GradientSkip> skips;
  std::stringstream list(text);
  for (std::string item; std::getline(list, item, ',');) {
    const std::size_t at = item.find('@');
    GradientSkip skip;
    const bool valid = at != std::string::npos && parse_number(item.substr(0, at), skip.layers) &&
                       parse_number(item.substr(at + 1), skip.epoch);
    const bool grows =
        skips.empty() || (skip.layers > skips.back().layers && skip.epoch > skips.back().epoch);
    if (!valid || !grows)
      throw UsageError(fmt::format("--skip-gradients {}: {} at \"{}\"", text,
                                   valid ? "layers and epochs must grow" : "no LAYERS@EPOCH", item),
                       "give numbers of layers, each with the epochs to train before, e.g. "
                       "--skip-gradients 2@8,4@16");
    skips.push_back(skip);
  }
  return skips;
}

std::string to_text(const std::vector<GradientSkip>& skips) {
  std::string text;
  for (const GradientSkip& skip : skips)
    text += fmt::format("{}{}@{}", text.empty() ? "" : ",", skip.layers, skip.epoch);
  return text;
}

std::int64_t skipped_layers(const std::vector<GradientSkip>& skips, std::int64_t epoch) {
  std::int64_t layers = 0;
  for (const GradientSkip& skip : skips)
    if (skip.epoch <= epoch) layers = skip.layers;
  return layers;
}

std::size_t first_trained_layer(const ModelGeometry& geometry, std::int64_t skipped) {
  if (skipped == 0) return 0;
  std::vector<std::size_t> layers;
  for (const ParameterPlacement& placement : geometry.parameters())
    if (layers.empty() || layers.back() != placement.layer) layers.push_back(placement.layer);
  if (skipped >= std::ssize(layers))
    throw UsageError(
        fmt::format("--skip-gradients {} of {} layers with parameters", skipped, layers.size()),
        fmt::format("leave at least one to train: give {} or less", std::ssize(layers) - 1));
  return layers[static_cast<std::size_t>(skipped)];
}

}  // namespace halomesh
