// SPDX-License-Identifier: Apache-2.0
// Gradients that travel as bf16: sums and what ranks keep of them are exact together, all holders
// get the same bits, and runs go on from a checkpoint as if they had not stopped.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "error.hpp"
#include "rng.hpp"
#include "runtime/train/checkpoint_directory.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/mpi_shared_directory.hpp"
#include "test/harness/small_cosmoflow.hpp"
#include "test/harness/test_comm.hpp"
#include "test/mpi/network_run.hpp"
#include "test/mpi/sum_choices.hpp"
#include "test/mpi/training_run.hpp"

namespace halomesh {
namespace {

constexpr double kU = 0x1p-24, kRounding = 0x1p-8;  // of fp32 and bf16, the latter with room

// Uniform in [-1, 1), different for each rank, step and element.
float value_of(int rank, int step, std::int64_t index) {
  const CounterRng rng(9, RandomUse::kSynth, static_cast<std::uint32_t>(rank),
                       static_cast<std::uint32_t>(step));
  return 2.0F * rng.uniform(static_cast<std::uint64_t>(index)) - 1.0F;
}

/// One sum, played to its end.
void sum_values(const Comm& comm, const SumChoice& way, std::vector<float>& values,
                std::vector<float>& lost) {
  PointSum sum(
      comm, 3, sum_schedule(way, comm.rank(), std::ssize(values)), [](int rank) { return rank; },
      DataType::kBfloat16);
  Requests requests;
  for (int i = 0; i < PointSum::kRequests; ++i) requests.add();
  bool done = sum.start(values.data(), &requests[0], lost.data());
  std::vector<int> completed;
  while (!done) {
    completed.clear();
    requests.take_completed(true, completed);
    for (const int i : completed) done = sum.completed(i);
  }
}

void check_sum(const Comm& comm, const SumChoice& way, std::int64_t count, Findings& findings) {
  const auto size = static_cast<std::size_t>(count);
  const std::string where =
      fmt::format("{} {} {} of {} on {}", name_of(way.algorithm), way.place.per_node,
                  name_of(way.across), count, comm.size());
  std::vector<float> lost(size);
  std::vector<double> exact(size), magnitude(size), summed(size);
  for (int step = 0; step < 3; ++step) {
    std::vector<float> values(size);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      values[at] = value_of(comm.rank(), step, i) + lost[at];  // as GradientReducer
      lost[at] = 0;
      for (int rank = 0; rank < comm.size(); ++rank) {
        exact[at] += value_of(rank, step, i);
        magnitude[at] += std::abs(value_of(rank, step, i));
      }
    }
    sum_values(comm, way, values, lost);
    std::vector<double> most(values.begin(), values.end()), least;
    for (const float value : values) least.push_back(-static_cast<double>(value));
    comm.max(most);
    comm.max(least);
    std::vector<double> kept(lost.begin(), lost.end());
    comm.sum(kept);
    for (std::size_t i = 0; i < size; ++i) {
      const float value = values[i];
      const bool is_bf16 = comm.size() == 1 || static_cast<float>(Bfloat16(value)) == value;
      findings.expect(most[i] == -least[i] && is_bf16,
                      [&] { return fmt::format("{}: {} is not the same bf16", where, value); });
      summed[i] += value;
      // Additions of values and of losses, some 3 per rank and step, each of at most `magnitude`.
      findings.expect(
          std::abs(summed[i] + kept[i] - exact[i]) <= 4 * comm.size() * kU * magnitude[i], [&] {
            return fmt::format("{}, step {}, element {}: {:g} and {:g} kept, not {:g}", where, step,
                               i, summed[i], kept[i], exact[i]);
          });
      // A loss is that of a step's roundings: it does not grow over steps.
      findings.expect(
          comm.size() == 1 || std::abs(kept[i]) <= kRounding * comm.size() * (comm.size() + 1.0),
          [&] { return fmt::format("{}: {:g} kept", where, kept[i]); });
    }
  }
}

TEST_CASE("sums of rounded values and what the ranks keep are the exact sums") {
  for_comms("rounded sums", [](const Comm& comm, Findings& findings) {
    for (const SumChoice& way : ways_of(comm.size()))
      for (const std::int64_t count : {1, 37, 1000}) check_sum(comm, way, count, findings);
  });
}

TEST_CASE("sums of rounded values on more ranks, and of several messages [8 ranks]") {
  for_comms("rounded sums", {2, 7, 8}, [](const Comm& comm, Findings& findings) {
    for (const SumChoice& way : ways_of(comm.size()))
      check_sum(comm, way, comm.size() == 2 ? 3 * (PointSum::kMessageBytes / 4) + 5 : 311,
                findings);
  });
}

Parameters rounded_parameters(const ModelGeometry& geometry, const ProcessMesh& mesh) {
  return Parameters(geometry, mesh.part(), {"optimizer", kGradientResidual});
}

/// The sum over ranks of what visit(index in the flat memory) gives for each element of a network.
template <class Value>
std::vector<double> over_ranks(const ProcessMesh& mesh, const ModelGeometry& geometry,
                               const Parameters& parameters, Value value) {
  std::vector<std::size_t> first{0};
  for (const ParameterPlacement& placement : geometry.parameters())
    first.push_back(first.back() + static_cast<std::size_t>(placement.geometry.volume()));
  std::vector<double> sums(first.back());
  for_each_held(parameters, geometry, mesh.part(), [&](auto at, auto placement, auto index) {
    sums[first[placement] + static_cast<std::size_t>(index)] = value(at, placement, index);
  });
  mesh.world().sum(sums);
  return sums;
}

void check_mesh(const Comm& comm, const MeshShape& shape, Reduction reduction, Findings& findings) {
  const ProcessMesh mesh(comm, shape);
  CosmoFlowOptions network = small_cosmoflow();
  network.filters = 16;
  Model model = make_cosmoflow(network);
  if (shape.parts.count() > 1)
    model.set_cuts(parse_cuts(fmt::format("conv2:{}x2", shape.parts.count() / 2)));
  const ModelGeometry geometry = model.geometry(shape.parts);
  Parameters parameters = rounded_parameters(geometry, mesh);
  GradientReducer reducer(mesh, geometry, parameters, reduction, nullptr, 600, DataType::kBfloat16);
  const auto each = [&](auto value) { return over_ranks(mesh, geometry, parameters, value); };
  const auto holders = each([](auto, auto, auto) { return 1.0; });
  std::vector<double> exact(holders.size()), summed(holders.size());
  double rounded = 0;
  for (int step = 0; step < 3; ++step) {
    for_each_held(parameters, geometry, mesh.part(), [&](auto at, auto placement, auto index) {
      parameters.diffs()[at] =
          value_of(comm.rank(), step, index + 1000 * static_cast<std::int64_t>(placement));
    });
    const auto gradients =
        each([&](auto at, auto, auto) { return static_cast<double>(parameters.diffs()[at]); });
    reducer.reduce_all();
    if (step == 1) reducer.gather_residuals();  // changes who keeps what, not what is kept
    const auto sums =
        each([&](auto at, auto, auto) { return static_cast<double>(parameters.diffs()[at]); });
    const auto kept = each([&](auto at, auto, auto) {
      return static_cast<double>(parameters.state(kGradientResidual)[at]);
    });
    for (std::size_t i = 0; i < holders.size(); ++i) {
      exact[i] += gradients[i];
      summed[i] += sums[i] / holders[i];
      rounded += std::abs(kept[i]);
      const double off = summed[i] + kept[i] - exact[i];
      findings.expect(std::abs(off) <= 12 * holders[i] * holders[i] * kU, [&] {
        return fmt::format("{} x {}, {}, step {}, element {}: {:g} and {:g} kept, {:g} off",
                           shape.replicas, to_string(shape.parts), name_of(reduction), step, i,
                           summed[i], kept[i], off);
      });
    }
  }
  findings.expect(rounded > 0, [] { return std::string("nothing was rounded"); });
  const auto copies = each([&](auto at, auto, auto) {
    return parameters.state(kGradientResidual)[at] != 0 ? 1.0 : 0.0;
  });
  reducer.gather_residuals();
  const auto left = each([&](auto at, auto, auto) {
    return parameters.state(kGradientResidual)[at] != 0 ? 1.0 : 0.0;
  });
  double before = 0, after = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    before += copies[i];
    after += left[i] > 1 ? left[i] : 0;
  }
  findings.expect(before > 0 && after == 0, [&] {
    return fmt::format("{} residuals, {} of them on several ranks when gathered", before, after);
  });
}

TEST_CASE("gradients as bf16 are summed over their holders, and nothing is lost [4 ranks]") {
  const std::vector<MeshShape> meshes{
      {2, {1, 1, 1}}, {1, {2, 1, 1}}, {3, {1, 1, 1}}, {1, {2, 2, 1}}, {2, {2, 1, 1}}};
  using enum Reduction;
  for_comms("bf16 gradients", {2, 3, 4}, [&](const Comm& comm, Findings& findings) {
    for (const MeshShape& shape : meshes)
      if (shape.ranks() == comm.size())
        for (const Reduction reduction : {kAuto, kTwoLevel, kHalving, kDoubling, kRing, kBinomial})
          check_mesh(comm, shape, reduction, findings);
    const ProcessMesh mesh(comm, {comm.size(), {1, 1, 1}});
    const Model model = make_cosmoflow(small_cosmoflow());
    const ModelGeometry geometry = model.geometry({1, 1, 1});
    Parameters with = rounded_parameters(geometry, mesh), without(geometry, mesh.part());
    GradientReducer halves(mesh, geometry, with, kAuto, nullptr, 600, DataType::kBfloat16);
    halves.reduce_all();
    findings.expect_equal(halves.reduced_bytes(), 2 * with.size(), "bytes");
    const auto refused = [&](Parameters& parameters, Reduction reduction) {
      try {
        const GradientReducer reducer(mesh, geometry, parameters, reduction, nullptr, 600,
                                      DataType::kBfloat16);
      } catch (const Error&) {
        return true;
      }
      return false;
    };
    findings.expect(refused(with, kFlat) && refused(without, kAuto),
                    [] { return std::string("bf16 without state or by MPI's own sums"); });
  });
}

TEST_CASE("a run with gradients as bf16 resumes bit for bit, near that with fp32 [4 ranks]") {
  const SharedDirectory directory(test_world());
  if (test_world().rank() == 0) write_training_data(directory.path());
  test_world().barrier();
  const std::vector<MeshShape> meshes{{2, {1, 1, 1}}, {2, {2, 1, 1}}};
  for_comms("resuming", {2, 4}, [&](const Comm& comm, Findings& findings) {
    TrainingRequest request{2, meshes[comm.size() == 2 ? 0 : 1], 14, directory.path(), {}};
    request.accumulate = 2;
    const auto run = [&](const std::string& what, DataType payload,
                         std::optional<std::filesystem::path> from = {}, bool changes = false) {
      request.payload = payload;
      request.allow_changes = changes;
      request.out = directory.path() / fmt::format("{}-{}", comm.size(), what);
      request.resume = std::move(from);
      return train(comm, request);
    };
    const auto file = [&](const std::string& what) {
      return directory.path() / what / "checkpoints" / checkpoint_name(10);
    };
    const auto fp32 = run("fp32", DataType::kFloat32), whole = run("whole", DataType::kBfloat16);
    const std::vector<double> rest(whole.begin() + 10, whole.end());
    const auto resumed =
        run("resumed", DataType::kBfloat16, file(fmt::format("{}-whole", comm.size())));
    findings.expect(resumed == rest && rest.size() == 4,
                    [&] { return fmt::format("{:.9g}, not {:.9g}", resumed[3], rest[3]); });
    bool differs = false;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      differs = differs || whole[i] != fp32[i];
      findings.expect(std::abs(whole[i] - fp32[i]) <= 0.01 * fp32[i], [&] {
        return fmt::format("step {}: {:g}, with fp32 {:g}", i + 1, whole[i], fp32[i]);
      });
    }
    findings.expect(differs, [] { return std::string("nothing was rounded"); });
    if (comm.size() == 2) return;
    // Another mesh takes over what was lost; a checkpoint without it is that of nothing lost.
    const auto other = run("other", DataType::kBfloat16, file("2-whole"));
    const auto from_fp32 = run("from-fp32", DataType::kBfloat16, file("2-fp32"), true);
    for (std::size_t i = 0; i < 4; ++i) {
      findings.expect(std::abs(other[i] - rest[i]) <= 0.01 * rest[i],
                      [&] { return fmt::format("{:g}, not {:g}", other[i], rest[i]); });
      findings.expect(std::abs(from_fp32[i] - rest[i]) <= 0.01 * rest[i],
                      [&] { return fmt::format("{:g}, not {:g}", from_fp32[i], rest[i]); });
    }
  });
}

}  // namespace
}  // namespace halomesh
