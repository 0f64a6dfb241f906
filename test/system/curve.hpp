// SPDX-License-Identifier: Apache-2.0
// The results of a run: its parameters, read from a checkpoint, and its curve, from the metrics.
#pragma once

#include <doctest/doctest.h>
#include <hdf5.h>

#include <map>
#include <string>
#include <vector>

#include "test/system/job.hpp"

namespace halomesh::test {

using Weights = std::map<std::string, std::vector<float>>;

/// Adds the values of every dataset under `group` of an open file.
inline void add_weights(hid_t file, const std::string& group, Weights& weights) {
  const hid_t id = H5Gopen2(file, group.c_str(), H5P_DEFAULT);
  REQUIRE(id >= 0);
  H5G_info_t members{};
  REQUIRE(H5Gget_info(id, &members) >= 0);
  for (hsize_t i = 0; i < members.nlinks; ++i) {
    char name[256] = {};
    REQUIRE(H5Lget_name_by_idx(id, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name,
                               H5P_DEFAULT) > 0);
    const std::string path = group + '/' + name;
    const hid_t object = H5Oopen(file, path.c_str(), H5P_DEFAULT);
    REQUIRE(object >= 0);
    if (H5Iget_type(object) == H5I_GROUP) {
      add_weights(file, path, weights);
    } else {
      const hid_t space = H5Dget_space(object);
      std::vector<float>& values = weights[path];
      values.resize(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
      REQUIRE(H5Dread(object, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
      H5Sclose(space);
    }
    H5Oclose(object);
  }
  H5Gclose(id);
}

/// Parameters and the optimizer's state of a checkpoint, by name.
inline Weights read_weights(const fs::path& path) {
  CAPTURE(path.string());
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  REQUIRE(file >= 0);
  Weights weights;
  for (const char* tree : {"/parameters", "/optimizer", "/first_moment", "/second_moment"})
    if (H5Lexists(file, tree, H5P_DEFAULT) > 0) add_weights(file, tree, weights);
  H5Fclose(file);
  return weights;
}

/// Asserts that two checkpoints hold the same numbers, bit for bit.
inline void check_same_weights(const fs::path& one, const fs::path& other) {
  const Weights a = read_weights(one), b = read_weights(other);
  std::size_t compared = 0;
  for (const auto& parameter : a) {
    CAPTURE(parameter.first);
    REQUIRE(b.contains(parameter.first));
    CHECK(parameter.second == b.at(parameter.first));
    compared += parameter.second.size();
  }
  CHECK(a.size() == b.size());
  CHECK(compared > 1000);
}

/// One line of metrics without its seconds.
struct StepLine {
  std::string text;  ///< step, epoch, loss and rate as in the file
  double loss = 0;
};

/// The steps of a run's metrics.jsonl.
inline std::vector<StepLine> read_curve(const fs::path& out) {
  std::istringstream lines(read_file(out / "metrics.jsonl"));
  std::vector<StepLine> curve;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"event\":\"step\"") == std::string::npos) continue;
    const std::size_t loss = line.find("\"loss\":"), seconds = line.find(",\"seconds\"");
    REQUIRE(loss != std::string::npos);
    REQUIRE(seconds != std::string::npos);
    curve.push_back({line.substr(0, seconds), std::stod(line.substr(loss + 7))});
  }
  return curve;
}

/// Asserts that two runs' curves are the same, digit for digit.
inline void check_same_curve(const fs::path& one, const fs::path& other) {
  const auto a = read_curve(one), b = read_curve(other);
  REQUIRE(!a.empty());
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i].text == b[i].text);
}

}  // namespace halomesh::test
