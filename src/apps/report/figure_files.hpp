// SPDX-License-Identifier: Apache-2.0
// Writes figures as files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "src/apps/report/figure.hpp"

namespace halomesh {

/// Creates the directory if necessary. Throws Error when it cannot.
void make_figure_directory(const std::filesystem::path& directory);

/// Writes each figure as ID.svg and its numbers as ID.csv; returns the number of figures.
std::int64_t write_figures(const std::vector<Section>& sections,
                           const std::filesystem::path& directory);

}  // namespace halomesh
