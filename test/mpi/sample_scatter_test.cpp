// SPDX-License-Identifier: Apache-2.0
// Samples in pieces of any size reach the parts that keep blocks of them, byte for byte: through
// files of the same node and by messages, on uneven cuts in one, two and three dimensions.
#include "runtime/stage/sample_scatter.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "partition/partition.hpp"
#include "rng.hpp"
#include "runtime/stage/stage_directory.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/mpi_shared_directory.hpp"
#include "test/harness/stage_counts.hpp"
#include "test/harness/staged_sample.hpp"
#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

std::int16_t count_of(std::int64_t slot, std::int64_t index) {
  const CounterRng rng(11, RandomUse::kSynth, static_cast<std::uint32_t>(slot));
  return static_cast<std::int16_t>(rng.block(static_cast<std::uint64_t>(index))[0] % 30000);
}

std::vector<std::int16_t> sample_of(std::int64_t slot, const Shape& shape) {
  std::vector<std::int16_t> counts;
  for (std::int64_t i = 0; i < shape.volume(); ++i) counts.push_back(count_of(slot, i));
  return counts;
}

std::vector<std::int16_t> block_of(std::int64_t slot, const Shape& s, const Box& box) {
  std::vector<std::int16_t> counts;
  for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
    for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
      for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
        for (std::int64_t c = box.lo[kC]; c < box.hi[kC]; ++c)
          counts.push_back(count_of(slot, ((d * s.h + h) * s.w + w) * s.c + c));
  return counts;
}

struct Case {
  PartGrid grid;
  std::int64_t slots = 0;
  StageCodec codec = StageCodec::kNone;
  std::int64_t piece = 0;
  bool share_files = false;
  std::int64_t handed = 0;  // bytes of the sample per piece
  bool differ = false;      // samples have extents of their own
};

/// Alike, or thinner than there are parts in some of them.
StagedSamples samples_of(const Case& c) {
  if (!c.differ) return staged_sample({2, 7, 5, 9}, c.grid, 1);
  std::vector<Shape> shapes;
  for (std::int64_t slot = 0; slot < c.slots; ++slot)
    shapes.push_back({2, 1 + slot % 3 * 4, 7 - slot % 2 * 5, 9 - slot % 5});
  return {shapes, c.grid};
}

/// Voxels compared on this rank.
std::int64_t check_case(const Comm& comm, const std::filesystem::path& directory, const Case& c,
                        Findings& findings) {
  const StagedSamples samples = samples_of(c);
  std::vector<std::int64_t> values;
  for (std::int64_t slot = 0; slot < c.slots; ++slot)
    values.push_back(samples.block(slot, comm.rank()).volume());
  const bool keeps = std::any_of(values.begin(), values.end(), [](auto n) { return n > 0; });
  const StageDirectory stage(directory);
  StageFile file(stage.nameless_file(), "test", c.codec, values, DataType::kInt16);
  NodeFiles files;
  if (c.share_files)
    files = exchange_node_files(comm, keeps, [&] { return stage.nameless_file(); });
  SampleScatter scatter(comm, samples, file, std::move(files), c.piece);
  const std::int64_t rounds = block_range(c.slots, comm.size(), 0).hi;
  for (std::int64_t round = 0; round < rounds; ++round) {
    const std::int64_t slot = scatter.run().lo + round;
    if (slot < scatter.run().hi) {
      const std::vector<std::int16_t> counts = sample_of(slot, samples.shape(slot));
      const std::span<const std::byte> bytes = std::as_bytes(std::span(counts));
      for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(c.handed))
        scatter.take(
            slot, static_cast<std::int64_t>(at),
            bytes.subspan(at, std::min(static_cast<std::size_t>(c.handed), bytes.size() - at)));
      scatter.end_sample(slot);
    }
    if (round % 2 == 0) {
      scatter.receive(round + 1);
      comm.barrier();  // as in a collective: no receives are posted meanwhile
    }
  }
  scatter.receive(rounds);
  scatter.finish();
  file.finish();
  std::int64_t compared = 0;
  for (std::int64_t slot = 0; slot < c.slots; ++slot) {
    std::vector<std::int16_t> room(
        static_cast<std::size_t>(values[static_cast<std::size_t>(slot)]));
    const auto got = read_block(file, slot, room);
    const std::vector<std::int16_t> expected =
        block_of(slot, samples.shape(slot), samples.block(slot, comm.rank()));
    findings.expect(std::equal(got.begin(), got.end(), expected.begin(), expected.end()), [&] {
      return fmt::format("other counts in slot {} on parts {}, pieces of {}, handed on in {}{}",
                         slot, to_string(c.grid), c.piece, c.handed,
                         c.differ ? ", of other extents" : "");
    });
    compared += std::ssize(got);
  }
  return compared;
}

void check_cases(const Comm& comm, const std::filesystem::path& directory, Findings& findings) {
  std::int64_t compared = 0;
  for (const PartGrid& grid : grids_of(comm.size()))
    for (const auto& [share, codec] : {std::pair{true, StageCodec::kNone},
                                       {false, StageCodec::kNone},
                                       {false, StageCodec::kDeflate}})
      for (const std::int64_t piece : {37, 256, 1 << 16})
        for (const std::int64_t slots : {2 * comm.size() + 1, 1}) {
          const std::int64_t handed = piece == 37 ? 61 : piece == 256 ? 999 : 1 << 18;
          for (const bool differ : {false, true})
            compared += check_case(comm, directory,
                                   {grid, slots, codec, piece, share, handed, differ}, findings);
        }
  findings.expect(comm.sum(compared) > 0, [] { return std::string("nothing was compared"); });
}

TEST_CASE("samples in pieces reach the parts that keep blocks of them") {
  const SharedDirectory directory(test_world());
  for_comms("scattering samples", {1, 2, 3, 4, 6}, [&](const Comm& comm, Findings& findings) {
    check_cases(comm, directory.path(), findings);
  });
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("samples in pieces reach eight parts [8 ranks]") {
  const SharedDirectory directory(test_world());
  for_comms("scattering samples", {8}, [&](const Comm& comm, Findings& findings) {
    check_cases(comm, directory.path(), findings);
  });
}

TEST_CASE("a scatter that is abandoned halfway leaves no message behind") {
  const SharedDirectory directory(test_world());
  for_comms("giving up", {2, 3}, [&](const Comm& comm, Findings& findings) {
    const Shape shape{2, 7, 5, 9};
    const StagedSample sample = staged_sample(shape, {comm.size(), 1, 1}, 1);
    const Box& box = sample.blocks[static_cast<std::size_t>(comm.rank())];
    const std::int64_t slots = 4 * comm.size();
    {
      StageFile file(StageDirectory(directory.path()).nameless_file(), "test", StageCodec::kNone,
                     std::vector<std::int64_t>(static_cast<std::size_t>(slots), box.volume()),
                     DataType::kInt16);
      SampleScatter scatter(comm, sample, file, {}, 64);
      const std::vector<std::int16_t> counts = sample_of(scatter.run().lo, shape);
      scatter.take(scatter.run().lo, 0, std::as_bytes(std::span(counts)));
      scatter.end_sample(scatter.run().lo);
      scatter.receive(1);
      comm.barrier();
    }
    // What comes next on these ranks is not taken by what was given up.
    const Case next{{comm.size(), 1, 1}, slots, StageCodec::kNone, 64, false, 100};
    findings.expect(check_case(comm, directory.path(), next, findings) > 0,
                    [] { return std::string("nothing was compared"); });
  });
}

}  // namespace
}  // namespace halomesh
