// SPDX-License-Identifier: Apache-2.0
// Writes figures as files: see figure_files.hpp.
#include "src/apps/report/figure_files.hpp"

#include <system_error>

#include "error.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "src/apps/report/figure_csv.hpp"
#include "src/apps/report/svg_figure.hpp"

namespace halomesh {

std::int64_t write_figures(const std::vector<Section>& sections,
                           const std::filesystem::path& directory) {
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  require(!failure, fmt::format("cannot create {}: {}", directory.string(), failure.message()),
          "give another --figures directory");
  std::int64_t figures = 0;
  for (const Section& section : sections)
    for (const Figure& figure : section.figures) {
      write_file_atomically(directory / (figure.id + ".svg"), draw_svg(figure));
      write_file_atomically(directory / (figure.id + ".csv"), figure_csv(figure));
      ++figures;
    }
  return figures;
}

}  // namespace halomesh
