// SPDX-License-Identifier: Apache-2.0
// Output that cannot be written and checkpoints that cannot be used: intact files stay intact.
#include <doctest/doctest.h>
#include <sys/mount.h>

#include "test/harness/skip.hpp"
#include "test/system/curve.hpp"
#include "test/system/scene.hpp"
#include "test/system/spoil.hpp"

namespace halomesh::test {
namespace {

constexpr int kFailed = 1;

/// A separate file system mounted on a directory, unmounted with this object.
class Mount {
 public:
  Mount(fs::path at, const std::string& options, unsigned long flags = 0) : at_(std::move(at)) {
    fs::create_directories(at_);
    mounted_ = ::mount("tmpfs", at_.c_str(), "tmpfs", flags, options.c_str()) == 0;
    if (!mounted_) skip_case("mounting a file system is not permitted here");
  }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  ~Mount() {
    if (mounted_) ::umount2(at_.c_str(), MNT_DETACH);
  }
  bool works() const { return mounted_; }

 private:
  fs::path at_;
  bool mounted_ = false;
};

/// A finished run of one epoch.
Scene trained() {
  Scene scene;
  scene.options["epochs"] = "1";
  const Outcome outcome = scene.train();
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  REQUIRE(checkpoints(scene.out).size() == 1);
  scene.options["epochs"] = "2";
  return scene;
}

/// The checkpoint is usable: its samples are evaluated without an error.
void check_serves(const Scene& scene, const fs::path& checkpoint) {
  const Outcome outcome =
      run(2, "eval", {{"checkpoint", checkpoint.string()}, {"data", scene.data.string()}});
  CAPTURE(outcome.text);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.text.find("samples 4") != std::string::npos);
}

}  // namespace

TEST_CASE("an output directory below a file is refused before training") {
  Scene scene;
  const fs::path file = workshop().fresh("file");
  write_file(file, "a file");
  scene.out = file / "out";
  check_failure(scene.train(), kFailed, {scene.out.string(), "Not a directory"});
  CHECK(read_file(file) == "a file");
}

TEST_CASE("a read-only output directory is refused before training") {
  Scene scene;
  const Mount mount(scene.out, "size=1m", MS_RDONLY);
  if (!mount.works()) return;
  const Outcome outcome = scene.train();
  check_failure(outcome, kFailed, {scene.out.string(), "Read-only file system"});
  CHECK(outcome.text.find("steps per epoch") == std::string::npos);
}

TEST_CASE("a disk too small for the first checkpoint keeps none") {
  Scene scene;
  const Mount mount(scene.out, "size=48k");
  if (!mount.works()) return;
  check_failure(scene.train(), kFailed, {"step-000000002.h5", "No space left", "space"});
  CHECK(checkpoints(scene.out).empty());
  CHECK(partial_files(scene.out).empty());
}

TEST_CASE("a disk that fills up keeps the previous checkpoints") {
  const Scene before = trained();
  const auto bytes = fs::file_size(checkpoints(before.out).back());
  Scene scene;
  const Mount mount(scene.out, "size=" + std::to_string(bytes + bytes / 2 + 32768));
  if (!mount.works()) return;
  check_failure(scene.train(), kFailed, {"step-000000004.h5", "No space left", "space"});
  CHECK(partial_files(scene.out).empty());
  REQUIRE(checkpoints(scene.out).size() == 1);
  check_same_weights(checkpoints(scene.out).front(), checkpoints(before.out).front());
  check_serves(scene, scene.out);
}

TEST_CASE("if all checkpoints are damaged, training is refused and they are left unchanged") {
  const Scene whole = trained();
  const std::string good = read_file(checkpoints(whole.out).back());
  const auto spoilt = [&](std::size_t at) {
    std::string bytes = good;
    for (std::size_t i = at; i < at + 64; ++i) bytes[i] = static_cast<char>(bytes[i] ^ 0x5a);
    return bytes;
  };
  const std::vector<std::string> bad = {
      good.substr(0, good.size() / 2), good.substr(0, 100), "",
      "no checkpoint at all",          spoilt(0),           spoilt(good.size() - 4096)};
  int compared = 0;
  for (const std::string& bytes : bad) {
    CAPTURE(compared);
    Scene scene = whole;
    scene.out = workshop().fresh("out");
    fs::copy(whole.out, scene.out, fs::copy_options::recursive);
    const fs::path checkpoint = checkpoints(scene.out).back();
    write_file(checkpoint, bytes);
    const std::string metrics = read_file(scene.out / "metrics.jsonl");
    check_failure(scene.train(), kFailed, {checkpoint.string(), "--resume never"});
    CHECK(read_file(checkpoint) == bytes);
    CHECK(read_file(scene.out / "metrics.jsonl") == metrics);
    ++compared;
  }
  CHECK(compared == 6);
}

TEST_CASE("a damaged newest checkpoint is set aside, and the curve continues from the one before") {
  Scene whole;
  whole.options["checkpoint-every"] = "1";
  whole.options["keep"] = "3";
  REQUIRE(whole.train().exit_code == 0);
  REQUIRE(checkpoints(whole.out).size() == 3);
  const std::string good = read_file(checkpoints(whole.out).back());
  int resumed = 0;
  for (const std::string& bytes :
       {std::string(), good.substr(0, good.size() / 2), std::string("no checkpoint at all")}) {
    CAPTURE(resumed);
    Scene scene = whole;
    scene.out = workshop().fresh("out");
    fs::copy(whole.out, scene.out, fs::copy_options::recursive);
    const fs::path newest = checkpoints(scene.out).back();
    write_file(newest, bytes);
    const Outcome outcome = scene.train();
    CAPTURE(outcome.text);
    CHECK(outcome.exit_code == 0);
    CHECK(lines_starting(outcome.text, "WARNING: " + newest.string()) == 1);
    CHECK(outcome.text.find("resuming from " + (scene.out / "checkpoints").string() +
                            "/step-000000003.h5") != std::string::npos);
    CHECK(read_file(newest.string() + ".damaged") == bytes);
    CHECK(read_file(checkpoints(scene.out).back()) == good);
    check_same_curve(scene.out, whole.out);
    ++resumed;
  }
  CHECK(resumed == 3);
}

TEST_CASE("a damaged checkpoint that is given explicitly is refused, with what and where") {
  const Scene whole = trained();
  const fs::path bad = workshop().fresh("bad") / "mine.h5";
  fs::create_directories(bad.parent_path());
  std::string bytes = read_file(checkpoints(whole.out).back());
  // Among the parameters: HDF5 stores the momenta, which come first by name, before them.
  for (std::size_t i = bytes.size() / 4 * 3; i < bytes.size() / 4 * 3 + 64; ++i) bytes[i] ^= 0x5a;
  write_file(bad, bytes);
  const std::vector<std::string> named = {bad.string(),
                                          "damaged checkpoint: ", "another checkpoint"};
  for (const std::string option : {"resume", "init-from"}) {
    Scene scene = whole;
    scene.out = workshop().fresh("out");
    scene.options[option] = bad.string();
    check_failure(scene.train(), kFailed, named);
  }
  check_failure(run(2, "eval", {{"checkpoint", bad.string()}, {"data", whole.data.string()}}),
                kFailed, named);
  const fs::path predictions = workshop().fresh("predictions") += ".csv";
  check_failure(run(1, "predict",
                    {{"checkpoint", bad.string()},
                     {"data", whole.data.string()},
                     {"out", predictions.string()}}),
                kFailed, named);
  CHECK(!fs::exists(predictions));
  CHECK(read_file(bad) == bytes);
}

TEST_CASE("a path that is not a checkpoint is described") {
  const Scene whole = trained();
  const fs::path notes = workshop().fresh("notes");
  write_file(notes, "my notes of a week");
  struct Row {
    std::string option;
    fs::path path;
    std::string named;
  };
  for (const Row& row : std::vector<Row>{{"resume", notes, "not an HDF5 file"},
                                         {"resume", whole.out, "is a directory"},
                                         {"resume", "/dev/null", "is a device"},
                                         {"init-from", whole.out / "none.h5", "no such checkpoint"},
                                         {"init-from", notes, "not an HDF5 file"}}) {
    CAPTURE(row.path);
    Scene scene = whole;
    scene.ranks = 2;
    scene.out = workshop().fresh("out");
    scene.options[row.option] = row.path.string();
    const Outcome outcome = scene.train();
    check_failure(outcome, kFailed, {row.path.string(), row.named, "step-"});
    CHECK(outcome.text.find("delete") == std::string::npos);
    CHECK(outcome.text.find("--resume auto") == std::string::npos);
  }
  CHECK(read_file(notes) == "my notes of a week");
}

TEST_CASE("a checkpoint of another network or curve is refused with the difference") {
  const Scene whole = trained();
  const fs::path checkpoint = checkpoints(whole.out).back();
  const std::string bytes = read_file(checkpoint);
  struct Row {
    std::string option, value;
    std::vector<std::string> named;
  };
  const std::vector<Row> rows = {
      {"filters", "8", {checkpoint.string(), "another network", "conv1", "--filters 4"}},
      {"conv-layers", "2", {checkpoint.string(), "another network", "--conv-layers 3"}},
      {"kernel", "3", {checkpoint.string(), "another network", "--kernel 2"}},
      {"batch", "2", {"different settings", "batch 4 -> 2"}},
      {"seed", "8", {"different settings", "seed 7 -> 8", "--init-from"}},
      {"dropout", "0.5", {"different settings", "dropout 0.25 -> 0.5", "--allow-changes"}},
      {"momentum", "0.8", {"different settings", "momentum 0.9 -> 0.8", "--allow-changes"}},
      {"optimizer", "nesterov", {"different settings", "optimizer sgd -> nesterov", "--init-from"}},
      {"optimizer",
       "adamw",
       {checkpoint.string(), "another optimizer", "/first_moment", "--optimizer sgd",
        "--init-from"}},
      {"clip-norm", "1", {"clip-norm (none) -> 1", "--allow-changes"}},
      {"lr", "0.01", {"different settings", "lr 0.001 -> 0.01", "--allow-changes"}},
      {"augment", "on", {"different settings", "augment off -> on", "--allow-changes"}},
      {"schedule", "linear", {"schedule constant -> linear, linear-epochs (none) -> 1"}}};
  for (const Row& row : rows) {
    CAPTURE(row.option);
    Scene scene = whole;
    scene.options[row.option] = row.value;
    check_failure(scene.train(), kFailed, row.named);
    CHECK(read_file(checkpoint) == bytes);
  }
  Scene scene = whole;
  scene.options.insert({{"momentum", "0.8"}, {"allow-changes", ""}});
  const Outcome outcome = scene.train();
  CAPTURE(outcome.text);
  CHECK(outcome.exit_code == 0);
  CHECK(lines_starting(outcome.text,
                       "WARNING: checkpoint was written with different settings: "
                       "momentum 0.9 -> 0.8") == 1);
}

TEST_CASE("a metrics file that is not one is set aside with a warning, and the run resumes") {
  const Scene scene = trained();
  write_file(scene.out / "metrics.jsonl", "my notes\n");
  const Outcome outcome = scene.train();
  CAPTURE(outcome.text);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.text.find("metrics.jsonl: damaged lines removed: 1 (the first is line") !=
        std::string::npos);
  CHECK(outcome.text.find("steps missing before the checkpoint: 2 of 2") != std::string::npos);
  CHECK(read_file(scene.out / "metrics.jsonl.damaged") == "my notes\n");
  CHECK(read_file(scene.out / "metrics.jsonl").find("\"resumed\"") != std::string::npos);
}

}  // namespace halomesh::test
