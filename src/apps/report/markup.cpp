// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/markup.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstdint>

namespace halomesh {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool continues(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
}

/// The bytes of the UTF-8 character at `at` (RFC 3629, section 4), or 0 if there is none.
std::size_t character_bytes(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return 1;
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!continues(text, at + i)) return 0;
  }
  const auto second = static_cast<unsigned char>(text[at + 1]);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second > 0x9F;
  const bool beyond = first == 0xF4 && second > 0x8F;
  // U+FFFE and U+FFFF are no characters of XML.
  const bool none =
      first == 0xEF && second == 0xBF && static_cast<unsigned char>(text[at + 2]) > 0xBD;
  return overlong || surrogate || beyond || none ? 0 : bytes;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t bytes = character_bytes(text, i);
    const char c = text[i];
    const bool control =
        (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
    if (bytes == 0 || control) {
      out += kReplacement;
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else {
      out += text.substr(i, bytes);
    }
    i += bytes == 0 ? 1 : bytes;
  }
  return out;
}

std::string anchor(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  std::string out;
  for (const char c : text) out += letter(c) || (c >= '0' && c <= '9') || c == '_' ? c : '-';
  return out.empty() || !letter(out.front()) ? "n" + out : out;
}

std::string px(double length) {
  const double tenths = std::round(length * 10);
  const auto whole = static_cast<std::int64_t>(tenths);
  return whole % 10 == 0 ? fmt::format("{}", whole / 10) : fmt::format("{:.1f}", tenths / 10);
}

double text_width(std::string_view text, double font_px) {
  double em = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0U) == 0x80U) continue;
    if (std::string_view("iljtfrI.,:;|!'()[]/ ").find(c) != std::string_view::npos) {
      em += 0.38;
    } else if (std::string_view("mwMW%@").find(c) != std::string_view::npos) {
      em += 0.95;
    } else if (c >= 'A' && c <= 'Z') {
      em += 0.72;
    } else {
      em += static_cast<unsigned char>(c) >= 0xE3 ? 1.0 : 0.61;
    }
  }
  return em * font_px;
}

std::string shortened(std::string_view text, std::size_t characters) {
  std::size_t count = 0;
  std::size_t cut = 0;  // where the last character kept before an ellipsis ends
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (continues(text, i)) continue;
    if (count + 1 == characters) cut = i;
    if (++count > characters) return std::string(text.substr(0, cut)) + "\xE2\x80\xA6";
  }
  return std::string(text);
}

}  // namespace halomesh
