// Staged runs: the curve of direct ones, one pass over the files, and what goes wrong on the way.
// Knows the program from outside only.
#include <doctest/doctest.h>

#include "test/runtime/full_disk.hpp"
#include "test/system/curve.hpp"
#include "test/system/scene.hpp"
#include "test/system/spoil.hpp"

namespace halomesh::test {
namespace {

constexpr int kStopped = 75;

/// A scene that stages to a directory which is not there yet.
struct StagedScene : Scene {
  fs::path stage = workshop().fresh("stage");
  explicit StagedScene(bool copied = false) : Scene(copied) {
    options["stage-dir"] = stage.string();
    options["augment"] = "on";
  }
  void check_nothing_left() const { CHECK(!fs::exists(stage)); }
};

/// Of the last stage event.
double stage_value(const fs::path& out, const std::string& key) {
  const std::string text = read_file(out / "metrics.jsonl");
  const std::size_t event = text.rfind("{\"event\":\"stage\"");
  REQUIRE(event != std::string::npos);
  const std::size_t at = text.find('"' + key + "\":", event);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + key.size() + 3));
}

double data_bytes(const Scene& scene) {
  double bytes = 0;
  for (const char* split : {"train", "validation"})
    for (const fs::path& file : scene.files(split)) bytes += static_cast<double>(file_size(file));
  return bytes;
}

void succeed(const Scene& scene, double limit_s = 60) {
  const Outcome outcome = scene.train(limit_s);
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
}

/// Many samples: the same files under many names.
void multiply_samples(const Scene& scene, int times) {
  for (const fs::path& file : scene.files("train"))
    for (int i = 0; i < times; ++i)
      fs::create_hard_link(file, file.string() + '-' + std::to_string(i) + ".tfrecord");
}

/// Whether a rank has a file of the stage open, named or not.
bool stages(const Job& job, const fs::path& stage) {
  for (const auto& [rank, pid] : job.ranks()) {
    std::error_code code;
    for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd", code))
      if (fs::read_symlink(entry.path(), code).string().starts_with(stage.string() + "/"))
        return true;
  }
  return false;
}

}  // namespace

TEST_CASE("read directly, staged and staged compressed, a run has one curve") {
  for (const char* shuffle : {"global", "local"}) {
    CAPTURE(shuffle);
    Scene direct;
    direct.options["augment"] = "on";
    direct.options["shuffle"] = shuffle;
    succeed(direct);
    for (const char* codec : {"none", "deflate"}) {
      CAPTURE(codec);
      StagedScene staged;
      staged.options["shuffle"] = shuffle;
      staged.options["stage-codec"] = codec;
      succeed(staged);
      check_same_curve(direct.out, staged.out);
      check_same_weights(checkpoints(direct.out).back(), checkpoints(staged.out).back());
      staged.check_nothing_left();
    }
    Scene plain;
    plain.options["shuffle"] = shuffle;
    succeed(plain);
    CHECK(read_curve(plain.out).back().text != read_curve(direct.out).back().text);
  }
}

TEST_CASE("every mesh reads the data set once and keeps it once, with halo") {
  struct Cut {
    std::string parts;
    int ranks;
  };
  for (const Cut& cut : {Cut{"1x1x1", 2}, {"2x2x1", 4}, {"4x4x1", 16}, {"2x2x2", 8}}) {
    const std::string& parts = cut.parts;
    CAPTURE(parts);
    StagedScene scene;
    scene.ranks = cut.ranks;
    scene.options["parts"] = parts;
    scene.options["steps"] = "2";
    succeed(scene);
    CHECK(stage_value(scene.out, "samples") == 12);
    const double read = stage_value(scene.out, "bytes_read") / data_bytes(scene);
    CHECK(read > 0.99);
    CHECK(read <= 1.02);
    // Kernel 2 needs one plane beyond a part's block at each cut: (1 + cuts / 32) along each axis.
    const double raw = 12 * 32.0 * 32 * 32 * 4 * 2;
    const double d = parts[0] - '0', h = parts[2] - '0', w = parts[4] - '0';
    const double halo = (1 + (d - 1) / 32) * (1 + (h - 1) / 32) * (1 + (w - 1) / 32);
    const double kept = stage_value(scene.out, "bytes_staged") / raw;
    CHECK(kept >= 1);
    CHECK(kept <= halo + 0.001);
    scene.check_nothing_left();
  }
}

TEST_CASE(
    "a kept stage is taken up, is one job's at a time, and another data set's is left alone") {
  StagedScene first(true);
  first.options["keep-stage"] = "";
  first.options["epochs"] = "0";
  first.options["steps"] = "100000";
  first.options["evaluate-every"] = "0";
  Job job(first.ranks, "train", first.arguments(), workshop().fresh("log"));
  REQUIRE(wait_until(kLimitSeconds, [&] {
    return job.ended() ||
           lines_starting(read_file(first.out / "metrics.jsonl"), "{\"event\":\"step\"") > 2;
  }));
  REQUIRE(!job.ended());
  StagedScene second = first;
  second.out = workshop().fresh("out");
  check_failure(second.train(), 1, {second.stage.string(), "is in use by process", "--keep-stage"});
  // Without a wish to keep it, the second stages for itself.
  second.options.erase("keep-stage");
  second.options["steps"] = "3";
  succeed(second);
  CHECK(stage_value(second.out, "bytes_read") > 0);
  job.signal(job.ranks().at(0), SIGTERM);
  const Outcome outcome = job.wait(kLimitSeconds);
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == kStopped);
  // Now it is free.
  StagedScene third = first;
  third.out = workshop().fresh("out");
  third.options["steps"] = "3";
  succeed(third);
  CHECK(stage_value(third.out, "bytes_read") == 0);
  // A changed file makes another data set.
  fs::last_write_time(third.files("train").front(), fs::file_time_type::clock::now());
  third.out = workshop().fresh("out");
  third.options.erase("keep-stage");
  succeed(third);
  CHECK(stage_value(third.out, "bytes_read") > 0);
  CHECK(std::distance(fs::directory_iterator(third.stage), fs::directory_iterator()) == 1);
}

TEST_CASE("a RAM disk that is too small is said before anything is written") {
  StagedScene scene;
  fs::create_directories(scene.stage);
  const SmallFileSystem disk(scene.stage, 3 << 19);
  if (!disk.mounted()) return;
  check_failure(scene.train(), 1,
                {scene.stage.string(), "the stage needs 3.2", "1.573 MB are available",
                 "--stage-codec deflate"});
  CHECK(fs::is_empty(scene.stage));
  scene.options["stage-codec"] = "deflate";
  scene.out = workshop().fresh("out");
  succeed(scene);
  CHECK(fs::is_empty(scene.stage));
}

TEST_CASE("a RAM disk that another program fills while data is staged is one message") {
  StagedScene scene(true);
  multiply_samples(scene, 120);
  fs::create_directories(scene.stage);
  const SmallFileSystem disk(scene.stage, 300 << 20);
  if (!disk.mounted()) return;
  const fs::path other = scene.stage / "other";
  {
    Job job(scene.ranks, "train", scene.arguments(), workshop().fresh("log"));
    REQUIRE(wait_until(kLimitSeconds, [&] { return job.ended() || stages(job, scene.stage); }));
    const int file = ::open(other.c_str(), O_WRONLY | O_CREAT, 0600);
    for (off_t room = 280 << 20; room > 1 << 16; room -= 1 << 18)
      if (::fallocate(file, 0, 0, room) == 0) break;
    ::close(file);
    check_failure(job.wait(kLimitSeconds), 1,
                  {"cannot write", scene.stage.string(), "No space left", "--stage-codec deflate"});
  }
  fs::remove(other);
  CHECK(fs::is_empty(scene.stage));
  CHECK(fs::space(scene.stage).available == 300 << 20);
}

TEST_CASE("a damaged source ends staging with its name and leaves nothing") {
  StagedScene scene(true);
  const fs::path file = scene.files("train").at(5);
  flip_bit(file, 70000);
  check_failure(scene.train(), 1, {file.filename().string(), "checksum of the payload"});
  scene.check_nothing_left();
  flip_bit(file, 70000);
  succeed(scene);
}

TEST_CASE("a stage directory that is a link, a file or nowhere is refused") {
  StagedScene scene;
  const fs::path real = workshop().fresh("real");
  fs::create_directories(real);
  fs::create_symlink(real, scene.stage);
  check_failure(scene.train(), 1, {scene.stage.string(), "symbolic link"});
  CHECK(fs::is_empty(real));
  fs::remove(scene.stage);
  std::ofstream(scene.stage) << "x";
  check_failure(scene.train(), 1, {scene.stage.string(), "Not a directory"});
  scene.options["stage-dir"] = (real / "none" / "deeper").string();
  check_failure(scene.train(), 1, {"deeper", "No such file"});
}

TEST_CASE("a rank killed or told to stop while data is staged leaves nothing behind") {
  for (const int number : {SIGKILL, SIGTERM}) {
    CAPTURE(number);
    StagedScene scene(true);
    multiply_samples(scene, 60);
    scene.options["keep-stage"] = "";
    scene.options["steps"] = "3";
    scene.options["evaluate-every"] = "0";
    Job job(scene.ranks, "train", scene.arguments(), workshop().fresh("log"));
    REQUIRE(wait_until(kLimitSeconds, [&] { return job.ended() || stages(job, scene.stage); }));
    REQUIRE(!job.ended());
    job.signal(job.ranks().at(1), number);
    const Outcome outcome = job.wait(20);
    CAPTURE(outcome.text);
    CHECK(outcome.in_time);
    const bool staged =
        read_file(scene.out / "metrics.jsonl").find("\"stage\"") != std::string::npos;
    if (staged) MESSAGE("the signal came after staging");
    CHECK(outcome.exit_code != 0);
    if (number == SIGTERM) CHECK(outcome.exit_code == kStopped);
    std::int64_t blocks = 0;
    std::error_code none;
    for (const auto& entry : fs::recursive_directory_iterator(scene.stage, none))
      blocks += entry.is_regular_file() ? static_cast<std::int64_t>(entry.file_size()) : 0;
    if (!staged) CHECK(blocks < 1000);  // locks
    succeed(scene);
    CHECK(read_curve(scene.out).size() == 3);
  }
}

TEST_CASE("a rank killed during the shuffle leaves nothing, and the run goes on bit by bit") {
  const auto long_run = [](Scene& scene) {
    scene.options["epochs"] = "0";
    scene.options["steps"] = "80";
    scene.options["evaluate-every"] = "40";
    scene.options["checkpoint-every"] = "10";
    scene.options["augment"] = "on";
  };
  Scene direct;
  long_run(direct);
  succeed(direct, 90);
  StagedScene scene;
  long_run(scene);
  Job job(scene.ranks, "train", scene.arguments(), workshop().fresh("log"));
  REQUIRE(wait_until(kLimitSeconds, [&] {
    return job.ended() ||
           lines_starting(read_file(scene.out / "metrics.jsonl"), "{\"event\":\"step\"") > 12;
  }));
  REQUIRE(!job.ended());
  job.signal(job.ranks().at(2), SIGKILL);
  CHECK(job.wait(20).in_time);
  scene.check_nothing_left();
  succeed(scene, 90);
  check_same_curve(direct.out, scene.out);
  scene.check_nothing_left();
}

}  // namespace halomesh::test
