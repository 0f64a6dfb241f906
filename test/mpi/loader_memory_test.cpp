// SPDX-License-Identifier: Apache-2.0
// Memory of staging and of loaders: pieces, and two batches of blocks per rank.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "partition/samples/tiles.hpp"
#include "runtime/load/direct_loader.hpp"
#include "runtime/load/stage_loader.hpp"
#include "runtime/stage/sample_scatter.hpp"
#include "src/nn/pack.hpp"
#include "test/harness/mpi_allocation_count.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/mpi_shared_directory.hpp"
#include "test/harness/skip.hpp"
#include "test/harness/staged_sample.hpp"
#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

const Shape kShape{4, 64, 64, 64};

/// Samples whose voxels are all 7, read from nowhere in pieces of 64 KiB.
class Sevens final : public Dataset {
 public:
  Sevens() : Dataset(kShape, 1) {}
  std::int64_t size() const override { return 8; }
  const std::filesystem::path& directory() const override { return directory_; }
  const std::string& identity() const override { return identity_; }
  std::unique_ptr<SampleReader> reader() const override { return std::make_unique<Reader>(); }

 private:
  class Reader final : public SampleReader {
   public:
    Reader() { counts_.fill(7); }
    void read(std::int64_t /*sample*/, AnyView dst, AnyView targets) override {
      const auto block = dst.as<std::int16_t>();
      std::fill_n(block.data, block.sample_volume(), std::int16_t{7});
      fill(targets.as<float>(), targets.span, 1.0F);
    }
    void stream(std::int64_t /*sample*/, const VoxelSink& sink, AnyView targets) override {
      const auto bytes = std::as_bytes(std::span(counts_));
      for (std::int64_t at = 0; at < 2 * kShape.volume(); at += std::ssize(bytes)) sink(at, bytes);
      fill(targets.as<float>(), targets.span, 1.0F);
    }

   private:
    std::array<std::int16_t, 32768> counts_;
  };
  std::filesystem::path directory_ = "nowhere";
  std::string identity_ = "sevens";
};

/// The peak memory that `work` has used in addition to what was allocated before.
template <class Work>
std::int64_t extra_bytes(const Work& work) {
  const std::int64_t before = test::live_bytes();
  test::reset_peak_bytes();
  work();
  return test::peak_bytes() - before;
}

// Schedules, targets, plans, message records and the like: a small part of a block here.
constexpr std::int64_t kSmall = 100 * 1024;

struct Case {
  bool transformed = false;
  StageCodec codec = StageCodec::kNone;
  std::int64_t local_batch = 1;
};

/// Bytes that a loader may take beyond its two batches: a tile that is transformed; slabs that are
/// read to be transformed, or inflated (two, and a piece of 64 Ki counts of the codec).
std::int64_t pieces(bool reads, const Case& c, const Box& box) {
  if (reads)
    return c.transformed ? 2 * SampleReader::slabs(box, DataType::kInt16).front().volume() : 0;
  std::int64_t bytes = c.transformed ? 2 * kTileCounts : 0;
  if (c.codec == StageCodec::kNone) return bytes;
  const std::vector<Box> layers =
      slabs_of(box, std::min(std::int64_t{256 * 1024}, box.volume() / 16));
  bytes += 2 * 2 * layers.front().volume() + 2 * 64 * 1024;
  // Each tile of each slab has a record.
  if (c.transformed)
    for (const Box& layer : layers) bytes += c.local_batch * 100 * std::ssize(tiles_of(layer));
  return bytes;
}

void check_memory(const Comm& comm, const PartGrid& grid, const std::filesystem::path& directory,
                  const Case& c, Findings& findings) {
  const ProcessMesh mesh(comm, {comm.size() / grid.count(), grid});
  const StagedSample sample = staged_sample(kShape, grid, 1);
  const Sevens data;
  const SampleOrder order{Shuffle::kGlobal, 5, data.size(), mesh.shape().replicas, c.local_batch};
  const Box& box = sample.blocks[static_cast<std::size_t>(mesh.part())];
  const BatchSpec spec{kShape,           box,           Box::whole({1, 1, 1, 1}), c.local_batch,
                       DataType::kInt16, mesh.replica()};
  const SymmetryDraw draw(5, kShape);
  const auto check = [&](std::int64_t found, std::int64_t bound, const char* what) {
    findings.expect(found > 0 && found <= bound + kSmall, [&] {
      return fmt::format(
          "{} on parts {}{}{} in batches of {} took {} bytes, expected {} and a little", what,
          to_string(grid), c.transformed ? ", transformed," : "",
          c.codec == StageCodec::kNone ? "" : " compressed,", c.local_batch, found, bound);
    });
  };
  const BatchSchedule schedule = order.training(0, 0, c.transformed ? &draw : nullptr);
  const auto run = [&](Loader& loader) {
    loader.append(schedule);
    for (std::int64_t step = 0; step < schedule.steps; ++step) {
      const auto counts = loader.next().data.as<std::int16_t>();
      for (int i = 0; i < 3; ++i) loader.progress();
      for (std::int64_t n = 0; n < counts.batch; ++n)
        findings.expect_equal(counts.data[n * counts.sample_volume()], std::int16_t{7}, "count");
    }
  };
  std::optional<std::vector<StagedSplit>> staged;
  const std::int64_t staging = extra_bytes([&] {
    Stager stager(mesh, {directory, c.codec, false},
                  {{"train", &data, SampleOwners::of_training(order), sample, {}}});
    staged = stager.run([] { return false; }, [](std::int64_t) {});
  });
  if (c.codec == StageCodec::kNone)
    check(staging, (grid.count() + 8) * kScatterPieceBytes, "staging");
  const std::int64_t batches = 2 * c.local_batch * 2 * box.volume();
  check(extra_bytes([&] {
          StageLoader loader(mesh, sample, std::move(staged->front()), spec);
          run(loader);
        }),
        batches + pieces(false, c, box), "loading from the stage");
  check(extra_bytes([&] {
          DirectLoader loader(data.reader(), spec);
          run(loader);
        }),
        batches + pieces(true, c, box), "reading");
}

TEST_CASE("staging takes pieces, and a loader two batches of blocks per rank, in every mode") {
  if (test::live_bytes() < 0) return test::skip_case("the sanitizer owns operator new");
  const SharedDirectory directory(test_world());
  for_comms("counting memory", {1, 2, 4}, [&](const Comm& comm, Findings& findings) {
    for (std::int64_t parts = 1; parts <= comm.size(); ++parts)
      if (comm.size() % parts == 0)
        for (const PartGrid& grid : grids_of(parts))
          for (const bool transformed : {false, true})
            for (const StageCodec codec : {StageCodec::kNone, StageCodec::kDeflate})
              for (const std::int64_t local_batch : {1, 2})
                check_memory(comm, grid, directory.path(), {transformed, codec, local_batch},
                             findings);
  });
}

}  // namespace
}  // namespace halomesh
