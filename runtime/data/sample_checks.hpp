// SPDX-License-Identifier: Apache-2.0
// Checks that every sample must pass, and their messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "box.hpp"
#include "runtime/data/sample_format.hpp"
#include "shape.hpp"

namespace halomesh {

/// Bytes of the values of a sample of this shape.
inline std::int64_t value_bytes(const Shape& shape, DataType type) {
  return shape.volume() * size_of(type);
}

/// Throws Error, starting with `where`, unless every target is finite and within the limits.
void check_targets(std::span<const float> targets, const TargetLimits& limits,
                   const std::string& where);

/// The hint for samples of unequal extents.
inline constexpr const char* kUnequalExtentsCure =
    "train with --patches random on crops of --input, and --pad where samples are smaller; "
    "evaluate "
    "with --windows, convert with --any-extents. Networks that predict numbers of a sample need "
    "equal extents";

/// The hint for data with `count` scalar targets where another number was expected.
std::string number_hint(const TargetLimits& limits, std::int64_t count);

/// Throws Error, starting with `where`, if there is an invalid value. Its index is relative to the
/// block `box` of the sample.
void check_values(const std::optional<InvalidValue>& invalid, const SampleFormat& format,
                  const Box& box, const std::string& where);

}  // namespace halomesh
