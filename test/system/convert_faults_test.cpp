// SPDX-License-Identifier: Apache-2.0
// Conversions that are interrupted, refused or damaged: complete files are never lost.
#include <doctest/doctest.h>

#include <limits>

#include "test/harness/full_disk.hpp"
#include "test/system/conversion.hpp"
#include "test/system/spoil.hpp"

namespace halomesh::test {
namespace {

constexpr int kFailed = 1;

/// A conversion that takes seconds, so that it can be interrupted in the middle.
Arguments long_conversion(const fs::path& from, const fs::path& to) {
  Arguments options = conversion(from, to);
  options["level"] = "9";
  options["samples-per-file"] = "4";
  return options;
}
fs::path long_data() { return data_set(32, 200, 0); }

/// Starts a long conversion and waits until some files are complete and others are not.
void reach_the_middle(Job& job, const fs::path& to) {
  REQUIRE(
      wait_until(kLimitSeconds, [&] { return job.ended() || fs::exists(to / "train-00003.h5"); }));
  REQUIRE(!job.ended());
}

/// The archive of an uninterrupted long conversion.
const std::map<std::string, std::string>& undisturbed() {
  static const auto files = [] {
    const fs::path to = workshop().fresh("archive");
    const Outcome outcome = run(2, "convert", long_conversion(long_data(), to), 60);
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    return files_of(to);
  }();
  return files;
}

/// The same command succeeds, keeps complete files, and gives exactly the archive of an
/// uninterrupted one.
void check_goes_on(const fs::path& from, const fs::path& to) {
  const Outcome outcome = run(2, "convert", long_conversion(from, to), 60);
  CAPTURE(outcome.text);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.text.find("samples already converted)") != std::string::npos);
  const auto files = files_of(to);
  CHECK(files.size() == 51);
  CHECK(files == undisturbed());
}

/// A fault, and what the message must name.
struct Fault {
  std::string label;
  std::function<void(const fs::path& data, Arguments& options)> make;
  std::vector<std::string> named;
  int exit_code = kFailed;
};

fs::path sample_file(const fs::path& data, int at) {
  std::set<fs::path> sorted;
  for (const auto& entry : fs::directory_iterator(data / "train")) sorted.insert(entry.path());
  return *std::next(sorted.begin(), at);
}

}  // namespace

TEST_CASE("convert: a rank killed in the middle; the same command completes the same bytes") {
  const fs::path to = workshop().fresh("archive");
  undisturbed();
  {
    Job job(2, "convert", long_conversion(long_data(), to), workshop().fresh("log"));
    reach_the_middle(job, to);
    const auto ranks = job.ranks();
    REQUIRE(ranks.contains(1));
    job.signal(ranks.at(1), SIGKILL);
    const Outcome outcome = job.wait(kLimitSeconds);
    CAPTURE(outcome.text);
    CHECK(outcome.in_time);
    CHECK(outcome.exit_code != 0);
  }
  CHECK(files_of(to).size() < 50);
  std::ofstream(to / ".dataset.json.1-2.partial") << '{';  // as after a kill at its very end
  check_goes_on(long_data(), to);
  CHECK(partial_files(to).empty());
}

TEST_CASE("convert: when told to stop, it leaves only complete files") {
  const fs::path to = workshop().fresh("archive");
  {
    Job job(0, "convert", long_conversion(long_data(), to), workshop().fresh("log"));
    reach_the_middle(job, to);
    job.signal(job.launcher(), SIGTERM);
    check_failure(job.wait(kLimitSeconds), kFailed, {"SIGTERM received: stopped", "same command"});
  }
  CHECK(partial_files(to).empty());
  check_goes_on(long_data(), to);
}

TEST_CASE("convert: if the source disappears, complete files are kept") {
  const fs::path from = workshop().fresh("data"), to = workshop().fresh("archive");
  const fs::path away = from.string() + "-away";
  fs::copy(long_data(), from, fs::copy_options::recursive);
  {
    Job job(2, "convert", long_conversion(from, to), workshop().fresh("log"));
    reach_the_middle(job, to);
    fs::rename(from, away);
    check_failure(job.wait(kLimitSeconds), kFailed, {from.string(), "No such file"});
  }
  CHECK(partial_files(to).empty());
  const auto left = files_of(to);
  CHECK(left.size() >= 3);
  fs::rename(away, from);
  const Outcome outcome = run(2, "convert", long_conversion(from, to), 60);
  CAPTURE(outcome.text);
  CHECK(outcome.exit_code == 0);
  for (const auto& [name, bytes] : left) CHECK(read_file(to / name) == bytes);
}

TEST_CASE("convert: a second one into the same directory is refused") {
  const fs::path to = workshop().fresh("archive");
  Job job(2, "convert", long_conversion(long_data(), to), workshop().fresh("log"));
  reach_the_middle(job, to);
  const auto ranks = job.ranks();
  for (const auto& [rank, pid] : ranks) job.signal(pid, SIGSTOP);
  check_failure(run(2, "convert", long_conversion(long_data(), to)), kFailed,
                {to.string(), "is in use by process", "converting since", "another --to"});
  for (const auto& [rank, pid] : ranks) job.signal(pid, SIGCONT);
  const Outcome outcome = job.wait(kLimitSeconds);
  CAPTURE(outcome.text);
  CHECK(outcome.exit_code == 0);
  CHECK(files_of(to) == undisturbed());
}

TEST_CASE("convert: a full disk ends all ranks and keeps complete files") {
  const fs::path to = workshop().fresh("small-disk");
  fs::create_directories(to);
  const SmallFileSystem disk(to, 3 << 20);
  if (!disk.mounted()) return;
  check_failure(run(2, "convert", long_conversion(long_data(), to)), kFailed,
                {"train-000", "No space left"});
  CHECK(partial_files(to).empty());
  CHECK(files_of(to).size() >= 1);
  for (const auto& [name, bytes] : files_of(to)) CHECK(undisturbed().at(name) == bytes);
  Arguments options = long_conversion(long_data(), to);
  options["codec"] = "none";
  for (const auto& [name, bytes] : files_of(to)) fs::remove(to / name);
  check_failure(run(2, "convert", options), kFailed, {"more bytes", to.string(), "--codec gzip"});
  CHECK(files_of(to).empty());
}

TEST_CASE("convert: a bad source or target is reported with what, where and hint") {
  const std::string nowhere = workshop().fresh("nowhere").string();
  const std::vector<Fault> faults = {
      {"no source", [&](const auto&, Arguments& o) { o["from"] = nowhere; }, {nowhere}},
      {"no source named", [](const auto&, Arguments& o) { o.erase("from"); }, {"--from"}, 2},
      {"truncated",
       [](const fs::path& d, Arguments&) { cut_file(sample_file(d, 5), 1000); },
       {"000005", "truncated", "record 0"}},
      {"flipped bit",
       [](const fs::path& d, Arguments&) { flip_bit(sample_file(d, 6), 70000); },
       {"000006", "checksum of the payload"}},
      {"other shape",
       [](const auto&, Arguments& o) { o["input"] = "16x16x16x4"; },
       {"try --input 32x32x32x4"}},
      {"target that is no number",
       [](const fs::path& d, Arguments&) {
         patch_record(sample_file(d, 3), -8, std::numeric_limits<float>::quiet_NaN());
       },
       {"000003", "target 2 is nan"}},
      {"negative count",
       [](const fs::path& d, Arguments&) {
         patch_record(sample_file(d, 7), 23 + 2 * 1000, std::int16_t{-5});
       },
       {"000007", "is -5"}},
      {"target below a file",
       [](const fs::path& d, Arguments& o) { o["to"] = (d / "dataset.json/to").string(); },
       {"cannot make the directory", "Not a directory"}},
      {"onto itself",
       [](const fs::path& d, Arguments& o) { o["to"] = d.string(); },
       {"is an input: --from"},
       2},
  };
  int checked = 0;
  for (const Fault& fault : faults) {
    CAPTURE(fault.label);
    const Scene scene(true);
    const fs::path to = workshop().fresh("archive");
    Arguments options = conversion(scene.data, to);
    fault.make(scene.data, options);
    check_failure(run(2, "convert", options), fault.exit_code, fault.named);
    CHECK(partial_files(to).empty());
    ++checked;
  }
  CHECK(checked == 9);
}

TEST_CASE("convert: an archive of another source or with other options is not continued") {
  const fs::path to = workshop().fresh("archive");
  const fs::path data = data_set(32, 8, 4);
  REQUIRE(run(2, "convert", conversion(data, to)).exit_code == 0);
  const auto before = files_of(to);
  const Scene other(true);  // with one sample twice
  const auto samples = other.files("train");
  fs::copy_file(samples[0], samples[1], fs::copy_options::overwrite_existing);
  const std::vector<Fault> faults = {
      {"source",
       [&](const auto&, Arguments& o) { o["from"] = other.data.string(); },
       {"train-0000", "belongs to another conversion: samples from"}},
      {"level", [](const auto&, Arguments& o) { o["level"] = "1"; }, {"gzip level 4, expected 1"}},
      {"codec", [](const auto&, Arguments& o) { o["codec"] = "none"; }, {"expected 0"}},
      {"files",
       [](const auto&, Arguments& o) { o["samples-per-file"] = "4"; },
       {"belongs to another conversion: this one makes 2 files"}},
      {"file lengths",
       [](const auto&, Arguments& o) { o["samples-per-file"] = "2"; },
       {"belongs to another conversion"}},
  };
  for (const Fault& fault : faults) {
    CAPTURE(fault.label);
    Arguments options = conversion(data, to);
    fault.make(data, options);
    check_failure(run(2, "convert", options), fault.exit_code, fault.named);
    CHECK(files_of(to) == before);
  }
  write_file(to / "train-00001.h5", "no archive");
  check_failure(run(2, "convert", conversion(data, to)), kFailed, {"train-00001.h5"});
}

TEST_CASE("convert: a bit that flips in an archive is found and named") {
  const Scene scene;
  const fs::path to = workshop().fresh("archive");
  REQUIRE(run(2, "convert", conversion(scene.data, to)).exit_code == 0);
  const fs::path file = to / "train-00001.h5";
  flip_bit(file, fs::file_size(file) / 2);
  Arguments options{{"to", to.string()}, {"verify", ""}, {"input", "32x32x32x4"}};
  check_failure(run(2, "convert", options), kFailed, {"train-00001.h5", "/x: chunk at ("});
  Scene training;
  training.data = to;
  check_failure(training.train(), kFailed, {"train-00001.h5", "/x: chunk at ("});
  fs::remove(file);
  check_failure(run(2, "convert", options), kFailed, {"train-00002.h5", "missing"});
  REQUIRE(run(2, "convert", conversion(scene.data, to)).exit_code == 0);
  REQUIRE(run(2, "convert", options).exit_code == 0);
}

}  // namespace halomesh::test
