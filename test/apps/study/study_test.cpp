// SPDX-License-Identifier: Apache-2.0
// A study: the grid that its file spans, and the rows of its results.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/apps/study/study_file.hpp"
#include "src/apps/study/study_table.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

std::string file_of(const TempDirectory& directory, const std::string& text) {
  const std::string path = (directory.path() / "g.study").string();
  std::ofstream(path) << text;
  return path;
}

std::vector<std::string> names(const std::string& text, std::int64_t seeds = 1) {
  const TempDirectory directory;
  std::vector<std::string> all;
  for (const StudyCell& cell : StudyGrid(file_of(directory, text)).cells(7, seeds))
    all.push_back(cell.name);
  return all;
}

std::string refusal(const std::string& text) {
  try {
    names(text);
  } catch (const UsageError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "nothing was thrown";
}

TEST_CASE("study: braces span a grid, the last line changing fastest") {
  CHECK(names("epochs = 3  # common\n; none\n[a]\nbatch = {4 | 8}\n fc={8 | 8,4}\n", 2) ==
        std::vector<std::string>{"batch-4_fc-8_seed-7", "batch-4_fc-8_seed-8",
                                 "batch-4_fc-8,4_seed-7", "batch-4_fc-8,4_seed-8",
                                 "batch-8_fc-8_seed-7", "batch-8_fc-8_seed-8",
                                 "batch-8_fc-8,4_seed-7", "batch-8_fc-8,4_seed-8"});
  CHECK(names("") == std::vector<std::string>{"seed-7"});
  // Values that belong together, over several lines.
  CHECK(names("optimizer & lr = {sgd & 0.1 | # the first\n lamb & 0.2\n}\nepochs=2\n") ==
        std::vector<std::string>{"optimizer-sgd_lr-0.1_seed-7", "optimizer-lamb_lr-0.2_seed-7"});
  CHECK(names("epochs & batch = 2 & 4\n") == std::vector<std::string>{"seed-7"});
}

TEST_CASE("study: a cell's options are those of its line, over the common ones") {
  const TempDirectory directory;
  const StudyGrid grid(file_of(directory, "epochs = 3\nbatch & lr = {4 & 0.5 | 8 & 0.25}\n"));
  const auto cells = grid.cells(11, 2);
  REQUIRE(cells.size() == 4);
  const Options options =
      options_of_cell("", grid.common(), cells[3], {{"data", "d"}, {"out", "o"}});
  CHECK(options.get<std::int64_t>("epochs") == 3);
  CHECK(options.get<std::int64_t>("batch") == 8);
  CHECK(options.get<double>("lr") == 0.25);
  CHECK(options.get<std::uint64_t>("seed") == 12);
  CHECK(options.get<std::string>("out") == "o");
}

TEST_CASE("study: mistakes in the file are refused with file, line and a cure") {
  const auto says = [](const std::string& text, const std::vector<std::string>& parts) {
    const std::string message = refusal(text);
    CAPTURE(message);
    for (const std::string& part : parts) CHECK(message.find(part) != std::string::npos);
  };
  says("epochs = 3\nbatch = {4 | x}\n", {"g.study:2: --batch: 'x' is not", "whole number"});
  says("batch = {4 | 0}\n", {"g.study:1: --batch: 0 is too small"});
  says("bacth = 4\n", {"g.study:1: unknown option 'bacth'", "did you mean batch"});
  says("batch 4\n", {"g.study:1: 'batch 4' is not of the form"});
  says("batch = {4 | 8\nepochs = 2\n", {"g.study:1: ", "no closing brace"});
  says("batch = 4 }\n", {"g.study:1: ", "no opening brace"});
  says("batch = {4 | }\n", {"g.study:1: a value of batch is empty"});
  says("batch & lr = {4 & 0.1 | 8}\n", {"g.study:1: '8' has 1 values for the 2 options"});
  says("batch = 4\nlr & batch = {1 & 4 | 2 & 8}\n", {"g.study:2: batch is given twice"});
  says("batch = {4 | 4}\n", {"two cells batch-4_seed-7", "give each value once"});
  says("seed = {1 | 2}\n", {"g.study:1: seed cannot be set", "--seeds"});
  says("instances = 2\n", {"g.study:1: instances cannot be set"});
  std::string many = "batch = {1";
  for (int i = 2; i < 150; ++i) many += " | " + std::to_string(i);
  says(many + "}\n" + "epochs" + many.substr(5) + "}\n", {"more than 10000 cells"});
  CHECK_THROWS_AS(StudyGrid("/nowhere/g.study"), UsageError);
}

StudyOutcome outcome(const std::string& batch, const std::string& end, double mae,
                     std::optional<std::int64_t> epochs) {
  StudyOutcome one;
  one.cell.varied = {{"batch", batch}};
  one.result.end = end;
  if (end != "diverged") one.result.score = mae;
  one.result.seconds = 2;
  one.epochs_to_target = epochs;
  if (epochs) one.samples_to_target = *epochs * 10;
  return one;
}

TEST_CASE("study: rows join the cells that differ by their seeds") {
  const std::vector<StudyOutcome> all{
      outcome("4", "target", 0.25, 4), outcome("8", "done", 0.5, {}),
      outcome("4", "target", 0.125, 7), outcome("8", "diverged", 0, {}),
      outcome("4", "done", 0.75, {})};
  const auto rows = rows_of(all);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].cells == 3);
  CHECK(rows[0].epochs.count == 2);
  CHECK(rows[0].epochs.mean == 5.5);
  CHECK(rows[0].samples.max == 70);
  CHECK(rows[0].score.mean == 0.375);
  CHECK(rows[0].score.min == 0.125);
  CHECK(rows[1].diverged == 1);
  CHECK(rows[1].score.count == 1);
  std::ostringstream text;
  print_rows(text, rows, 0.3);
  CHECK(text.str().find("5.5 (4 .. 7)") != std::string::npos);
  CHECK(text.str().find("2 of 3") != std::string::npos);
  CHECK(text.str().find("0 of 2") != std::string::npos);
  const auto json = study_json(all, 0.3);
  CHECK(json.at("cells").size() == 5);
  CHECK(json.at("rows").at(0).at("reached") == 2);
  CHECK(json.at("rows").at(1).at("epochs_to_target").is_null());
}

}  // namespace
}  // namespace halomesh
