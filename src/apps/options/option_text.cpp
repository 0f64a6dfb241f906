// SPDX-License-Identifier: Apache-2.0
// Converts option values from and to text: see option_text.hpp.
#include "src/apps/options/option_text.hpp"

#include <charconv>
#include <cmath>

#include "error.hpp"
#include "joined.hpp"

namespace halomesh {
namespace {

template <class Number>
std::optional<Number> whole_number(const char* begin, const char* end) {
  Number value{};
  const auto [next, error] = std::from_chars(begin, end, value);
  if (error != std::errc{} || next != end) return std::nullopt;
  return value;
}

template <class Number>
std::optional<Number> number(const std::string& text) {
  return whole_number<Number>(text.data(), text.data() + text.size());
}

template <class Element>
std::optional<std::vector<Element>> list(const std::string& text, char separator) {
  std::vector<Element> values;
  if (text.empty()) return values;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = text.find(separator, begin);
    const auto value = from_text<Element>(text.substr(begin, end - begin));
    if (!value) return std::nullopt;
    values.push_back(*value);
    if (end == std::string::npos) return values;
    begin = end + 1;
  }
}

/// Parses `count` extents of at least 1, separated by 'x', whose product is at most `most`.
std::optional<std::vector<std::int64_t>> extents(const std::string& text, std::size_t count,
                                                 double most) {
  auto values = list<std::int64_t>(text, 'x');
  if (!values || values->size() != count) return std::nullopt;
  double product = 1;  // cannot overflow, as an integer could
  for (const std::int64_t v : *values) {
    if (v < 1) return std::nullopt;
    product *= static_cast<double>(v);
  }
  return product <= most ? values : std::nullopt;
}

}  // namespace

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

template <>
std::optional<std::string> from_text<std::string>(const std::string& text) {
  return text;
}
template <>
std::optional<std::int64_t> from_text<std::int64_t>(const std::string& text) {
  return number<std::int64_t>(text);
}
template <>
std::optional<std::uint64_t> from_text<std::uint64_t>(const std::string& text) {
  return number<std::uint64_t>(text);
}
template <>
std::optional<double> from_text<double>(const std::string& text) {
  const auto value = number<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}
template <>
std::optional<bool> from_text<bool>(const std::string& text) {
  if (text == "on") return true;
  if (text == "off") return false;
  return std::nullopt;
}
template <>
std::optional<std::vector<std::int64_t>> from_text<std::vector<std::int64_t>>(
    const std::string& text) {
  return list<std::int64_t>(text, ',');
}
template <>
std::optional<std::vector<double>> from_text<std::vector<double>>(const std::string& text) {
  return list<double>(text, ',');
}
template <>
std::optional<Shape> from_text<Shape>(const std::string& text) {
  const auto e = extents(text, 4, kMaxSampleElements);
  if (!e) return std::nullopt;
  return Shape{(*e)[3], (*e)[0], (*e)[1], (*e)[2]};
}
template <>
std::optional<PartGrid> from_text<PartGrid>(const std::string& text) {
  const auto e = extents(text, 3, kMaxParts);
  if (!e) return std::nullopt;
  return PartGrid{(*e)[0], (*e)[1], (*e)[2]};
}

template <>
std::string text_example<std::string>() {
  return "a string";
}
template <>
std::string text_example<std::int64_t>() {
  return "a whole number such as 64";
}
template <>
std::string text_example<std::uint64_t>() {
  return "a whole number from 0 to 18446744073709551615";
}
template <>
std::string text_example<double>() {
  return "a number such as 0.001";
}
template <>
std::string text_example<bool>() {
  return "'on' or 'off'";
}
template <>
std::string text_example<std::vector<std::int64_t>>() {
  return "a list of whole numbers such as 128,64";
}
template <>
std::string text_example<std::vector<double>>() {
  return "a list of numbers such as 0.25,0.125";
}
template <>
std::string text_example<Shape>() {
  return "a shape DxHxWxC of at most 2^40 elements, such as 128x128x128x4";
}
template <>
std::string text_example<PartGrid>() {
  return "a grid DxHxW of at most 16384 parts, such as 4x4x1";
}

std::string to_text(const std::string& value) { return value; }
std::string to_text(const char* value) { return value; }
std::string to_text(std::int64_t value) { return fmt::format("{}", value); }
std::string to_text(std::uint64_t value) { return fmt::format("{}", value); }
std::string to_text(double value) { return fmt::format("{}", value); }
std::string to_text(bool value) { return value ? "on" : "off"; }
std::string to_text(const std::vector<std::int64_t>& value) { return joined(value, ","); }
std::string to_text(const std::vector<double>& value) { return joined(value, ","); }
std::string to_text(const Shape& value) { return fmt::format("{}", value); }
std::string to_text(const PartGrid& value) { return to_string(value); }

}  // namespace halomesh
