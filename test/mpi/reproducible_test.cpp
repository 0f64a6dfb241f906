// SPDX-License-Identifier: Apache-2.0
// Reproducible training: losses and checkpoints have the same bits on every mesh, number of
// replicas, of threads and of passes, and are those of ordinary training but for rounding.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "runtime/train/checkpoint_directory.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/mpi_shared_directory.hpp"
#include "test/harness/temp_files.hpp"
#include "test/harness/test_comm.hpp"
#include "test/harness/threads.hpp"
#include "test/mpi/training_run.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kSteps = 4;

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  });
}

/// A mesh of up to 4 ranks, the threads of each, and the passes of a step.
struct Way {
  MeshShape mesh;
  int threads = 1;
  std::int64_t passes = 1;
};

struct Setting {
  std::int64_t kernel = 2;
  OptimizerOptions optimizer{"sgd", 0.9, 1e-4};
  std::vector<Way> ways;
  std::optional<double> clip_norm{};
};

const std::vector<Way> kAllWays{{{1, {1, 1, 1}}},       {{1, {1, 1, 1}}, 2, 2}, {{2, {1, 1, 1}}, 2},
                                {{1, {2, 1, 1}}, 1, 4}, {{1, {1, 1, 2}}, 2},    {{4, {1, 1, 1}}},
                                {{2, {1, 2, 1}}, 1, 2}, {{1, {4, 1, 1}}},       {{1, {1, 2, 2}}}};
const std::vector<Way> kFewWays{{{1, {1, 1, 1}}}, {{1, {2, 1, 1}}, 2}, {{2, {1, 2, 1}}}};

/// The first way is that of one rank, the reference.
void expect_one_result(const Setting& setting) {
  const SharedDirectory directory(test_world());
  if (test_world().rank() == 0) write_training_data(directory.path());
  test_world().barrier();
  const auto out_of = [&](const MeshShape& mesh, int threads, std::int64_t passes) {
    return directory.path() /
           fmt::format("{}-{}-{}-{}", mesh.replicas, to_string(mesh.parts), threads, passes);
  };
  const auto checkpoint_of = [](const std::filesystem::path& out) {
    return contents(out / "checkpoints" / checkpoint_name(kSteps));
  };
  for_comms("reproducible", {1, 2, 4}, [&](const Comm& comm, Findings& findings) {
    const auto reference = out_of(setting.ways[0].mesh, 1, 1);
    for (const auto& [mesh, threads, passes] : setting.ways) {
      if (mesh.ranks() != comm.size()) continue;
      const Threads set(threads);
      TrainingRequest request{setting.kernel, mesh, kSteps, directory.path(), {}};
      request.out = out_of(mesh, threads, passes);
      request.optimizer = setting.optimizer;
      request.clip_norm = setting.clip_norm;
      request.accumulate = passes;
      request.reproducible = true;
      request.filters = 16;
      const std::vector<double> losses = train(comm, request);
      const std::string where = fmt::format("kernel {}, {}, {} x {}, {} threads, {} passes",
                                            setting.kernel, setting.optimizer.name, mesh.replicas,
                                            to_string(mesh.parts), threads, passes);
      findings.expect_equal<std::size_t>(losses.size(), kSteps, where + ": steps");
      findings.expect(same_bits(losses, read_losses(reference / "metrics.jsonl")),
                      [&] { return where + ": another curve"; });
      const std::string expected = checkpoint_of(reference);
      findings.expect(expected.size() > 100000, [&] { return where + ": no checkpoint"; });
      findings.expect(checkpoint_of(request.out) == expected,
                      [&] { return where + ": another checkpoint"; });
    }
    if (comm.size() != 1) return;
    // What is computed is what other kernels compute: in the first steps they differ by some 1e-6.
    TrainingRequest plain{setting.kernel, setting.ways[0].mesh, kSteps, directory.path(), {}};
    plain.out = directory.path() / "plain";
    plain.optimizer = setting.optimizer;
    plain.clip_norm = setting.clip_norm;
    plain.filters = 16;
    const std::vector<double> losses = train(comm, plain);
    const std::vector<double> expected = read_losses(reference / "metrics.jsonl");
    for (std::size_t i = 0; i < losses.size(); ++i)
      findings.expect(std::abs(losses[i] - expected.at(i)) <= 2e-5, [&] {
        return fmt::format("loss {}: {:g} instead of {:g}", i + 1, expected[i], losses[i]);
      });
  });
}

TEST_CASE("reproducible training has the same bits on every mesh [4 ranks]") {
  for (const std::int64_t kernel : {2, 3})
    expect_one_result({kernel, {"sgd", 0.9, 1e-4}, kAllWays});
}

TEST_CASE("so it has with norms of tensors and of all gradients [4 ranks]") {
  for (const char* const name : {"lars", "lamb"}) {
    Setting setting;
    setting.optimizer.name = name;
    setting.optimizer.weight_decay = 0.01;
    setting.ways = kFewWays;
    expect_one_result(setting);
  }
  // Far below the norms that occur.
  expect_one_result({2, {"sgd", 0.9, 1e-4}, kFewWays, 0.01});
}

}  // namespace
}  // namespace halomesh
