// SPDX-License-Identifier: Apache-2.0
// Converts option values from and to text.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "partition/mesh_shape.hpp"
#include "shape.hpp"

namespace halomesh {

/// Larger sizes count as mistakes: no machine holds such a sample, and the geometry of more parts
/// takes too long. Sums and byte counts within these bounds fit 64 bits.
constexpr double kMaxSampleElements = 0x1p40;
constexpr double kMaxParts = 16384;

/// Parses the whole of `text` as a T; empty if that fails. T may be: std::string; std::int64_t;
/// std::uint64_t; double (finite); bool ("on" or "off"); lists "128,64" of std::int64_t or double
/// ("" is the empty list); Shape "DxHxWxC" and PartGrid "DxHxW" with extents of at least 1 and a
/// product of at most kMaxSampleElements or kMaxParts.
template <class T>
std::optional<T> from_text(const std::string& text);
template <>
std::optional<std::vector<double>> from_text(const std::string& text);

/// Removes spaces, tabs and carriage returns from both ends.
std::string trimmed(const std::string& text);

/// An example of a T for messages: "a whole number such as 64".
template <class T>
std::string text_example();

/// The inverse of from_text().
std::string to_text(const std::string& value);
std::string to_text(const char* value);
std::string to_text(std::int64_t value);
std::string to_text(std::uint64_t value);
std::string to_text(double value);
std::string to_text(bool value);
std::string to_text(const std::vector<std::int64_t>& value);
std::string to_text(const std::vector<double>& value);
std::string to_text(const Shape& value);
std::string to_text(const PartGrid& value);

/// True if fp32, the type of computations, can represent a number of this magnitude.
inline bool fits_fp32(double number) {
  return std::abs(number) <= std::numeric_limits<float>::max() &&
         (number == 0 || static_cast<float>(number) != 0);
}

}  // namespace halomesh
