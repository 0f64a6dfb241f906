// SPDX-License-Identifier: Apache-2.0
// The command study under the launcher: its cells are the trainings alone, failures are results,
// and what was finished is kept.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "test/system/curve.hpp"
#include "test/system/scene.hpp"
#include "test/system/spoil.hpp"

namespace halomesh::test {
namespace {

using Json = nlohmann::json;

constexpr const char* kCommon =
    "input = 32x32x32x4\nconv-layers = 3\nfilters = 4\nfc = 8\ndropout = 0.25\n";

/// A study of tiny trainings.
struct StudyScene {
  fs::path file = workshop().fresh("grid.study"), out = workshop().fresh("study");
  Arguments options;
  bool all_epochs = false;

  explicit StudyScene(const std::string& grid) {
    write_file(file, kCommon + grid);
    options = {{"data", data_set(32, 8, 4).string()},
               {"out", out.string()},
               {"seeds", "2"},
               {"seed", "7"}};
  }
  /// The name of the file follows a switch that has a value, and is so an argument of its own.
  Arguments arguments() const {
    Arguments all = options;
    all[all_epochs ? "all-epochs=on" : "all-epochs=off"] = file.string();
    return all;
  }
  Outcome run(int ranks = 4) const {
    return test::run(ranks, "study", arguments(), 2 * kLimitSeconds);
  }
  Json record() const { return Json::parse(read_file(out / "study.json")); }
};

}  // namespace

TEST_CASE("a study trains its cells as train does, and reports failures as results") {
  StudyScene scene("epochs = 2\nlr & batch = {0.001 & 2 | 0.001 & 4 | 1e30 & 4}\n");
  scene.options["target"] = "100";
  scene.all_epochs = true;
  scene.options["ranks-each"] = "2";
  const Outcome outcome = scene.run();
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.text.find("6 cells on 2 groups of 2 ranks; 0 have ended before") !=
        std::string::npos);
  const Json record = scene.record();
  REQUIRE(record.at("cells").size() == 6);
  REQUIRE(record.at("rows").size() == 3);
  CHECK(record.at("rows").at(0).at("reached") == 2);
  CHECK(record.at("rows").at(0).at("epochs_to_target").at("mean") == 1);
  CHECK(record.at("rows").at(0).at("samples_to_target").at("mean") == 8);
  CHECK(record.at("rows").at(2).at("diverged") == 2);
  CHECK(!fs::exists(scene.out / ".taken"));

  Scene alone;
  alone.ranks = 2;
  alone.options = {{"input", "32x32x32x4"}, {"conv-layers", "3"}, {"filters", "4"}, {"fc", "8"},
                   {"dropout", "0.25"},     {"epochs", "2"},      {"batch", "4"},   {"seed", "8"}};
  REQUIRE(alone.train().exit_code == 0);
  const fs::path cell = scene.out / "lr-0.001_batch-4_seed-8";
  check_same_curve(alone.out, cell);
  check_same_weights(checkpoints(alone.out).back(), checkpoints(cell).back());

  // Nothing is left to do; a larger grid trains only what is new.
  const std::string before = read_file(cell / "metrics.jsonl");
  write_file(scene.file, std::string(kCommon) +
                             "epochs = 2\nlr & batch = {0.001 & 2 | 0.001 & 4 | 1e30 & 4 | "
                             "0.002 & 8}\n");
  const Outcome more = scene.run();
  CAPTURE(more.text);
  CHECK(more.exit_code == 0);
  CHECK(more.text.find("8 cells on 2 groups of 2 ranks; 6 have ended before") != std::string::npos);
  CHECK(scene.record().at("cells").size() == 8);
  CHECK(read_file(cell / "metrics.jsonl") == before);

  write_file(scene.file,
             std::string(kCommon) + "epochs = 02\nlr & batch = {0.001 & 2 | 0.001 & 4}\n");
  CHECK(scene.run().exit_code == 0);  // numbers may be written in another way
  write_file(scene.file,
             std::string(kCommon) + "epochs = 3\nlr & batch = {0.001 & 2 | 0.001 & 4}\n");
  check_failure(scene.run(), 1, {"was trained with epochs = 2, not 3"});
}

TEST_CASE("a study that was killed goes on when given again") {
  const StudyScene scene("epochs = 20\nbatch = {2 | 4 | 8}\nlr = {0.001 | 0.002}\n");
  const auto finished = [&] {
    int count = 0;
    std::error_code none;
    for (const auto& cell : fs::directory_iterator(scene.out, none))
      count += fs::exists(cell.path() / "result.json") ? 1 : 0;
    return count;
  };
  {
    Job job(4, "study", scene.arguments(), workshop().fresh("log"));
    REQUIRE(wait_until(kLimitSeconds, [&] { return job.ended() || finished() >= 3; }));
    REQUIRE(!job.ended());
  }  // kills the job
  const int before = finished();
  CHECK(before < 12);
  const Outcome outcome = scene.run();
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.text.find("12 cells on 4 groups of 1 rank; " + std::to_string(before) +
                          " have ended before") != std::string::npos);
  const Json record = scene.record();
  REQUIRE(record.at("cells").size() == 12);
  for (const Json& cell : record.at("cells")) {
    CHECK(cell.at("result") == "done");
    CHECK(cell.at("epochs") == 20);
  }
}

TEST_CASE("a signal to one rank stops all cells of a study cleanly") {
  const StudyScene scene("epochs = 20000\nbatch = {2 | 4}\n");
  Job job(4, "study", scene.arguments(), workshop().fresh("log"));
  const auto at_work = [&] {
    int cells = 0;
    std::error_code none;
    for (const auto& cell : fs::directory_iterator(scene.out, none))
      cells += fs::exists(cell.path() / "metrics.jsonl") ? 1 : 0;
    return cells;
  };
  REQUIRE(wait_until(kLimitSeconds, [&] { return job.ended() || at_work() == 4; }));
  REQUIRE(!job.ended());
  job.signal(job.ranks().at(2), SIGTERM);
  const Outcome outcome = job.wait(kLimitSeconds);
  CAPTURE(outcome.text);
  CHECK(outcome.exit_code == 75);
  CHECK(outcome.text.find("stopped before the end; run again to go on") != std::string::npos);
}

TEST_CASE("a cell whose data are damaged fails alone, and is tried again") {
  StudyScene scene("epochs = 1\nbatch = {2 | 4}\n");
  const fs::path data = workshop().fresh("data");
  fs::copy(scene.options["data"], data, fs::copy_options::recursive);
  scene.options["data"] = data.string();
  scene.options["seeds"] = "1";
  scene.options["ranks-each"] = "2";
  const fs::path damaged = *fs::directory_iterator(data / "train");
  const std::string sound = read_file(damaged);
  flip_bit(damaged, fs::file_size(damaged) / 2);
  check_failure(scene.run(), 1,
                {"2 of 2 cells failed: batch-2_seed-7, batch-4_seed-7: ", damaged.string()});
  CHECK(scene.record().at("rows").at(0).at("failed") == 1);
  write_file(damaged, sound);
  const Outcome outcome = scene.run();
  CAPTURE(outcome.text);
  CHECK(outcome.exit_code == 0);
  CHECK(scene.record().at("rows").at(0).at("failed") == 0);
}

TEST_CASE("studies that cannot be are refused with one message") {
  StudyScene scene("batch = {2 | 3}\n");
  scene.options["ranks-each"] = "3";
  check_failure(scene.run(), 2, {"--ranks-each 3", "4 ranks", "1, 2, 4"});
  scene.options["ranks-each"] = "2";
  check_failure(scene.run(), 2, {"cell batch-3_seed-7", "batch of 3"});
  write_file(scene.file, "batch = {2 | x}\n");
  check_failure(scene.run(), 2, {scene.file.string() + ":1: --batch: 'x'"});
  write_file(scene.file, "batch = {2 | 4}\n");
  scene.options["config"] = workshop().fresh("staged.cfg").string();
  write_file(scene.options["config"], "stage-dir = /dev/shm/halomesh-test\n");
  check_failure(scene.run(), 2, {"cell batch-2_seed-7", "--stage-dir cannot be used in a study"});
  scene.options.erase("config");
  fs::remove(scene.file);
  check_failure(scene.run(), 2, {scene.file.string()});
  CHECK(!fs::exists(scene.out));
}

}  // namespace halomesh::test
