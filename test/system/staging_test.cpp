// SPDX-License-Identifier: Apache-2.0
// Staged runs: the curve of direct ones, one pass over the files, and what is kept.
#include <doctest/doctest.h>

#include <cstdlib>

#include "test/system/curve.hpp"
#include "test/system/spoil.hpp"
#include "test/system/staged_scene.hpp"

namespace halomesh::test {
namespace {

/// Runs the ranks under strace, if possible, to count what they read.
class ReadTrace {
 public:
  ReadTrace() : program_(environment("HALOMESH", "build/halomesh")) {
    fs::create_directories(logs_);
    const fs::path script = logs_ / "traced";
    write_file(script,
               "#!/bin/sh\nASAN_OPTIONS=detect_leaks=0 exec strace -ff --seccomp-bpf -y -s 0 -o '" +
                   (logs_ / "reads").string() + "' -e trace=read,readv,pread64,preadv '" +
                   program_ + "' \"$@\"\n");
    fs::permissions(script, fs::perms::owner_all);
    if (works()) ::setenv("HALOMESH", script.c_str(), 1);
  }
  ReadTrace(const ReadTrace&) = delete;
  ReadTrace& operator=(const ReadTrace&) = delete;
  ~ReadTrace() { ::setenv("HALOMESH", program_.c_str(), 1); }

  static bool works() {
    static const bool works =
        std::system("strace -f --seccomp-bpf -o /dev/null true 2> /dev/null") == 0;
    return works;
  }
  /// Bytes that all ranks have read from files below `directory`.
  double bytes_below(const fs::path& directory) const {
    double bytes = 0;
    for (const auto& entry : fs::directory_iterator(logs_)) {
      std::istringstream calls(read_file(entry.path()));
      for (std::string call; std::getline(calls, call);) {
        const std::size_t result = call.rfind(" = ");
        if (result != std::string::npos &&
            call.find('<' + directory.string() + '/') != std::string::npos)
          bytes += std::max(0.0, std::stod(call.substr(result + 3)));
      }
    }
    return bytes;
  }

 private:
  std::string program_;
  fs::path logs_ = workshop().fresh("trace");
};

double data_bytes(const Scene& scene) {
  double bytes = 0;
  for (const char* split : {"train", "validation"})
    for (const fs::path& file : scene.files(split)) bytes += static_cast<double>(file_size(file));
  return bytes;
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

TEST_CASE("every mesh reads the data set once and keeps it once, plus halos") {
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
    const ReadTrace trace;
    succeed(scene);
    if (ReadTrace::works()) {
      // All of the run's, looking at the files before staging included.
      const double traced = trace.bytes_below(scene.data) / data_bytes(scene);
      CHECK(traced > 0.99);
      CHECK(traced <= 1.02);
    } else {
      MESSAGE("strace cannot be used: only the program's own count is checked");
    }
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
    "a kept stage is reused by one job at a time, and that of another data set is left alone") {
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
  // Without --keep-stage, the second one stages for itself.
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
  // A changed file makes another data set, also behind the old time, and so does a new time.
  const std::vector<fs::path> files = third.files("train");
  const auto time = fs::last_write_time(files.front());
  fs::copy_file(files.back(), files.front(), fs::copy_options::overwrite_existing);
  fs::last_write_time(files.front(), time);
  third.out = workshop().fresh("out");
  succeed(third);
  CHECK(stage_value(third.out, "bytes_read") > 0);
  third.out = workshop().fresh("out");
  succeed(third);
  CHECK(stage_value(third.out, "bytes_read") == 0);
  fs::last_write_time(third.files("train").front(), fs::file_time_type::clock::now());
  third.out = workshop().fresh("out");
  third.options.erase("keep-stage");
  succeed(third);
  CHECK(stage_value(third.out, "bytes_read") > 0);
  CHECK(std::distance(fs::directory_iterator(third.stage), fs::directory_iterator()) == 2);
}

}  // namespace halomesh::test
