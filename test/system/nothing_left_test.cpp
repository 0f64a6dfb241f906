// SPDX-License-Identifier: Apache-2.0
// Commands that are refused or fail before they have results: they leave nothing behind.
// Must not depend on how the program cleans up.
#include <doctest/doctest.h>

#include "test/system/scene.hpp"
#include "test/system/spoil.hpp"

namespace halomesh::test {
namespace {

struct Refusal {
  std::string label, command;
  Arguments options;
  std::vector<std::string> named;
  int exit_code = 1;
};

/// The names below a directory.
std::set<std::string> names_below(const fs::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    names.insert(entry.path().lexically_relative(directory).string());
  return names;
}

}  // namespace

TEST_CASE("a command that is refused leaves no file and no directory behind") {
  const Scene scene(true);
  const fs::path top = workshop().fresh("top");
  fs::create_directories(top);
  const std::string out = (top / "deep/out").string();
  const auto training = [&](const std::string& option, const std::string& value) {
    Arguments options = scene.arguments();
    options["out"] = out;
    options[option] = value;
    return options;
  };
  const fs::path no_checkpoint = workshop().fresh("no-checkpoint");
  std::ofstream(no_checkpoint) << "not HDF5";
  const fs::path spoilt = workshop().fresh("spoilt");
  fs::copy(scene.data, spoilt, fs::copy_options::recursive);
  for (const auto& entry : fs::directory_iterator(spoilt / "train")) cut_file(entry.path(), 1000);
  const Arguments evaluated = {{"checkpoint", no_checkpoint.string()},
                               {"data", scene.data.string()}};
  Arguments predicted = evaluated;
  predicted["out"] = (top / "p.csv").string();
  Arguments nowhere = evaluated;
  nowhere["out"] = (top / "none/p.csv").string();
  Arguments traced = training("resume", no_checkpoint.string());
  traced["trace"] = (top / "trace.json").string();
  const std::vector<Refusal> refusals = {
      {"checkpoint that is none",
       "train",
       training("resume", no_checkpoint.string()),
       {"checkpoint"}},
      {"with a trace", "train", traced, {"checkpoint"}},
      {"trace nowhere", "train", training("trace", (top / "none/t.json").string()), {"t.json"}},
      {"wrong rate", "train", training("lr", "-1"), {"lr"}, 2},
      {"batch too large", "train", training("batch", "64"), {"--batch"}, 2},
      {"no data", "train", training("data", (top / "none").string()), {"none"}},
      {"file in place of --out",
       "train",
       training("out", (no_checkpoint / "out").string()),
       {"Not a directory"}},
      {"name too long",
       "train",
       training("out", (top / std::string(300, 'a')).string()),
       {"File name too long"}},
      {"too large for the disk",
       "synth",
       {{"extent", "16"}, {"train", "900000000000"}, {"out", out}},
       {"free"}},
      {"not made by synth",
       "synth",
       {{"extent", "16"}, {"out", scene.data.string() + "/../" + spoilt.filename().string()}},
       {"already holds samples"}},
      {"all samples damaged",
       "convert",
       {{"from", spoilt.string()}, {"to", out}, {"input", "32x32x32x4"}},
       {"truncated"}},
      {"prediction of none", "predict", predicted, {"checkpoint"}},
      {"prediction nowhere", "predict", nowhere, {"p.csv"}},
      {"evaluation of none", "eval", evaluated, {"checkpoint"}},
  };
  int checked = 0;
  for (const Refusal& refusal : refusals) {
    CAPTURE(refusal.label);
    const auto before = names_below(spoilt);
    const Outcome outcome = run(2, refusal.command, refusal.options);
    CAPTURE(outcome.text);
    CHECK(outcome.in_time);
    CHECK(outcome.exit_code == refusal.exit_code);
    for (const std::string& name : refusal.named)
      CHECK(outcome.text.find(name) != std::string::npos);
    CHECK(names_below(top).empty());
    CHECK(names_below(spoilt) == before);
    ++checked;
  }
  CHECK(checked == 14);
}

TEST_CASE("a refused command leaves an existing file unchanged") {
  const fs::path out = workshop().fresh("out");
  fs::create_directories(out);
  std::ofstream(out / "trace.json") << "older";
  const Scene scene;
  Arguments options = scene.arguments();
  options["resume"] = (out / "none.h5").string();
  options["trace"] = (out / "trace.json").string();
  CHECK(run(2, "train", options).exit_code == 1);
  CHECK(read_file(out / "trace.json") == "older");
  CHECK(!fs::exists(scene.out));
}

}  // namespace halomesh::test
