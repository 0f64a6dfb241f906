// SPDX-License-Identifier: Apache-2.0
// The event files of TensorBoard, read back by our reader and by protoc.
#include "src/apps/export/tensorboard.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/data/tfrecord.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

std::string step_line(int step, int epoch, double time) {
  return fmt::format(
      R"({{"event":"step","time":{},"step":{},"epoch":{},"loss":{},"lr":0.5,"seconds":0.25}})"
      "\n",
      time, step, epoch, 1.0 / step);
}

const std::string kPhasesLine =
    R"({"event":"phases","time":103.0,"epoch":0,"step":2,"kinds":[)"
    R"({"kind":"compute","mean":0.125},{"kind":"packing","mean":0.5},)"
    R"({"kind":"halo wait","mean":0.25},{"kind":"reduction wait","mean":0.0625},)"
    R"({"kind":"input wait","mean":0.03125},{"kind":"optimizer","mean":null}]})"
    "\n";
const std::string kEvaluation =
    R"({"event":"eval","time":104.0,"epoch":0,"mae":0.375,"loss":0.75,"samples":8,"seconds":1})"
    "\n";

void write_run(const std::filesystem::path& directory, const std::string& metrics) {
  put_contents(directory / "run.json", R"({"options":{"batch":"8"}})");
  put_contents(directory / "metrics.jsonl", metrics);
}

/// What protoc prints for each record of a file of halomesh.Event.
std::vector<std::string> decoded(const std::filesystem::path& file) {
  const char* const source = std::getenv("HALOMESH_SOURCE");
  const std::string root = source != nullptr ? source : ".";
  std::vector<std::string> texts;
  TfRecordReader reader(1 << 20);
  reader.open(file.string());
  for (std::string payload; reader.next(payload);) {
    const std::filesystem::path record = file.string() + ".record";
    put_contents(record, payload);
    const std::string command = fmt::format(
        "protoc --proto_path={0} --decode=halomesh.Event {0}/src/apps/export/event.proto <{1}",
        root, record.string());
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::string text;
    std::array<char, 4096> buffer{};
    for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
      text.append(buffer.data(), n);
    REQUIRE(::pclose(pipe) == 0);
    std::filesystem::remove(record);
    texts.push_back(text);
  }
  return texts;
}

std::string scalar(const std::string& tag, const std::string& value) {
  return "  value {\n    tag: \"" + tag + "\"\n    simple_value: " + value + "\n  }\n";
}

}  // namespace

TEST_CASE("an exported run decodes to its curves") {
  const TempDirectory directory;
  write_run(directory.path(),
            step_line(1, 0, 101.5) + step_line(2, 0, 102.5) + kPhasesLine + kEvaluation);
  const auto files =
      write_tensorboard(tensorboard_sessions(RunFiles(directory.path())), directory / "board");
  REQUIRE(files.size() == 1);
  CHECK(files[0].filename() == "events.out.tfevents.0000000101.halomesh.0.0");
  const std::vector<std::string> events = decoded(files[0]);
  REQUIRE(events.size() == 6);
  CHECK(events[0] == "wall_time: 101.5\nstep: 0\nfile_version: \"brain.Event:2\"\n");
  CHECK(events[1] == "wall_time: 101.5\nstep: 0\nsession_log {\n  status: START\n}\n");
  CHECK(events[2] == "wall_time: 101.5\nstep: 1\nsummary {\n" + scalar("train/loss", "1") +
                         scalar("train/lr", "0.5") + scalar("speed/samples_per_s", "32") + "}\n");
  CHECK(events[3] == "wall_time: 102.5\nstep: 2\nsummary {\n" + scalar("train/loss", "0.5") +
                         scalar("train/lr", "0.5") + scalar("speed/samples_per_s", "32") + "}\n");
  CHECK(events[4] == "wall_time: 103\nstep: 2\nsummary {\n" + scalar("time/compute", "0.125") +
                         scalar("time/halo", "0.25") + scalar("time/reduction", "0.0625") +
                         scalar("time/input", "0.03125") + "}\n");
  CHECK(events[5] == "wall_time: 104\nstep: 2\nsummary {\n" + scalar("eval/mae", "0.375") +
                         scalar("eval/loss", "0.75") + "}\n");
}

TEST_CASE("a resumed run with steps missing starts a new file, and replaces the files before") {
  const TempDirectory directory;
  write_run(directory.path(), step_line(1, 0, 101) + step_line(2, 0, 102));
  write_tensorboard(tensorboard_sessions(RunFiles(directory.path())), directory / "board");
  put_contents(directory / "board/events.out.tfevents.0000000099.halomesh.0.0", "old");
  put_contents(directory / "board/events.out.tfevents.0000000099.node1.7.0", "of another writer");
  write_run(directory.path(), step_line(1, 0, 101) +
                                  R"({"event":"resumed","step":4,"records_missing":3})"
                                  "\n" +
                                  step_line(5, 1, 201) + step_line(6, 1, 202));
  const auto files =
      write_tensorboard(tensorboard_sessions(RunFiles(directory.path())), directory / "board");
  REQUIRE(files.size() == 2);
  CHECK(std::distance(std::filesystem::directory_iterator(directory / "board"),
                      std::filesystem::directory_iterator()) == 3);
  CHECK(std::filesystem::exists(directory / "board/events.out.tfevents.0000000099.node1.7.0"));
  CHECK(decoded(files[0]).size() == 3);
  const std::vector<std::string> events = decoded(files[1]);
  REQUIRE(events.size() == 4);
  CHECK(files[1].filename() == "events.out.tfevents.0000000101.halomesh.0.1");
  CHECK(events[1] == "wall_time: 201\nstep: 5\nsession_log {\n  status: START\n}\n");
  CHECK(contains(events[2], "step: 5\n"));
  CHECK(contains(events[3], "step: 6\n"));
}

TEST_CASE("a validation before the first step stands at step 0, lines without a time in order") {
  const TempDirectory directory;
  const std::string evaluation =
      R"({"event":"eval","epoch":0,"mae":0.375,"loss":null,"samples":8,"seconds":1})"
      "\n";
  const std::string step =
      R"({"event":"step","step":1,"epoch":0,"loss":null,"lr":0.5,"seconds":0.25})"
      "\n";
  write_run(directory.path(), evaluation + step + evaluation);
  const auto sessions = tensorboard_sessions(RunFiles(directory.path()));
  REQUIRE(sessions.size() == 1);
  const auto& events = sessions[0].events;
  REQUIRE(events.size() == 3);
  CHECK(events[0].step == 0);
  CHECK(events[1].step == 1);
  CHECK(events[2].step == 1);
  CHECK(events[0].wall_time == 0);
  CHECK(events[1].wall_time == 0.25);
  CHECK(events[2].wall_time == 1.25);
  REQUIRE(events[0].scalars.size() == 1);  // a value that is not finite is left out
  CHECK(events[0].scalars[0].tag == "eval/mae");
}

}  // namespace halomesh
