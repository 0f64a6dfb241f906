// SPDX-License-Identifier: Apache-2.0
// The figures of a scaling study: see scaling_figures.hpp.
#include "src/apps/scaling/scaling_figures.hpp"

#include <nlohmann/json.hpp>

#include "src/apps/report/figure_files.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {

std::int64_t draw_scaling(const std::string& name, const nlohmann::ordered_json& record,
                          const std::filesystem::path& directory) {
  ReportInput input;
  input.benches.push_back({name, record});
  return write_figures({bench_section(input)}, directory);
}

}  // namespace halomesh
