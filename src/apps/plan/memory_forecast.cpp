// SPDX-License-Identifier: Apache-2.0
// The memory of a training process: see memory_forecast.hpp.
#include "src/apps/plan/memory_forecast.hpp"

#include <algorithm>
#include <string>

#include "src/apps/options/model_options.hpp"
#include "src/apps/options/train_options.hpp"

namespace halomesh {

std::string largest_share(const PartMemory& memory) {
  const auto* largest = std::max_element(
      kMemoryTerms.begin(), kMemoryTerms.end(),
      [&](const auto& a, const auto& b) { return memory.*a.bytes < memory.*b.bytes; });
  return fmt::format(
      "{}, {:.0f} %", largest->name,
      100 * static_cast<double>(memory.*largest->bytes) / static_cast<double>(memory.total()));
}

void add_memory_options(Options& options) {
  add_optimizer_choice(options);
  add_payload_option(options);
  add_recompute_option(options);
  options.add_choice("precision", {"fp32", "bf16"}, "fp32", "compute precision");
}

DataType planned_precision(const Options& options) {
  return options.get<std::string>("precision") == "bf16" ? DataType::kBfloat16 : DataType::kFloat32;
}

MemoryForecast::MemoryForecast(const Options& options)
    : spec_(network_spec(options, planned_precision(options))) {
  setting_.optimizer_states = state_arrays(options);
  setting_.use = memory_use(options).value_or(MemoryUse::kShared);
  setting_.payload = payload_type(options);
}

PartMemory MemoryForecast::of_part(const ModelGeometry& geometry, std::int64_t part) const {
  Model model = make_model(spec_);
  const auto loss = spec_.make_loss(geometry.tensors().back().shape);
  return memory_of_part(model, geometry, part, loss.get(), setting_);
}

std::int64_t MemoryForecast::largest(const ModelGeometry& geometry) const {
  return largest_part(make_model(spec_), geometry, setting_);
}

}  // namespace halomesh
