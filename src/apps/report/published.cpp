// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/published.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "error.hpp"
#include "runtime/posix/input_file.hpp"
#include "src/apps/report/csv.hpp"

namespace halomesh {
namespace {

double positive(const std::string& text, const std::string& place) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  require(end != text.c_str() && *end == '\0' && std::isfinite(value) && value >= 0,
          fmt::format("{}: '{}' is not a number of at least 0", place, text),
          "give minutes and epochs as plain numbers");
  return value;
}

}  // namespace

const std::vector<PublishedRun>& published_runs() {
  static const std::vector<PublishedRun> kRuns = {
      {"Fugaku 512", "closed", "512 A64FX", 512, 1, 512, 102.5, 85, 120, 89.5, 127.24, 17.56,
       144.80, 249.35},
      {"Fugaku 8192", "closed", "8192 A64FX", 8192, 16, 512, 92.5, 73, 118, 219.3, 48.00, 14.68,
       62.95, 101.49},
      {"Fugaku 16384", "open", "16384 A64FX", 16384, 4, 4096, 158, 152, 163, 53.1, 7.71, 2.65,
       10.41, 30.07},
      {"ABCI 512", "closed", "512 V100", 512, 1, 512, 98.5, 80, 120, 45.8, 18.33, 0.84, 19.90,
       34.42},
      {"ABCI 2048", "open", "2048 V100", 2048, 1, 2048, 99.5, 92, 106, 12.1, 5.02, 0.21, 7.64,
       13.21},
      {"Cori-KNL 512", "closed", "512 KNL", 512, 1, 512, 110.5, 92, 151, 0, 247.41, 28.18, 279.31,
       536.06},
      {"Cori-KNL 1024", "open", "1024 KNL", 1024, 1, 1024, 162, 133, 225, 0, 135.03, 14.20, 152.27,
       419.69},
      {"Piz Daint 128", "closed", "128 P100", 128, 1, 256, 70, 64, 75, 0, 343.74, 28.56, 378.98,
       461.01},
      {"Piz Daint 256", "closed", "256 P100", 256, 1, 512, 104, 94, 160, 0, 164.63, 5.31, 170.62,
       327.01},
      {"Cori-GPU 64", "closed", "64 V100", 64, 1, 64, 52.5, 47, 69, 978.6, 332.52, 47.31, 386.29,
       364.73},
      {"HAL 64", "closed", "64 V100", 64, 1, 64, 54.5, 44, 67, 0, 247.24, 34.19, 286.07, 265.59},
      {"Frontera 64", "closed", "64 RTX 5000", 64, 1, 64, 48.5, 41, 61, 0, 590.51, 97.35, 696.08,
       602.23},
  };
  return kRuns;
}

std::vector<ResultRow> read_results(const std::filesystem::path& path) {
  const auto rows = read_csv(read_input_file(path));
  std::map<std::string, std::size_t> columns;
  for (std::size_t c = 0; !rows.empty() && c < rows[0].size(); ++c) columns[rows[0][c]] = c;
  require(columns.count("submission") > 0 && columns.count("minutes") > 0,
          path.string() + ": neither predictions nor results (columns submission and minutes)",
          "give a file of halomesh predict, or results with a line per run");
  std::vector<ResultRow> results;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    const auto cell = [&](const char* name) {
      const auto column = columns.find(name);
      return column != columns.end() && column->second < rows[r].size() ? rows[r][column->second]
                                                                        : std::string();
    };
    const std::string place = fmt::format("{}: line {}", path.string(), r + 1);
    auto at = std::find_if(results.begin(), results.end(), [&](const ResultRow& row) {
      return row.submission == cell("submission");
    });
    if (at == results.end())
      at = results.insert(results.end(), {cell("division"),
                                          cell("system"),
                                          cell("submission"),
                                          cell("software"),
                                          cell("processors"),
                                          cell("accelerators"),
                                          {}});
    MlperfRun run;
    run.name = place;
    run.minutes = positive(cell("minutes"), place);
    run.end = cell("reached") == "no" ? MlperfEnd::kMissed : MlperfEnd::kReached;
    if (const std::string epochs = cell("epochs"); !epochs.empty())
      run.epochs = std::llround(std::min(positive(epochs, place), 1e9));
    at->runs.push_back(run);
  }
  require(!results.empty(), path.string() + ": no result", "give results with a line per run");
  return results;
}

}  // namespace halomesh
