// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/predictions.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "error.hpp"
#include "runtime/hdf5/hdf5_file.hpp"
#include "runtime/posix/input_file.hpp"
#include "src/apps/report/csv.hpp"

namespace halomesh {
namespace {

PredictionFile read_text(const std::filesystem::path& path) {
  const auto rows = read_csv(read_input_file(path));
  const auto fail = [&](std::size_t row, const std::string& what) {
    throw Error(fmt::format("{}: line {}: {}", path.string(), row + 1, what),
                "give a file written by halomesh predict");
  };
  if (rows.empty() || rows[0].size() < 3 || rows[0].size() % 2 == 0 || rows[0][0] != "sample")
    fail(0, "not the header of predictions (sample,predicted_0,..,target_0,..)");
  const std::size_t width = rows[0].size() / 2;
  PredictionFile file;
  file.predicted.resize(width);
  file.target.resize(width);
  for (std::size_t r = 1; r < rows.size(); ++r) {
    if (rows[r].size() != rows[0].size())
      fail(r, fmt::format("{} values instead of {}", rows[r].size(), rows[0].size()));
    for (std::size_t c = 1; c < rows[r].size(); ++c) {
      char* end = nullptr;
      const double value = std::strtod(rows[r][c].c_str(), &end);
      if (end == rows[r][c].c_str() || *end != '\0')
        fail(r, fmt::format("'{}' is not a number", rows[r][c]));
      (c <= width ? file.predicted[c - 1] : file.target[c - 1 - width]).push_back(value);
    }
  }
  return file;
}

PredictionFile read_hdf5(const std::filesystem::path& path) {
  Hdf5File input = Hdf5File::open(path);
  PredictionFile file;
  for (auto [name, values] :
       {std::pair{"/predicted", &file.predicted}, std::pair{"/target", &file.target}}) {
    require(input.contains(name), fmt::format("{}: no dataset {}", path.string(), name),
            "give a file written by halomesh predict");
    const Extents extents = input.extents(name);
    require(extents.size() == 2, fmt::format("{}: {} is not a matrix", path.string(), name),
            "give a file written by halomesh predict");
    const auto rows = static_cast<std::size_t>(extents[0]);
    const auto width = static_cast<std::size_t>(extents[1]);
    std::vector<float> all(rows * width);
    input.read(name, Slab::whole(extents), std::span<float>(all));
    values->resize(width);
    for (std::size_t i = 0; i < all.size(); ++i)
      (*values)[i % width].push_back(static_cast<double>(all[i]));
  }
  require(file.predicted.size() == file.target.size() && !file.predicted.empty() &&
              file.predicted[0].size() == file.target[0].size(),
          fmt::format("{}: predictions and targets differ in size", path.string()),
          "give a file written by halomesh predict");
  return file;
}

}  // namespace

PredictionFile read_predictions(const std::filesystem::path& path) {
  PredictionFile file = path.extension() == ".csv" ? read_text(path) : read_hdf5(path);
  file.name = path.filename().string();
  require(!file.predicted[0].empty(), fmt::format("{}: no sample", path.string()),
          "give a file written by halomesh predict");
  return file;
}

PredictionErrors errors_of(const std::vector<double>& predicted,
                           const std::vector<double>& target) {
  const auto n = static_cast<double>(predicted.size());
  double p = 0, t = 0, pp = 0, tt = 0, pt = 0, absolute = 0;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    p += predicted[i] / n;
    t += target[i] / n;
    absolute += std::abs(predicted[i] - target[i]) / n;
  }
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    pp += (predicted[i] - p) * (predicted[i] - p) / n;
    tt += (target[i] - t) * (target[i] - t) / n;
    pt += (predicted[i] - p) * (target[i] - t) / n;
  }
  const double squares = pp + tt - 2 * pt + (p - t) * (p - t);
  return {absolute, std::sqrt(std::max(squares, 0.0)), p - t, pt / std::sqrt(pp * tt)};
}

}  // namespace halomesh
