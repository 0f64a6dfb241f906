// SPDX-License-Identifier: Apache-2.0
// Checks of samples: see sample_checks.hpp.
#include "runtime/data/sample_checks.hpp"

#include <cmath>

#include "error.hpp"

namespace halomesh {

void check_targets(std::span<const float> targets, const TargetLimits& limits,
                   const std::string& where) {
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const float value = targets[t];
    require(std::isfinite(value),
            text("{}: target {} is {:g}, expected a finite number", where, t, value),
            "make the file again, or keep it out of the data set");
    require(value >= limits.low && value <= limits.high &&
                (!limits.are_labels || value == std::floor(value)),
            text("{}: target {} is {:g}, expected {} {:g} to {:g}", where, t, value,
                 limits.are_labels ? "a label of" : "a number from", limits.low, limits.high),
            limits.cure);
  }
}

std::string number_hint(const TargetLimits& limits, std::int64_t count) {
  return fmt::format(
      fmt::runtime(limits.are_labels
                       ? "give one label for each sample, or with --loss bce set --targets {}"
                       : "set --targets {}"),
      count);
}

namespace {

/// Formats all digits of a value, which may have been fp32.
std::string digits_of(double value) {
  const auto narrow = static_cast<float>(std::abs(value) < 1e38 ? value : 0);
  return static_cast<double>(narrow) == value ? fmt::format("{}", narrow)
                                              : fmt::format("{}", value);
}

}  // namespace

void check_values(const std::optional<InvalidValue>& invalid, const SampleFormat& format,
                  const Box& box, const std::string& where) {
  if (!invalid) return;
  const Shape block = box.shape();
  const std::int64_t at = invalid->index, pixel = at / block.c;
  const std::int64_t d = box.lo[kD] + pixel / block.w / block.h,
                     h = box.lo[kH] + pixel / block.w % block.h, w = box.lo[kW] + pixel % block.w;
  const bool is_label = format.kind() == SampleFormat::Kind::kLabels;
  const std::string place =
      is_label ? fmt::format("label of voxel (d,h,w) = ({},{},{})", d, h, w)
               : fmt::format("voxel (d,h,w,c) = ({},{},{},{})", d, h, w, box.lo[kC] + at % block.c);
  const bool is_fraction = is_label && invalid->value != std::floor(invalid->value);
  throw Error(
      fmt::format("{}: {} is {}{}, expected {}", where, place, digits_of(invalid->value),
                  is_fraction ? ", which is not an integer" : "", format.expected()),
      is_fraction ? "labels are integers: round them where the file is made" : format.cure());
}

}  // namespace halomesh
