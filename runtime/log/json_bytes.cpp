// SPDX-License-Identifier: Apache-2.0
// Escapes of bytes in JSON: see json_bytes.hpp.
#include "runtime/log/json_bytes.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace halomesh {
namespace {

// The library writes and reads UTF-8 alone. Meanwhile the characters U+10FF80 to U+10FFFF, for
// private use, stand for the bytes 0x80 to 0xff; where a text has such a character, its bytes are
// escaped one by one.
constexpr unsigned kLead = 0xf4, kSecond = 0x8f;  // the first bytes of their encoding in UTF-8

std::string stand_in(unsigned byte) {
  return {static_cast<char>(kLead), static_cast<char>(kSecond), static_cast<char>(0xbc | byte >> 6),
          static_cast<char>(0x80 | (byte & 0x3f))};
}

unsigned byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

bool begins_stand_in(std::string_view text) {
  return byte_at(text, 0) == kLead && byte_at(text, 1) == kSecond && byte_at(text, 2) >= 0xbe;
}

/// The bytes of the first character of a text; 0 if it is not UTF-8 (RFC 3629, section 4).
std::size_t character_bytes(std::string_view text) {
  const unsigned lead = byte_at(text, 0), second = byte_at(text, 1);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const std::size_t bytes = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((byte_at(text, i) & 0xc0) != 0x80) return 0;
  const bool is_out_of_range = (lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
                               (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f);
  return is_out_of_range ? 0 : bytes;
}

std::string with_stand_ins(const std::string& text) {
  std::string made;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t bytes = begins_stand_in(rest) ? 0 : character_bytes(rest);
    made += bytes > 0 ? std::string(rest.substr(0, bytes)) : stand_in(byte_at(rest, 0));
    rest.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return made;
}

/// Replaces each stand-in by `replacement` of its byte.
template <class Replacement>
std::string without_stand_ins(std::string_view text, const Replacement& replacement) {
  std::string made;
  while (!text.empty()) {
    const bool is_one = begins_stand_in(text) && text.size() >= 4;
    if (is_one)
      made += replacement((byte_at(text, 2) & 3) << 6 | (byte_at(text, 3) & 0x3f));
    else
      made += text.front();
    text.remove_prefix(is_one ? 4 : 1);
  }
  return made;
}

/// Calls `change` with every text, but not with keys.
template <class J, class Change>
void change_texts(J& json, const Change& change) {
  if (json.is_string()) json = change(json.template get_ref<const std::string&>());
  if (json.is_structured())
    for (J& each : json) change_texts(each, change);
}

template <class J>
std::string dumped(J json, int indent) {
  change_texts(json, with_stand_ins);
  return without_stand_ins(json.dump(indent),
                           [](unsigned byte) { return fmt::format("\\udc{:02x}", byte); });
}

/// The number of an escape such as \udc80 at the start of a text; 0 if there is none.
unsigned escape_at(std::string_view text) {
  unsigned number = 0;
  if (text.starts_with("\\u") && text.size() >= 6)
    std::from_chars(text.data() + 2, text.data() + 6, number, 16);
  return number;
}

}  // namespace

std::string dump_json(const nlohmann::ordered_json& json, int indent) {
  return dumped(json, indent);
}

std::string dump_json(const nlohmann::json& json, int indent) { return dumped(json, indent); }

template <class Json>
Json parse_json(std::string_view text) {
  std::string made;
  while (!text.empty()) {
    const unsigned number = escape_at(text);
    const bool begins_pair = number >= 0xd800 && number < 0xdc00;
    const bool is_byte = number >= 0xdc80 && number <= 0xdcff;
    const std::size_t length = begins_pair ? 12 : number > 0 ? 6 : text.front() == '\\' ? 2 : 1;
    made += is_byte ? stand_in(number & 0xff) : std::string(text.substr(0, length));
    text.remove_prefix(std::min(length, text.size()));
  }
  Json json = Json::parse(made, nullptr, false);
  change_texts(json, [](const std::string& each) {
    return without_stand_ins(each,
                             [](unsigned byte) { return std::string(1, static_cast<char>(byte)); });
  });
  return json;
}

template nlohmann::json parse_json(std::string_view text);
template nlohmann::ordered_json parse_json(std::string_view text);

}  // namespace halomesh
