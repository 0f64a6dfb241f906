// SPDX-License-Identifier: Apache-2.0
// Which universe goes where, and what is refused, kept or removed in a data set's directory.
#include "src/apps/data/synth_files.hpp"

#include <doctest/doctest.h>

#include "runtime/data/archive.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

struct UniverseRow {
  std::int64_t universe, boxes;
  bool validation;
};

void check_universes(const SynthPlan& plan, const std::vector<UniverseRow>& expected) {
  const std::vector<SynthUniverse> universes = universes_of(plan);
  REQUIRE(universes.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(universes[i].universe == expected[i].universe);
    CHECK(universes[i].boxes == expected[i].boxes);
    CHECK(universes[i].validation == expected[i].validation);
  }
}

TEST_CASE("no universe serves both splits; the last of a split may give fewer boxes") {
  check_universes({3, 2, 1},
                  {{0, 1, false}, {1, 1, false}, {2, 1, false}, {3, 1, true}, {4, 1, true}});
  check_universes({10, 3, 8}, {{0, 8, false}, {1, 2, false}, {2, 3, true}});
  check_universes({0, 8, 8}, {{0, 8, true}});
  check_universes({0, 0, 8}, {});
}

TEST_CASE("groups hold whole universes of one split, and number samples and files in it") {
  const auto groups = groups_of(universes_of({10, 3, 3}), 6);
  struct Expected {
    std::int64_t first, samples, file, universes;
  };
  const std::vector<Expected> expected = {{0, 6, 0, 2}, {6, 4, 1, 2}, {0, 3, 0, 1}};
  REQUIRE(groups.size() == expected.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    CAPTURE(g);
    CHECK(groups[g].first_sample == expected[g].first);
    CHECK(groups[g].samples == expected[g].samples);
    CHECK(groups[g].file == expected[g].file);
    CHECK(std::ssize(groups[g].universes) == expected[g].universes);
  }
  CHECK(groups_of(universes_of({3, 2, 1}), 1).size() == 5);
  CHECK(groups_of({}, 8).empty());
}

TEST_CASE("climate images are replaced only if this command has written them") {
  const TempDirectory temp;
  fs::create_directories(temp / "train");
  const fs::path image = temp.path() / climate_file_of(3, "train", 17);
  CHECK(image == temp.path() / "train/data-s3-000017.h5");
  put_contents(image, "an image");
  put_contents(temp / "stats.h5", "ranges");
  CHECK(contains(error_of([&] { prepare_directory(temp.path(), false, 1, SynthFormat::kClimate); }),
                 "already holds samples"));
  put_contents(temp / "train/data-2103-01-01.h5", "an image of another kind");
  CHECK(contains(error_of([&] { prepare_directory(temp.path(), true, 1, SynthFormat::kClimate); }),
                 "data-2103-01-01.h5"));
  fs::remove(temp / "train/data-2103-01-01.h5");
  prepare_directory(temp.path(), true, 1, SynthFormat::kClimate);
  CHECK(!fs::exists(image));
  CHECK(!fs::exists(temp / "stats.h5"));
}

TEST_CASE("file names sort as universes and boxes are numbered") {
  CHECK(file_of(7, {17, 8, false}, 3) == fs::path("train/universe_s7_000017_003.tfrecord"));
  CHECK(file_of(0, {2, 1, true}, 63) == fs::path("validation/universe_s0_000002_063.tfrecord"));
  CHECK(file_of(0, {9, 1, false}, 0) < file_of(0, {10, 1, false}, 0));
  CHECK(file_of(0, {9, 1, false}, 9) < file_of(0, {9, 1, false}, 10));
}

template <class Call>
std::string what_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK_FALSE(error.hint().empty());
    return error.what();
  }
  return "nothing was thrown";
}

TEST_CASE("a directory is created; samples in it are kept unless --overwrite is given") {
  const TempDirectory temp;
  const fs::path out = temp / "a/b";
  prepare_directory(out, false, 1000);
  CHECK(fs::is_directory(out / "train"));
  CHECK(fs::is_directory(out / "validation"));
  const fs::path old = out / file_of(3, {0, 1, false}, 0);
  const fs::path partial = out / "validation/.universe_s3_000001_000.tfrecord.partial";
  put_contents(old, "old");
  put_contents(partial, "old");
  put_contents(out / "dataset.json", "{}");
  put_contents(out / "notes.txt", "mine");
  CHECK(what_of([&] { prepare_directory(out, false, 1000); }).find(out.string()) == 0);
  CHECK(contents(old) == "old");
  prepare_directory(out, true, 1000);
  CHECK_FALSE(fs::exists(old));
  CHECK_FALSE(fs::exists(partial));
  CHECK_FALSE(fs::exists(out / "dataset.json"));
  CHECK(contents(out / "notes.txt") == "mine");
}

TEST_CASE("archives are kept, replaced if this command wrote them, and never mixed") {
  const TempDirectory temp;
  const auto write = [&](const std::string& source) {
    ArchiveWriter writer(temp / "train-00000.h5", {1, 0, 1, {1, 1, 1, 2}, 1, 1, source});
    writer.write(std::vector<std::int16_t>{1, 2}, std::vector<float>{0.5F});
    writer.commit();
  };
  write("a camera");
  put_contents(temp / ".validation-00001.h5.partial", "half");
  CHECK(what_of([&] { prepare_directory(temp.path(), false, 0); }).find("already holds") !=
        std::string::npos);
  CHECK(what_of([&] { prepare_directory(temp.path(), true, 0); }).find("train-00000.h5") !=
        std::string::npos);
  CHECK(fs::exists(temp / "train-00000.h5"));
  write(fmt::format("{} --seed 1", kSynthSource));
  prepare_directory(temp.path(), true, 0, SynthFormat::kArchive);
  CHECK(temp.entries() == 0);
}

TEST_CASE("samples of others are never removed") {
  const TempDirectory temp;
  prepare_directory(temp.path(), false, 0);
  const fs::path ours = temp / "train/universe_s0_000000_000.tfrecord";
  const fs::path theirs = temp / "train/univ_ics_2019-03_a1_000.tfrecord";
  put_contents(ours, "a");
  put_contents(theirs, "b");
  CHECK(what_of([&] { prepare_directory(temp.path(), true, 0); }).find(theirs.string()) == 0);
  CHECK(fs::exists(ours));
  CHECK(fs::exists(theirs));
}

TEST_CASE("too little space is reported before anything is written or removed") {
  const TempDirectory temp;
  const std::int64_t exabyte = std::int64_t{1} << 60;
  const fs::path out = temp / "x";
  CHECK(what_of([&] { prepare_directory(out, false, exabyte); }).find("needs about") !=
        std::string::npos);
  CHECK_FALSE(fs::exists(out));
  prepare_directory(out, false, 0);
  const fs::path old = out / "train/universe_s0_000000_000.tfrecord";
  put_contents(old, "a");
  CHECK(what_of([&] { prepare_directory(out, true, exabyte); }).find("needs about") !=
        std::string::npos);
  CHECK(fs::exists(old));
}

}  // namespace
}  // namespace halomesh
