// Archives made by the program: the same on any ranks, and whatever happens on the way.
// Knows the program from outside only.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "test/runtime/full_disk.hpp"
#include "test/system/curve.hpp"
#include "test/system/scene.hpp"
#include "test/system/spoil.hpp"

namespace halomesh::test {
namespace {

constexpr int kFailed = 1;

/// The options of a conversion of cubes of 32 voxels.
Arguments conversion(const fs::path& from, const fs::path& to) {
  return {{"from", from.string()},
          {"to", to.string()},
          {"input", "32x32x32x4"},
          {"samples-per-file", "3"}};
}

/// One that takes seconds, so that it can be caught in the middle.
Arguments long_conversion(const fs::path& from, const fs::path& to) {
  Arguments options = conversion(from, to);
  options["level"] = "9";
  options["samples-per-file"] = "4";
  return options;
}
fs::path long_data() { return data_set(32, 200, 0); }

/// The files of a directory with their bytes.
std::map<std::string, std::string> files_of(const fs::path& directory) {
  std::map<std::string, std::string> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(directory, none))
    files[entry.path().filename().string()] = read_file(entry.path());
  return files;
}

/// The voxels and then the targets in a file of an archive.
std::vector<float> read_samples(const fs::path& path) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  REQUIRE(file >= 0);
  std::vector<float> values;
  for (const char* name : {"/x", "/y"}) {
    const hid_t id = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(id);
    std::vector<float> more(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    REQUIRE(H5Dread(id, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, more.data()) >= 0);
    values.insert(values.end(), more.begin(), more.end());
    H5Sclose(space);
    H5Dclose(id);
  }
  H5Fclose(file);
  return values;
}

/// Starts a long conversion and waits until some file is whole and others are not.
void reach_the_middle(Job& job, const fs::path& to) {
  REQUIRE(
      wait_until(kLimitSeconds, [&] { return job.ended() || fs::exists(to / "train-00003.h5"); }));
  REQUIRE(!job.ended());
}

/// The archive that an undisturbed long conversion makes.
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

/// The same command ends well, keeps what was there, and leaves exactly what an undisturbed one
/// does.
void check_goes_on(const fs::path& from, const fs::path& to) {
  const Outcome outcome = run(2, "convert", long_conversion(from, to), 60);
  CAPTURE(outcome.text);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.text.find("samples were there)") != std::string::npos);
  const auto files = files_of(to);
  CHECK(files.size() == 50);
  CHECK(files == undisturbed());
}

}  // namespace

TEST_CASE("convert: any ranks make the same bytes, and training on them has the same curve") {
  const Scene direct;
  std::map<std::string, std::string> first;
  for (const int ranks : {1, 2, 4}) {
    const fs::path to = workshop().fresh("archive");
    Arguments options = conversion(direct.data, to);
    options["verify"] = "";
    const Outcome outcome = run(ranks, "convert", options);
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.text.find(
              "train: 8 samples of 32x32x32x4 in 3 files, verified against the source") !=
          std::string::npos);
    if (first.empty()) first = files_of(to);
    CHECK(first.size() == 5);
    CHECK(files_of(to) == first);
  }
  Scene archived;
  archived.data = workshop().fresh("archive");
  REQUIRE(run(2, "convert", conversion(direct.data, archived.data)).exit_code == 0);
  REQUIRE(direct.train().exit_code == 0);
  REQUIRE(archived.train().exit_code == 0);
  check_same_curve(direct.out, archived.out);
  check_same_weights(checkpoints(direct.out).back(), checkpoints(archived.out).back());
}

TEST_CASE("convert: an archive of an archive, and one without compression, hold the same") {
  const fs::path data = data_set(32, 8, 4);
  const fs::path once = workshop().fresh("archive"), plain = workshop().fresh("archive"),
                 twice = workshop().fresh("archive");
  REQUIRE(run(0, "convert", conversion(data, once)).exit_code == 0);
  Arguments options = conversion(once, plain);
  options.insert({{"codec", "none"}, {"verify", ""}, {"split", "train"}});
  REQUIRE(run(2, "convert", options).exit_code == 0);
  CHECK(files_of(plain).size() == 3);
  CHECK(fs::file_size(plain / "train-00000.h5") > fs::file_size(once / "train-00000.h5"));
  options = conversion(plain, twice);
  options.insert({{"verify", ""}});
  REQUIRE(run(2, "convert", options).exit_code == 0);
  CHECK(files_of(twice).size() == 3);
}

TEST_CASE("synth: an archive holds what its TFRecord files do, on any ranks") {
  std::map<std::string, std::string> first;
  for (const int ranks : {0, 2}) {
    const fs::path out = workshop().fresh("archive");
    const Arguments options{{"format", "archive"},
                            {"extent", "16"},
                            {"train", "21"},
                            {"validation", "3"},
                            {"universe-boxes", "2"}};
    Arguments all = options;
    all["out"] = out.string();
    REQUIRE(run(ranks, "synth", all).exit_code == 0);
    all = options;
    all["out"] = workshop().fresh("data").string();
    all["format"] = "tfrecord";
    REQUIRE(run(2, "synth", all).exit_code == 0);
    const auto files = files_of(out);
    CHECK(files.size() == 5);  // 8 + 8 + 5 and 3 samples, and dataset.json
    if (first.empty()) first = files;
    CHECK(files == first);
    // Both converted to one more archive with the same files differ by their source alone.
    const fs::path a = workshop().fresh("archive"), b = workshop().fresh("archive");
    for (const auto& [from, to] : {std::pair{out.string(), a}, {all["out"], b}}) {
      const Outcome outcome = run(2, "convert",
                                  {{"from", from},
                                   {"to", to.string()},
                                   {"input", "16x16x16x4"},
                                   {"codec", "none"},
                                   {"verify", ""}});
      CAPTURE(outcome.text);
      REQUIRE(outcome.exit_code == 0);
    }
    CHECK(read_samples(a / "train-00000.h5") == read_samples(b / "train-00000.h5"));
    CHECK(read_samples(a / "validation-00000.h5") == read_samples(b / "validation-00000.h5"));
    CHECK(read_samples(a / "train-00000.h5").size() == (21 * 16 * 16 * 16 * 4 + 21 * 4));
  }
}

TEST_CASE("convert: a rank killed in the middle; the same command goes on to the same bytes") {
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
  check_goes_on(long_data(), to);
}

TEST_CASE("convert: told to stop, it leaves whole files only") {
  const fs::path to = workshop().fresh("archive");
  {
    Job job(0, "convert", long_conversion(long_data(), to), workshop().fresh("log"));
    reach_the_middle(job, to);
    job.signal(job.launcher(), SIGTERM);
    check_failure(job.wait(kLimitSeconds), kFailed, {"stopped by a signal", "same command"});
  }
  CHECK(partial_files(to).empty());
  check_goes_on(long_data(), to);
}

TEST_CASE("convert: a source that vanishes loses nothing that was made") {
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
  check_failure(run(2, "convert", long_conversion(long_data(), to)), kFailed,
                {to.string(), "is being written to by process", "wait for its end"});
  const Outcome outcome = job.wait(60);
  CAPTURE(outcome.text);
  CHECK(outcome.exit_code == 0);
  CHECK(files_of(to) == undisturbed());
}

TEST_CASE("convert: a disk that is full ends all ranks, and keeps whole files") {
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

namespace {

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

TEST_CASE("convert: a bad source or target is told by what, where and cure") {
  const std::vector<Fault> faults = {
      {"no source", [](const auto&, Arguments& o) { o["from"] = "/nowhere"; }, {"/nowhere"}},
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
       [](const fs::path& d, Arguments& o) { o["to"] = (sample_file(d, 0) / "to").string(); },
       {"cannot make the directory", "Not a directory"}},
      {"onto itself",
       [](const fs::path& d, Arguments& o) { o["to"] = d.string(); },
       {"--from and --to are both"}},
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

TEST_CASE("convert: an archive of another source or other options is not gone on with") {
  const fs::path to = workshop().fresh("archive");
  const fs::path data = data_set(32, 8, 4);
  REQUIRE(run(2, "convert", conversion(data, to)).exit_code == 0);
  const auto before = files_of(to);
  const Scene other(true);
  const std::vector<Fault> faults = {
      {"source",
       [&](const auto&, Arguments& o) { o["from"] = other.data.string(); },
       {"train-0000", "of another conversion: samples from", other.data.string()}},
      {"level", [](const auto&, Arguments& o) { o["level"] = "1"; }, {"gzip level 4, expected 1"}},
      {"codec", [](const auto&, Arguments& o) { o["codec"] = "none"; }, {"expected 0"}},
      {"files",
       [](const auto&, Arguments& o) { o["samples-per-file"] = "4"; },
       {"of another conversion: this one makes 2 files"}},
      {"file lengths",
       [](const auto&, Arguments& o) { o["samples-per-file"] = "2"; },
       {"of another conversion"}},
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
