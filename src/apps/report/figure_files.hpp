// SPDX-License-Identifier: Apache-2.0
// Writes figures as files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "src/apps/report/figure.hpp"

namespace halomesh {

/// Writes each figure as ID.svg and its numbers as ID.csv into the directory, which is created if
/// necessary; returns the number of figures. Throws Error for what cannot be written.
std::int64_t write_figures(const std::vector<Section>& sections,
                           const std::filesystem::path& directory);

}  // namespace halomesh
