// SPDX-License-Identifier: Apache-2.0
// JSON of texts of any bytes, as names of files may have.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace halomesh {

/// The JSON as text. Each byte of a text in it that is not UTF-8 becomes an escape from \udc80 to
/// \udcff, as Python's error handler "surrogateescape" has them: names of files read back by
/// Python, or by parse_json(), have their bytes again. `indent` -1: on one line.
std::string dump_json(const nlohmann::ordered_json& json, int indent = -1);
std::string dump_json(const nlohmann::json& json, int indent = -1);

/// The JSON of a text of dump_json() or of another; discarded if it is none. An ordered_json keeps
/// the order of the text.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text);
extern template nlohmann::json parse_json(std::string_view text);
extern template nlohmann::ordered_json parse_json(std::string_view text);

}  // namespace halomesh
