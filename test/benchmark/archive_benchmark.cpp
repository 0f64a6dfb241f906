// SPDX-License-Identifier: Apache-2.0
// The reading of an archive's blocks by one core, timed with Google Benchmark on a sample of the
// published particle density. Measures only: nothing here can fail on a noisy machine.
#include <benchmark/benchmark.h>
#include <stdlib.h>  // NOLINT: mkdtemp is POSIX's

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "error.hpp"
#include "partition/partition.hpp"
#include "runtime/data/archive.hpp"
#include "runtime/data/open_dataset.hpp"
#include "runtime/mpi/mpi.hpp"
#include "src/nn/tensor.hpp"
#include "src/synth/universe.hpp"

namespace halomesh {
namespace {

constexpr Shape kSample{4, 128, 128, 128};
constexpr std::int64_t kTargets = 4;

// A directory of its own that goes with this object.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "halomesh-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr, text("no directory like {} can be made", name),
            "let TMPDIR name a directory that may be written to");
    path_ = name;
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void write_archive(const std::filesystem::path& directory) {
  const Universe universe =
      generate_universe({.extent = kSample.d, .particles_per_voxel_axis = 1}, 0);
  ArchiveWriter writer(directory / archive_name("train", 0),
                       {1, 0, 1, kSample, kTargets, kDefaultGzip, "a benchmark"});
  writer.write(universe.counts(), universe.targets());
  writer.commit();
}

// What an interior part of 4x4x1 parts owns, and the halo that a kernel of so many rows needs.
Box interior_block(std::int64_t kernel) {
  const Range rows = block_range(kSample.d, 4, 1);
  const std::int64_t before = (kernel - 1) / 2, after = kernel / 2;
  const Range needed{rows.lo - before, rows.hi + after};
  return {{0, needed.lo, needed.lo, 0}, {kSample.c, needed.hi, needed.hi, kSample.w}};
}

// Of decoded counts, over the reading thread's CPU time.
void read_block(benchmark::State& state, const Dataset& archive, const Box& box) {
  const auto reader = archive.reader();
  const Tensor counts(box, 1, DataType::kInt16);
  for ([[maybe_unused]] auto iteration : state) reader->read(0, counts.any_view(), {});
  state.SetBytesProcessed(state.iterations() * box.volume() * size_of(DataType::kInt16));
}

void register_reads(const Dataset& archive) {
  const auto add = [&](const std::string& name, const Box& box) {
    benchmark::RegisterBenchmark(
        fmt::format("read_archive/{}", name).c_str(),
        [&archive, box](benchmark::State& state) { read_block(state, archive, box); })
        ->Unit(benchmark::kMillisecond);
  };
  add("whole_sample", Box::whole(kSample));
  for (const std::int64_t kernel : {2, 3})
    add(fmt::format("interior_part_of_4x4x1_kernel_{}", kernel), interior_block(kernel));
}

void run(const Comm& world) {
  const ScratchDirectory directory;
  write_archive(directory.path());
  const auto archive = open_dataset(world, directory.path(), "train", kSample, kTargets);
  const auto bytes = std::filesystem::file_size(directory.path() / archive_name("train", 0));
  benchmark::AddCustomContext(
      "archive bytes / int16 bytes",
      fmt::format("{:g}", static_cast<double>(bytes) / static_cast<double>(kSample.volume() * 2)));
  register_reads(*archive);
  benchmark::RunSpecifiedBenchmarks();
}

}  // namespace
}  // namespace halomesh

int main(int argc, char** argv) {
  const halomesh::MpiSession session(&argc, &argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  try {
    halomesh::run(session.world());
  } catch (const halomesh::Error& error) {
    std::fprintf(stderr, "ERROR: %s\n", error.what());
    return 1;
  }
  return 0;
}
