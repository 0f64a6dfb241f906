// SPDX-License-Identifier: Apache-2.0
// Flat parameter memory of one part: see parameters.hpp.
#include "src/nn/parameters.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "narrow.hpp"
#include "rng.hpp"

namespace halomesh {
namespace {

// A normal number from two uniform ones (Box & Muller, 1958).
double normal(const CounterRng& rng, std::uint64_t index) {
  const auto words = rng.block(index);
  const double u = (words[0] + 1.0) * 0x1p-32, v = words[1] * 0x1p-32;  // u > 0
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

float initial_value(const ParameterGeometry& geometry, const CounterRng& rng, std::uint64_t index) {
  using Kind = InitialValues::Kind;
  const auto uniform = [&](double squared_limit) {
    return static_cast<float>(std::sqrt(squared_limit) *
                              (2.0 * static_cast<double>(rng.uniform(index)) - 1.0));
  };
  const auto in = static_cast<double>(geometry.fan_in), out = static_cast<double>(geometry.fan_out);
  switch (geometry.initial.kind) {
    case Kind::kGlorotUniform:
      return in + out == 0 ? 0.0F : uniform(6.0 / (in + out));
    case Kind::kHeNormal:
      return static_cast<float>(std::sqrt(2.0 / in) * normal(rng, index));
    case Kind::kFanInUniform:
      return uniform(1.0 / in);
    case Kind::kConstant:
      break;
  }
  return geometry.initial.constant;
}

}  // namespace

Parameters::Parameters(const ModelGeometry& geometry, std::int64_t part,
                       std::vector<std::string> states)
    : geometry_(&geometry),
      part_(part),
      groups_(holder_groups(geometry, part)),
      state_names_(std::move(states)) {
  const std::int64_t elements = geometry.parameter_count(part);
  values_ = AlignedBuffer<float>(elements);
  diffs_ = AlignedBuffer<float>(elements);
  for (std::size_t i = 0; i < state_names_.size(); ++i) states_.emplace_back(elements);
}

std::span<float> Parameters::state(const std::string& name) {
  const auto found = std::find(state_names_.begin(), state_names_.end(), name);
  if (found == state_names_.end()) return {};
  return state(static_cast<std::size_t>(found - state_names_.begin()));
}

const ParameterRange* Parameters::find(std::size_t placement) const {
  for (const HolderGroup& group : groups_)
    for (const ParameterRange& range : group.ranges)
      if (range.placement == placement) return &range;
  return nullptr;
}

std::vector<ParameterView> Parameters::views(std::size_t layer) {
  std::vector<ParameterView> views;
  const auto& placements = geometry_->parameters();
  for (std::size_t i = 0; i < placements.size(); ++i) {
    if (placements[i].layer != layer) continue;
    ParameterView view{
        placements[i].geometry, placements[i].slices[static_cast<std::size_t>(part_)], {}, {}};
    if (const ParameterRange* range = find(i)) {
      const auto at = static_cast<std::size_t>(range->offset);
      const auto count = static_cast<std::size_t>(range->volume);
      view.values = values().subspan(at, count);
      view.diffs = diffs().subspan(at, count);
      if (exact_.size() > 0) view.exact = exact(*range);
    }
    views.push_back(view);
  }
  return views;
}

Parameters& Parameters::keep_exact_sums() {
  if (exact_.size() == 0) exact_ = AlignedBuffer<double>(2 * values_.size());
  return *this;
}

void Parameters::freeze(std::size_t first) {
  for (HolderGroup& group : groups_) {
    group.frozen = 0;
    group.frozen_ranges = 0;
    for (const ParameterRange& range : group.ranges)
      if (geometry_->parameters()[range.placement].layer < first) {
        group.frozen += range.volume;
        ++group.frozen_ranges;
      }
  }
}

void Parameters::update_moving_averages() {
  for (const HolderGroup& group : groups_) {
    if (!group.moving_averages) continue;
    for (std::size_t r = group.frozen_ranges; r < group.ranges.size(); ++r) {
      const ParameterRange& range = group.ranges[r];
      const float share = geometry_->parameters()[range.placement].geometry.moving_average;
      for (std::int64_t i = range.offset; i < range.offset + range.volume; ++i)
        values_.data()[i] += share * (diffs_.data()[i] - values_.data()[i]);
    }
  }
}

void Parameters::initialize(std::uint64_t seed) {
  const auto& placements = geometry_->parameters();
  for (const HolderGroup& group : groups_)
    for (const ParameterRange& range : group.ranges) {
      const ParameterPlacement& placement = placements[range.placement];
      float* const values = values_.data() + range.offset;
      const CounterRng rng(seed, RandomUse::kInit, narrow<std::uint32_t>(range.placement));
      for_each_run(placement.geometry, placement.slices[static_cast<std::size_t>(part_)],
                   [&](std::int64_t local, std::int64_t global, std::int64_t length) {
#pragma omp parallel for schedule(static) if (length > 4096)
                     for (std::int64_t i = 0; i < length; ++i)
                       values[local + i] = initial_value(placement.geometry, rng,
                                                         static_cast<std::uint64_t>(global + i));
                   });
    }
}

void Parameters::assign(const std::string& layer, std::size_t number,
                        std::span<const float> values) {
  const auto& placements = geometry_->parameters();
  const auto found = std::find_if(placements.begin(), placements.end(), [&](const auto& p) {
    return p.layer_name == layer && p.number == number;
  });
  if (found == placements.end())
    throw std::logic_error(fmt::format("no parameter {} of layer {}", number, layer));
  const std::string& name = found->geometry.name;
  require(std::ssize(values) == found->geometry.volume(),
          text("{} values for the {} of {}, which has {}", values.size(), name, layer,
               found->geometry.volume()));
  for (const float value : values)
    require(std::isfinite(value), text("the {} of {} has a value of {}", name, layer, value),
            "train or export the network again");
  const ParameterRange* const range = find(static_cast<std::size_t>(found - placements.begin()));
  if (range == nullptr) return;
  for_each_run(found->geometry, found->slices[static_cast<std::size_t>(part_)],
               [&](std::int64_t local, std::int64_t global, std::int64_t length) {
                 std::copy_n(values.begin() + global, length,
                             values_.data() + range->offset + local);
               });
}

}  // namespace halomesh
