// SPDX-License-Identifier: Apache-2.0
// The figures of a scaling study, those that report draws.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace halomesh {

/// Draws the study `record`, named `name`, as SVG and CSV into `directory`, which is created if
/// necessary; returns the number of figures. Throws Error for what cannot be written.
std::int64_t draw_scaling(const std::string& name, const nlohmann::ordered_json& record,
                          const std::filesystem::path& directory);

}  // namespace halomesh
