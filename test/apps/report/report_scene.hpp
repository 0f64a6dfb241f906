// SPDX-License-Identifier: Apache-2.0
// Hand-made runs for tests of reports, and ways to find what a page shows.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "src/apps/report/sections.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {

/// A log in the order of the v0.7 reference: staging from the start on, then epochs of
/// `training_s + evaluation_s`, then `rest_s`; every epoch but the last has an MAE of 0.2.
struct LogScene {
  double staging_s = 0, training_s = 10, evaluation_s = 2, rest_s = 0;
  int epochs = 2;
  std::int64_t batch = 4, training_samples = 8, validation_samples = 4;
  double last_mae = 0.12;

  std::string text() const {
    std::string log;
    double now_s = 1'600'000'000;
    const auto add = [&](const char* key, const std::string& value, const std::string& metadata) {
      log += fmt::format(
          ":::MLLOG {{\"namespace\": \"\", \"time_ms\": {:.0f}, \"event_type\": "
          "\"X\", \"key\": \"{}\", \"value\": {}, \"metadata\": {}}}\n",
          1e3 * now_s, key, value, metadata);
    };
    add("run_start", "null", "{}");
    add("global_batch_size", std::to_string(batch), "{}");
    add("train_samples", std::to_string(training_samples), "{}");
    add("eval_samples", std::to_string(validation_samples), "{}");
    if (staging_s > 0) {
      add("staging_start", "null", "{}");
      now_s += staging_s;
      add("staging_stop", "null", "{}");
    }
    for (int epoch = 0; epoch < epochs; ++epoch) {
      const std::string number = fmt::format("{{\"epoch_num\": {}}}", epoch);
      add("epoch_start", "null", number);
      now_s += training_s;
      add("eval_start", "null", number);
      now_s += evaluation_s;
      add("eval_stop", "null", number);
      add("epoch_stop", "null", number);
      add("eval_error", epoch + 1 == epochs ? fmt::format("{}", last_mae) : "0.2", number);
    }
    now_s += rest_s;
    add("run_stop", "null", "{\"status\": \"success\"}");
    return log;
  }
};

/// run.json of a run on `replicas` of `parts`.
inline std::string run_json(std::int64_t replicas, const std::string& parts, std::int64_t ranks,
                            std::int64_t batch, const std::string& more = "") {
  return fmt::format(
      R"({{"program":"halomesh","version":"0.1.0","git_commit":"abc","started":"2026-11-22T10:00:00Z",
"compiler":"GCC","mpi":"Open MPI","onednn":"2.7","options":{{"model":"cosmoflow","batch":"{}",
"target-mae":"0.124","precision":"fp32","lr":"0.001"}},"machine":{{"cpu":"A64FX","sockets":1}},
"mesh":{{"ranks":{},"replicas":{},"parts":"{}","threads":2}},"nodes":2,
"samples":{{"training":8,"validation":4}}{}}})",
      batch, ranks, replicas, parts, more);
}

inline std::string step_line(int step, int epoch, double loss, double seconds, double time = 0) {
  return fmt::format(R"({{"event":"step","step":{},"epoch":{},"loss":{},"lr":{},"seconds":{}{}}})",
                     step, epoch, loss, epoch == 0 ? 0.001 : 0.0005, seconds,
                     time > 0 ? fmt::format(",\"time\":{}", time) : "") +
         "\n";
}

inline std::string eval_line(int epoch, double mae, double seconds, double time = 0) {
  return fmt::format(
             R"({{"event":"eval","epoch":{},"mae":{},"loss":0.1,"samples":4,"seconds":{}{}}})",
             epoch, mae, seconds, time > 0 ? fmt::format(",\"time\":{}", time) : "") +
         "\n";
}

/// Page after reading `paths`.
inline ReportInput input_of(const std::vector<std::filesystem::path>& paths) {
  ReportInput input;
  for (const auto& path : paths) add_input(input, path.string(), 0.124);
  return input;
}

inline const Table& table_of(const Page& page, const std::string& id) {
  for (const Section& section : page.sections)
    for (const Table& table : section.tables)
      if (table.id == id) return table;
  FAIL("no table ", id);
  throw Error("no table " + id);
}

inline const Figure& figure_of(const Page& page, const std::string& id) {
  for (const Section& section : page.sections)
    for (const Figure& figure : section.figures)
      if (figure.id == id) return figure;
  FAIL("no figure ", id);
  throw Error("no figure " + id);
}

inline bool has_figure(const Page& page, const std::string& id) {
  for (const Section& section : page.sections)
    for (const Figure& figure : section.figures)
      if (figure.id == id) return true;
  return false;
}

inline const Series& series_of(const Figure& figure, const std::string& name) {
  for (const Series& series : figure.series)
    if (series.name == name) return series;
  FAIL("no series ", name);
  throw Error("no series " + name);
}

/// The cell of a table's row whose first cell is `row`, in the column of this name.
inline std::string cell_of(const Table& table, const std::string& row, const std::string& column) {
  const auto at = std::find(table.columns.begin(), table.columns.end(), column);
  REQUIRE(at != table.columns.end());
  for (const auto& cells : table.rows)
    if (cells.at(0) == row) return cells.at(static_cast<std::size_t>(at - table.columns.begin()));
  FAIL("no row ", row);
  return {};
}

}  // namespace halomesh
