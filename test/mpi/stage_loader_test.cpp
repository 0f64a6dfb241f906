// SPDX-License-Identifier: Apache-2.0
// Staged and directly read batches against a formula, with blocks of many tiles and slabs and local
// batches of several samples.
#include "runtime/load/stage_loader.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "runtime/load/direct_loader.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/mpi_shared_directory.hpp"
#include "test/harness/staged_sample.hpp"
#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

// More than two tiles along an axis, and no whole number of them.
const Shape kShape{3, 37, 37, 37};

std::int16_t count_of(std::int64_t sample, std::int64_t c, std::int64_t d, std::int64_t h,
                      std::int64_t w) {
  return static_cast<std::int16_t>((sample * 7919 + ((d * 41 + h) * 43 + w) * 3 + c) % 32749);
}

class ByFormula final : public Dataset {
 public:
  ByFormula() : Dataset(kShape, 1) {}
  std::int64_t size() const override { return 7; }
  const std::filesystem::path& directory() const override { return directory_; }
  const std::string& identity() const override { return identity_; }
  std::unique_ptr<SampleReader> reader() const override { return std::make_unique<Reader>(); }

 private:
  class Reader final : public SampleReader {
    void read(std::int64_t sample, AnyView dst, AnyView targets) override {
      const Box& box = dst.span;
      for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
        for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
          for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
            for (std::int64_t c = box.lo[kC]; c < box.hi[kC]; ++c) {
              const std::int16_t count = count_of(sample, c, d, h, w);
              if (dst.type == DataType::kInt16)
                dst.as<std::int16_t>().at(0, c, d, h, w) = count;
              else
                dst.as<float>().at(0, c, d, h, w) = static_cast<float>(std::log1p(1.0 * count));
            }
      std::fill_n(targets.as<float>().data, targets.span.volume(), static_cast<float>(sample));
    }
    void stream(std::int64_t sample, const VoxelSink& sink, AnyView targets) override {
      const Tensor whole(Box::whole(kShape), 1, DataType::kInt16);
      read(sample, whole.any_view(), targets);
      sink(0, {whole.any_view().data, static_cast<std::size_t>(2 * kShape.volume())});
    }
  };
  std::filesystem::path directory_ = "nowhere";
  std::string identity_ = "a formula";
};

/// Voxels of a batch that differ from the formula.
std::int64_t different(const Batch& batch, const Box& box, std::span<const SampleUse> uses) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < uses.size(); ++i)
    for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
      for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
        for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w) {
          const Box from =
              uses[i].symmetry.source_of({{0, d, h, w}, {1, d + 1, h + 1, w + 1}}, kShape);
          for (std::int64_t c = 0; c < kShape.c; ++c) {
            const std::int16_t expected =
                count_of(uses[i].sample, c, from.lo[kD], from.lo[kH], from.lo[kW]);
            const auto n = static_cast<std::int64_t>(i);
            count += batch.data.type == DataType::kInt16
                         ? batch.data.as<std::int16_t>().at(n, c, d, h, w) != expected
                         : batch.data.as<float>().at(n, c, d, h, w) !=
                               static_cast<float>(std::log1p(1.0 * expected));
          }
        }
  return count;
}

struct Case {
  StageCodec codec = StageCodec::kNone;
  bool transformed = false;
  DataType type = DataType::kInt16;
  std::int64_t local_batch = 1;
};

void check_case(const Comm& comm, const PartGrid& grid, const std::filesystem::path& directory,
                const Case& c, Findings& findings) {
  const ProcessMesh mesh(comm, {comm.size() / grid.count(), grid});
  const StagedSample sample = staged_sample(kShape, grid, 1);
  const ByFormula data;
  const SampleOrder order{Shuffle::kGlobal, 5, data.size(), mesh.shape().replicas, c.local_batch};
  const Box& box = sample.blocks[static_cast<std::size_t>(mesh.part())];
  const BatchSpec spec{kShape,        box,    Box::whole({1, 1, 1, 1}),
                       c.local_batch, c.type, mesh.replica()};
  const SymmetryDraw draw(5, kShape);
  Stager stager(mesh, {directory, c.codec, false},
                {{"train", &data, SampleOwners::of_training(order), sample, {}}});
  auto staged = stager.run([] { return false; }, [](std::int64_t) {});
  StageLoader from_stage(mesh, sample, std::move(staged->front()), spec);
  DirectLoader direct(data.reader(), spec);
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    const BatchSchedule schedule = order.training(epoch, 0, c.transformed ? &draw : nullptr);
    from_stage.append(schedule);
    direct.append(schedule);
    for (std::int64_t step = 0; step < schedule.steps; ++step) {
      const auto uses = schedule.taken(step, mesh.replica());
      const auto check = [&](const Batch& batch, const char* what) {
        findings.expect_equal(batch.count, std::ssize(uses), "samples of a batch");
        findings.expect(different(batch, box, uses) == 0, [&] {
          return fmt::format("{}: other counts in step {}, parts {}{}, local batch {}, {}{}", what,
                             step, to_string(grid), c.transformed ? ", transformed" : "",
                             c.local_batch, name_of(c.type),
                             c.codec == StageCodec::kNone ? "" : ", compressed");
        });
      };
      const Batch& batch = from_stage.next();
      for (int i = 0; i < 3; ++i) from_stage.progress();
      check(batch, "staged");
      check(direct.next(), "read");
    }
  }
}

TEST_CASE("blocks of many tiles and slabs arrive whole, in every mode and local batch") {
  const SharedDirectory directory(test_world());
  for_comms("loading large blocks", {1, 2, 4}, [&](const Comm& comm, Findings& findings) {
    unsigned number = 0;  // for types and local batches, which alternate
    for (std::int64_t parts = 1; parts <= comm.size(); ++parts)
      for (const PartGrid& grid :
           comm.size() % parts == 0 ? grids_of(parts) : std::vector<PartGrid>())
        for (const StageCodec codec : {StageCodec::kNone, StageCodec::kDeflate})
          for (const bool transformed : {false, true}) {
            const DataType type = number % 3 == 2 ? DataType::kFloat32 : DataType::kInt16;
            const std::int64_t most = 7 * parts / comm.size();
            check_case(comm, grid, directory.path(),
                       {codec, transformed, type, std::min<std::int64_t>(most, 1 + number++ % 2)},
                       findings);
          }
  });
}

}  // namespace
}  // namespace halomesh
