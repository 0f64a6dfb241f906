// SPDX-License-Identifier: Apache-2.0
// Checkpoints that cannot be used: damaged, of another program, or no file at all.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <limits>
#include <thread>

#include "runtime/hdf5/hdf5_file.hpp"
#include "runtime/train/checkpoint_directory.hpp"
#include "runtime/train/checkpoint_file.hpp"
#include "test/harness/temp_files.hpp"
#include "test/runtime/posix/failing_reads.hpp"
#include "test/runtime/train/checkpoint_fixture.hpp"

namespace halomesh {
namespace {

/// How a checkpoint is copied: by another program, which keeps HDF5's own checksums right.
struct Rewriting {
  std::function<void(const std::string& dataset, std::vector<float>& values)> change{};
  std::uint64_t seed_added = 0;
  bool of_state = true;     ///< the checksum of the state is copied
  bool of_datasets = true;  ///< those of datasets are
  std::int64_t format_added = 0;
};

void rewrite(const std::filesystem::path& path, const Rewriting& how) {
  const std::filesystem::path copy = path.string() + ".copy";
  {
    Hdf5File from = Hdf5File::open(path), to = Hdf5File::create(copy);
    for (const char* name : {"step", "epoch", "samples_into_epoch"})
      to.write_attribute("/", name, from.read_attribute<std::int64_t>("/", name));
    to.write_attribute("/", "format",
                       from.read_attribute<std::int64_t>("/", "format") + how.format_added);
    to.write_attribute("/", "seed",
                       from.read_attribute<std::uint64_t>("/", "seed") + how.seed_added);
    to.write_attribute("/", "written_by", from.read_attribute<std::string>("/", "written_by"));
    if (how.of_state)
      to.write_attribute("/", "crc32c", from.read_attribute<std::uint32_t>("/", "crc32c"));
    for (const std::string group : {"/model", "/run"}) {
      to.create_group(group);
      for (const std::string& name : from.attribute_names(group))
        to.write_attribute(group, name, from.read_attribute<std::string>(group, name));
    }
    for (const std::string tree : {"/parameters", "/optimizer"})
      for (const std::string& layer : from.members(tree))
        for (const std::string& parameter : from.members(fmt::format("{}/{}", tree, layer))) {
          const std::string name = fmt::format("{}/{}/{}", tree, layer, parameter);
          const Extents extents = from.extents(name);
          std::int64_t volume = 1;
          for (const std::int64_t extent : extents) volume *= extent;
          std::vector<float> values(static_cast<std::size_t>(volume));
          from.read<float>(name, Slab::whole(extents), values);
          if (how.change) how.change(name, values);
          DatasetLayout layout;
          layout.chunk = extents;
          layout.checksum = true;
          to.create_dataset(name, Hdf5Type::kFloat, extents, layout);
          to.write<float>(name, Slab::whole(extents), values);
          if (how.of_datasets)
            to.write_attribute(name, "crc32c", from.read_attribute<std::uint32_t>(name, "crc32c"));
        }
    to.close();
  }
  std::filesystem::rename(copy, path);
}

/// Sets one value of a dataset.
auto value_set(const std::string& dataset, float value) {
  return [=](const std::string& name, std::vector<float>& values) {
    if (name == dataset) values.at(5) = value;
  };
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("files that are not checkpoints are refused with a hint") {
  const TempDirectory directory;
  CheckpointFixture fixture;
  CHECK(contains(error_of([&] { fixture.load(directory / "none.h5"); }), "no such checkpoint"));
  CHECK(contains(error_of([&] { read_state(directory / "none.h5"); }), "no such checkpoint"));
  put_contents(directory / "text.h5", "hello");
  CHECK(contains(error_of([&] { read_state(directory / "text.h5"); }), "not an HDF5 file"));
  {
    Hdf5File file = Hdf5File::create(directory / "other.h5");
    file.close();
  }
  CHECK(contains(error_of([&] { read_state(directory / "other.h5"); }), "not a checkpoint: "));
  {
    Hdf5File file = Hdf5File::create(directory / "new.h5");
    file.write_attribute("/", "format", std::int64_t{2});
    file.close();
  }
  CHECK(contains(error_of([&] { fixture.load(directory / "new.h5"); }), "format 2"));
}

TEST_CASE("a truncated checkpoint is refused at any length") {
  const TempDirectory directory;
  CheckpointFixture fixture;
  fixture.save(directory.path(), 1);
  const auto path = directory / checkpoint_name(1);
  const std::string whole = contents(path);
  int refused = 0;
  for (std::size_t length = 0; length < whole.size();
       length += length < 600 || whole.size() - length < 600 ? 13 : 211) {
    put_contents(path, whole.substr(0, length));
    CAPTURE(length);
    const std::string error = error_of([&] { fixture.load(path); });
    CHECK(contains(error, "step-000000001.h5"));
    CHECK(contains(error, length < 8 && length > 0 ? "not an HDF5 file" : "damaged checkpoint"));
    ++refused;
  }
  CHECK(refused > 100);
  put_contents(path, whole);
  fixture.clear();
  fixture.load(path);
  CHECK(fixture.wrong() == 0);
}

TEST_CASE("no flipped byte of a checkpoint changes what is loaded") {
  const TempDirectory directory;
  CheckpointFixture fixture;
  fixture.save(directory.path(), 1);
  const auto path = directory / checkpoint_name(1);
  const std::string whole = contents(path);
  int found = 0, harmless = 0;
  for (std::size_t at = 0; at < whole.size(); at += 3) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (at % 2 == 0 ? 0xff : 1 << at % 8));
    put_contents(path, damaged);
    CAPTURE(at);
    fixture.clear();
    TrainingState state;
    const std::string error = error_of([&] { state = fixture.load(path); });
    // Bytes that nothing refers to may change; what is loaded may not.
    const bool same = error.empty() && state == sample_state(1) && fixture.wrong() == 0;
    CHECK((same || contains(error, "step-000000001.h5")));
    ++(same ? harmless : found);
  }
  CHECK(found > 1000);
  MESSAGE(found, " flipped bytes found, ", harmless, " without consequence");
}

TEST_CASE("checksums find damage that HDF5's own do not") {
  const TempDirectory directory;
  CheckpointFixture fixture;
  const auto path = directory / checkpoint_name(1);
  const auto error_after = [&](const Rewriting& how) {
    fixture.save(directory.path(), 1);
    rewrite(path, how);
    return error_of([&] { fixture.load(path); });
  };
  CHECK(error_after({}).empty());
  CHECK(contains(error_after({value_set("/parameters/fc1/weight", 1)}),
                 "damaged checkpoint: the checksum of /parameters/fc1/weight does not match"));
  CHECK(contains(error_after({value_set("/optimizer/late/bias", 1)}), "/optimizer/late/bias"));
  CHECK(contains(error_after({{}, 1}), "the checksum of its attributes does not match"));
  CHECK(contains(error_after({{}, 0, true, false}), "attribute crc32c of /parameters/"));
}

TEST_CASE("a checkpoint of several pieces is verified to its end") {
  const TempDirectory directory;
  CheckpointFixture fixture(40000);  // fc1's weight has 38 MB
  fixture.save(directory.path(), 1);
  const auto path = directory / checkpoint_name(1);
  CHECK(error_of([&] { fixture.load(path); }).empty());
  rewrite(path, {[](const std::string& name, std::vector<float>& values) {
            if (name == "/parameters/fc1/weight") values.back() = 1;
          }});
  CHECK(contains(error_of([&] { fixture.load(path); }), "checksum of /parameters/fc1/weight"));
}

TEST_CASE("a checkpoint without checksums is read, if its values are finite") {
  const TempDirectory directory;
  CheckpointFixture fixture;
  const auto path = directory / checkpoint_name(1);
  const auto save = [&](const std::string& dataset, float value) {
    fixture.save(directory.path(), 1);
    rewrite(path, {value_set(dataset, value), 0, false, false});
  };
  save("none", 0);
  fixture.clear();
  CHECK(fixture.load(path) == sample_state(1));
  CHECK(fixture.wrong() == 0);
  save("/parameters/conv1/weight", kNan);
  CHECK(contains(error_of([&] { fixture.load(path); }), "/parameters/conv1/weight has a value of"));
  save("/optimizer/fc2/weight", -kInfinity);
  CHECK(
      contains(error_of([&] { fixture.load(path); }), "/optimizer/fc2/weight has a value of -inf"));
  CHECK(fixture.load(path, LoadWhat::kParametersOnly) == sample_state(1));
}

TEST_CASE("a checkpoint of a state that no run can have is damaged") {
  const TempDirectory directory;
  CheckpointFixture fixture;
  const auto load = [&](const TrainingState& state) {
    save_checkpoint(fixture.mesh, fixture.network.geometry(), fixture.parameters, state,
                    directory.path(), 0);
    return fixture.load(directory / checkpoint_name(1));
  };
  TrainingState epoch = sample_state(1), samples = sample_state(1), text = sample_state(1);
  epoch.epoch = -1;
  samples.samples_into_epoch = -3;
  CHECK_THROWS_AS(load(epoch), DamagedCheckpoint);
  CHECK_THROWS_AS(load(samples), DamagedCheckpoint);
  // Text of another encoding is no reason to lose a run.
  text.written_by = "\xff";
  CHECK(load(text).written_by == "\xef\xbf\xbd");
}

TEST_CASE("values that are not finite are not saved") {
  const TempDirectory directory;
  CheckpointFixture fixture;
  fixture.save(directory.path(), 1);
  for (const bool velocity : {false, true}) {
    auto memory = velocity ? fixture.parameters.state(0) : fixture.parameters.values();
    const float before = std::exchange(memory[3], velocity ? kInfinity : kNan);
    const std::string error = error_of([&] { fixture.save(directory.path(), 2); });
    CHECK(contains(error, "step-000000002.h5 is not written: "));
    CHECK(contains(error, velocity ? "has a value of inf" : "has a value of nan"));
    CHECK(names_in(directory.path()) == std::vector<std::string>{"step-000000001.h5"});
    memory[3] = before;
  }
  fixture.save(directory.path(), 2);
}

TEST_CASE("the same state makes the same bytes") {
  const TempDirectory directory;
  CheckpointFixture fixture;
  fixture.save(directory / "a", 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // HDF5 counts seconds
  fixture.save(directory / "b", 1);
  CHECK(contents(directory / "a" / checkpoint_name(1)) ==
        contents(directory / "b" / checkpoint_name(1)));
}

TEST_CASE("a path that is not a file of halomesh is described, without advice to delete it") {
  const TempDirectory directory;
  CheckpointFixture fixture;
  fixture.save(directory / "run" / "checkpoints", 7);
  std::filesystem::create_directory(directory / "empty");
  REQUIRE(::mkfifo((directory / "fifo").c_str(), 0600) == 0);
  put_contents(directory / "notes", "root:x:0:0:root:/root:/bin/bash\n");
  struct Row {
    std::filesystem::path path;
    std::string what, hint;
  };
  const std::string newest = (directory / "run" / "checkpoints" / checkpoint_name(7)).string();
  const std::string give = "give a checkpoint of halomesh: training writes OUT/checkpoints/";
  for (const Row& row : std::vector<Row>{
           {directory / "none.h5", "no such checkpoint", give},
           {directory / "notes" / "none.h5", "no such checkpoint", give},
           {directory / "run", "is a directory, not a checkpoint", newest},
           {directory / "run" / "checkpoints", "is a directory, not a checkpoint", newest},
           {directory / "empty", "is a directory, not a checkpoint", give},
           {"/dev/null", "is a device, not a checkpoint", give},
           {directory / "fifo", "is a FIFO, not a checkpoint", give},
           {directory / "notes", "not a checkpoint: not an HDF5 file", give}})
    for (const bool whole : {false, true}) {
      CAPTURE(row.path);
      const std::string error =
          error_of([&] { whole ? fixture.load(row.path) : read_state(row.path); });
      CHECK(contains(error, row.path.string()));
      CHECK(contains(error, row.what));
      CHECK(contains(error, row.hint));
      CHECK(error.find("delete") == std::string::npos);
      CHECK(error.find("--resume") == std::string::npos);
    }
}

TEST_CASE("the newest checkpoint that is not damaged is loaded, the damaged ones set aside") {
  const TempDirectory directory;
  CheckpointFixture fixture;
  const auto path = [&](std::int64_t step) { return directory / checkpoint_name(step); };
  const auto load = [&] {
    fixture.clear();
    auto loaded = load_latest_checkpoint(fixture.mesh, fixture.network.geometry(),
                                         fixture.parameters, directory.path());
    if (loaded) CHECK(fixture.wrong() == 0);
    fill(fixture.network.geometry(), fixture.parameters, 0);
    return loaded;
  };
  CHECK_FALSE(load());
  for (std::int64_t step : {10, 20, 30, 40}) fixture.save(directory.path(), step);
  REQUIRE(load());
  CHECK(load()->warning.empty());
  put_contents(path(40), "");
  rewrite(path(30), {value_set("/optimizer/late/bias", kNan), 0, false, false});
  std::filesystem::resize_file(path(20), std::filesystem::file_size(path(20)) / 2);
  put_contents(directory / "step-000000040.h5.damaged", "of an earlier time");
  const auto loaded = load();
  REQUIRE(loaded);
  CHECK(loaded->path == path(10));
  CHECK(loaded->state == sample_state(10));
  for (const char* part :
       {"step-000000040.h5: damaged checkpoint: the file is empty",
        "step-000000030.h5: damaged checkpoint: /optimizer/late/bias has a value of",
        "step-000000020.h5: damaged checkpoint: ", "kept as step-000000040.h5.damaged-2, "})
    CHECK(contains(loaded->warning, part));
  CHECK(names_in(directory.path()) ==
        std::vector<std::string>{"step-000000010.h5", "step-000000020.h5.damaged",
                                 "step-000000030.h5.damaged", "step-000000040.h5.damaged",
                                 "step-000000040.h5.damaged-2"});
  CHECK(contents(directory / "step-000000040.h5.damaged") == "of an earlier time");
  CHECK(load()->warning.empty());

  // No usable checkpoint: nothing is renamed, so that no later run starts at step 0.
  fixture.save(directory.path(), 50);
  put_contents(path(50), "garbage");
  put_contents(path(10), "garbage");
  const auto names = names_in(directory.path());
  const std::string error = error_of([&] { load(); });
  CHECK(contains(error, "step-000000050.h5: not a checkpoint"));
  CHECK(contains(error, "step-000000010.h5: not a checkpoint"));
  CHECK(contains(error, "--resume never"));
  CHECK(names_in(directory.path()) == names);
}

TEST_CASE("a checkpoint that cannot be read is not damaged: the reason is told, nothing renamed") {
  const TempDirectory directory;
  CheckpointFixture fixture;
  for (std::int64_t step : {10, 20}) fixture.save(directory.path(), step);
  const auto names = names_in(directory.path());
  std::int64_t reads = 0;
  for (bool failed = true; failed; ++reads) {
    CAPTURE(reads);
    const FailingRead failing("step-000000020.h5", reads % 2 == 0 ? ESTALE : EIO, reads);
    const std::string error = error_of([&] {
      load_latest_checkpoint(fixture.mesh, fixture.network.geometry(), fixture.parameters,
                             directory.path());
    });
    failed = failing.has_failed();
    CHECK(names_in(directory.path()) == names);
    if (!failed) {
      CHECK(error.empty());
    } else {
      CHECK(contains(error, "cannot read " + (directory / "step-000000020.h5").string()));
      CHECK(contains(error, reads % 2 == 0 ? "Stale file handle" : "Input/output error"));
      CHECK(contains(error, "the file may be whole"));
    }
  }
  CHECK(reads > 10);
}

TEST_CASE("a newest checkpoint that is intact but of another kind is refused and left in place") {
  const TempDirectory directory;
  CheckpointFixture fixture, wider(8);
  fixture.save(directory.path(), 1);
  const auto refused = [&](const std::string& part) {
    const auto names = names_in(directory.path());
    CHECK(contains(error_of([&] {
                     load_latest_checkpoint(fixture.mesh, fixture.network.geometry(),
                                            fixture.parameters, directory.path());
                   }),
                   part));
    CHECK(names_in(directory.path()) == names);
  };
  wider.save(directory.path(), 2);
  refused("checkpoint of another network");
  fixture.save(directory.path(), 2);
  rewrite(directory / checkpoint_name(2), {{}, 0, true, true, 1});
  refused("format 2");
}

}  // namespace halomesh
