// SPDX-License-Identifier: Apache-2.0
// Checkpoint files on one rank: their layout, their directory, and what cannot be written.
#include "runtime/train/checkpoint.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/hdf5/hdf5_file.hpp"
#include "runtime/train/checkpoint_directory.hpp"
#include "runtime/train/checkpoint_file.hpp"
#include "test/harness/full_disk.hpp"
#include "test/harness/temp_files.hpp"
#include "test/harness/test_comm.hpp"
#include "test/runtime/train/checkpoint_fixture.hpp"

namespace halomesh {
TEST_CASE("a checkpoint has the documented layout") {
  const TempDirectory directory;
  CheckpointFixture fixture;
  fixture.save(directory / "out" / "checkpoints", 512);
  Hdf5File file = Hdf5File::open(directory / "out" / "checkpoints" / "step-000000512.h5");
  CHECK(file.members("/") == Names{"model", "optimizer", "parameters", "run"});
  int datasets = 0, tree = 0;
  for (const std::string root : {"/parameters", "/optimizer"}) {
    CHECK(file.members(root) == Names{"conv1", "fc1", "fc2", "late", "mix"});
    CHECK(file.extents(root + "/conv1/weight") == Extents{4, 2, 3, 2, 1});
    CHECK(file.extents(root + "/conv1/bias") == Extents{4});
    CHECK(file.extents(root + "/mix/weight") == Extents{3, 5, 2, 1, 3});
    CHECK(file.extents(root + "/late/weight") == Extents{100, 4, 3, 2, 1});
    CHECK(file.extents(root + "/fc1/weight") == Extents{7, 4 * 60});
    CHECK(file.extents(root + "/fc1/bias") == Extents{7});
    CHECK(file.extents(root + "/fc2/weight") == Extents{2, 7});
    const auto& placements = fixture.network.geometry().parameters();
    for (std::size_t i = 0; i < placements.size(); ++i) {
      const std::string name =
          fmt::format("{}/{}/{}", root, placements[i].layer_name, placements[i].geometry.name);
      std::vector<float> values(static_cast<std::size_t>(placements[i].geometry.volume()));
      file.read<float>(name, Slab::whole(file.extents(name)), values);
      // The global index runs in the order of the dataset: out,in,kd,kh,kw or out,d,h,w,c.
      for (std::size_t g = 0; g < values.size(); ++g)
        REQUIRE(values[g] == value_at(tree, i, static_cast<std::int64_t>(g)));
      ++datasets;
    }
    ++tree;
  }
  CHECK(datasets == 18);
  CHECK(file.read_attribute<std::int64_t>("/", "format") == 1);
  CHECK(file.read_attribute<std::int64_t>("/", "step") == 512);
  CHECK(file.read_attribute<std::uint64_t>("/", "seed") == 0xfedcba9876543210u);
  CHECK(file.read_attribute<std::string>("/model", "fc") == "128,64");
}

TEST_CASE("a state comes back as saved, with or without parameters") {
  const TempDirectory directory;
  CheckpointFixture fixture(
      40000);  // fc1's weight has 38 MB: several pieces, the last one not full
  fixture.save(directory.path(), 7);
  const auto path = directory / "step-000000007.h5";
  CHECK(read_state(path) == sample_state(7));
  fixture.clear();
  CHECK(fixture.wrong() == 2 * fixture.network.geometry().parameter_count());
  CHECK(fixture.load(path) == sample_state(7));
  CHECK(fixture.wrong() == 0);
  fixture.clear();
  CHECK(fixture.load(path, LoadWhat::kParametersOnly) == sample_state(7));
  CHECK(fixture.wrong() == fixture.network.geometry().parameter_count());
}

TEST_CASE("the newest checkpoint that a run removes before it is read is followed by the next") {
  const TempDirectory directory;
  CheckpointFixture fixture;
  const auto checkpoints = directory / "checkpoints";
  for (const std::int64_t step : {10, 20}) fixture.save(checkpoints, step, 0);
  std::vector<std::int64_t> tried;
  const auto read = [&](const std::string& file) {
    tried.push_back(std::stoll(std::filesystem::path(file).stem().string().substr(5)));
    // As training does between the choice of the file and its being opened.
    if (tried.size() == 1) fixture.save(checkpoints, 30, 1);
    return read_state(file).step;
  };
  CHECK(with_newest_checkpoint(test_world(), directory.path(), read) == 30);
  CHECK(tried == std::vector<std::int64_t>{20, 30});
  tried.clear();
  CHECK(with_newest_checkpoint(test_world(), checkpoints, read) == 30);
  CHECK(tried == std::vector<std::int64_t>{30});
  // What is damaged and stays the newest is an error, as is a file that was named.
  put_contents(checkpoints / checkpoint_name(30), "damaged");
  CHECK(contains(error_of([&] { with_newest_checkpoint(test_world(), checkpoints, read); }),
                 "not a checkpoint"));
  const auto named = checkpoints / checkpoint_name(7);
  CHECK(contains(error_of([&] { with_newest_checkpoint(test_world(), named, read); }),
                 "no such checkpoint"));
  std::filesystem::remove(checkpoints / checkpoint_name(30));
  CHECK(contains(error_of([&] { with_newest_checkpoint(test_world(), checkpoints, read); }),
                 "holds no checkpoint"));
}

TEST_CASE("old checkpoints are removed, later ones renamed, other files kept") {
  const TempDirectory directory;
  CheckpointFixture fixture;
  CHECK(latest_checkpoint(directory / "none") == std::nullopt);
  CHECK(latest_checkpoint(directory.path()) == std::nullopt);
  const Names others{"notes.txt", "step-1.h5", "step-000000009.h5.bak", "step-0000000009.h5",
                     "step-00000000x.h5"};
  for (const std::string& name : others) put_contents(directory / name, "mine");
  put_contents(directory / ".step-000000001.h5.partial", "half");
  CHECK(latest_checkpoint(directory.path()) == std::nullopt);
  for (std::int64_t step : {10, 20, 30}) fixture.save(directory.path(), step, 2);
  CHECK_FALSE(std::filesystem::exists(directory / ".step-000000001.h5.partial"));
  CHECK_FALSE(std::filesystem::exists(directory / checkpoint_name(10)));
  CHECK(std::filesystem::exists(directory / checkpoint_name(20)));
  CHECK(latest_checkpoint(directory.path()) == directory / checkpoint_name(30));
  fixture.save(directory.path(), 30, 2);  // again: replaces
  fixture.save(directory.path(), 1234567890, 0);
  CHECK(latest_checkpoint(directory.path()) == directory / "step-1234567890.h5");
  // A run that resumed from step 20 follows its own curve from there.
  fixture.save(directory.path(), 25, 2);
  CHECK(latest_checkpoint(directory.path()) == directory / checkpoint_name(25));
  Names expected = others;
  for (const char* name : {"step-000000020.h5", "step-000000025.h5", "step-000000030.h5.superseded",
                           "step-1234567890.h5.superseded"})
    expected.emplace_back(name);
  std::sort(expected.begin(), expected.end());
  CHECK(names_in(directory.path()) == expected);
  fixture.save(directory.path(), 26, 1);
  CHECK(latest_checkpoint(directory.path()) == directory / checkpoint_name(26));
  CHECK_FALSE(std::filesystem::exists(directory / checkpoint_name(25)));
}

TEST_CASE("a checkpoint of another network is refused with both shapes") {
  const TempDirectory directory;
  CheckpointFixture fixture;
  fixture.save(directory.path(), 1);
  const auto path = directory / checkpoint_name(1);
  CheckpointFixture wider(8), filters(7, 5);
  const std::string error = error_of([&] { wider.load(path); });
  CHECK(contains(error, "step-000000001.h5: checkpoint of another network: "));
  CHECK(contains(error, "/parameters/fc1/weight has shape 7x240; expected 8x240"));
  CHECK(contains(error, "--fc 128,64 --kernel 2"));
  CHECK(contains(error_of([&] { filters.load(path); }),
                 "/parameters/conv1/weight has shape 4x2x3x2x1; expected 5x2x3x2x1"));

  const WholeWeight conv(4);
  const ModelGeometry fewer({2, 5, 4, 3}, {{"conv1", &conv, {0}}}, {1, 1, 1});
  const ModelGeometry renamed({2, 5, 4, 3}, {{"conv7", &conv, {0}}}, {1, 1, 1});
  Parameters fewer_parameters(fewer, 0), renamed_parameters(renamed, 0);
  CHECK(contains(error_of([&] { load_checkpoint(fixture.mesh, fewer, fewer_parameters, path); }),
                 "it has /parameters/fc1/bias of shape 7, which this network does not have"));
  CHECK(
      contains(error_of([&] { load_checkpoint(fixture.mesh, renamed, renamed_parameters, path); }),
               "it has no /parameters/conv7/weight; expected 4x2x3x2x1"));
}

TEST_CASE("a checkpoint that does not fit the disk leaves the previous one") {
  const TempDirectory directory;
  CheckpointFixture fixture;
  fixture.save(directory.path(), 1);
  const std::string before = contents(directory / checkpoint_name(1));
  int refused = 0;
  for (std::int64_t limit = 0; limit < static_cast<std::int64_t>(before.size()); limit += 1009) {
    CAPTURE(limit);
    for (std::int64_t step : {1, 2}) {
      std::string error;
      {
        const FileSizeLimit full(limit);
        error = error_of([&] { fixture.save(directory.path(), step, 1); });
      }
      CHECK(contains(error, fmt::format("step-00000000{}.h5", step)));
      CHECK(contains(error, "File too large"));
      ++refused;
    }
    CHECK(names_in(directory.path()) == Names{"step-000000001.h5"});
  }
  CHECK(refused > 20);
  CHECK(contents(directory / checkpoint_name(1)) == before);
  fixture.save(directory.path(), 2, 1);
  CHECK(names_in(directory.path()) == Names{"step-000000002.h5"});
}

TEST_CASE("a full file system keeps the previous checkpoint") {
  const TempDirectory directory;
  const SmallFileSystem disk(directory.path(), 1 << 20);
  if (!disk.mounted()) return;
  CheckpointFixture small, large(1500);  // 1.4 MB of fc1's weight, twice
  small.save(directory.path(), 1);
  const std::string error = error_of([&] { large.save(directory.path(), 2, 1); });
  CHECK(contains(error, "No space left on device"));
  CHECK(names_in(directory.path()) == Names{"step-000000001.h5"});
  // The space of the attempt is free again, so that training can continue without it.
  put_contents(directory / "filler", std::string(700 << 10, 'x'));
  CHECK(contents(directory / "filler").size() == 700 << 10);
  std::filesystem::remove(directory / "filler");
  small.clear();
  small.load(directory / checkpoint_name(1));
  CHECK(small.wrong() == 0);
}

TEST_CASE("a directory that cannot be created is named") {
  const TempDirectory directory;
  CheckpointFixture fixture;
  put_contents(directory / "file", "");
  CHECK(contains(error_of([&] { fixture.save(directory / "file" / "checkpoints", 1); }),
                 "file/checkpoints: Not a directory"));
  CHECK(contains(error_of([&] { latest_checkpoint(directory / "file"); }), "cannot list"));
}

}  // namespace halomesh
