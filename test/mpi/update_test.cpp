// SPDX-License-Identifier: Apache-2.0
// What steps do with gradients besides the optimizer: accumulation over passes, clipping, and
// resuming with every optimizer.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "runtime/train/checkpoint_directory.hpp"
#include "src/nn/losses/mean_squared_error.hpp"
#include "src/nn/optimizers/sgd.hpp"
#include "test/harness/constant_loader.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/mpi_shared_directory.hpp"
#include "test/harness/small_cosmoflow.hpp"
#include "test/harness/test_comm.hpp"
#include "test/mpi/network_run.hpp"
#include "test/mpi/training_run.hpp"

namespace halomesh {
namespace {

const std::vector<MeshShape> kMeshes{
    {1, {1, 1, 1}}, {2, {1, 1, 1}}, {1, {2, 1, 1}}, {2, {2, 1, 1}}, {1, {2, 2, 1}}};

std::vector<int> sizes_of(const std::vector<MeshShape>& meshes) {
  std::set<int> sizes;
  for (const MeshShape& mesh : meshes) sizes.insert(static_cast<int>(mesh.ranks()));
  return {sizes.begin(), sizes.end()};
}

/// Losses of the same steps.
void compare(const std::vector<double>& got, const std::vector<double>& expected, double allowed,
             const std::string& where, Findings& findings) {
  findings.expect_equal(got.size(), expected.size(), where + ": steps");
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i)
    findings.expect(std::abs(got[i] - expected[i]) <= allowed, [&] {
      return fmt::format("{}, loss {}: {:g}, {:g} off; allowed {:g}", where, i + 1, got[i],
                         got[i] - expected[i], allowed);
    });
}

// The passes change nothing but the order of fp32 sums: in the first steps some 1e-6 of the loss
// (training_test.cpp measures it), where a pass left out or counted twice, or another mask of
// dropout, shows at 1e-4 and above.
TEST_CASE("steps of several passes have the losses of one pass over the whole batch [4 ranks]") {
  const SharedDirectory directory(test_world());
  if (test_world().rank() == 0) write_training_data(directory.path());
  test_world().barrier();
  const auto run = [&](const Comm& comm, const MeshShape& mesh, std::int64_t passes) {
    TrainingRequest request{2, mesh, 4, directory.path(), {}};
    request.accumulate = passes;
    request.out =
        directory.path() / fmt::format("{}-{}-{}", mesh.replicas, to_string(mesh.parts), passes);
    return train(comm, request);
  };
  for_comms("accumulation", sizes_of(kMeshes), [&](const Comm& comm, Findings& findings) {
    std::vector<double> whole;
    for (const MeshShape& mesh : kMeshes) {
      if (mesh.ranks() != comm.size()) continue;
      for (const std::int64_t passes : {1, 2, 4}) {
        if (kGlobalBatch / mesh.replicas % passes != 0) continue;
        const auto losses = run(comm, mesh, passes);
        if (mesh.ranks() == 1 && passes == 1) continue;
        whole = read_losses(directory.path() / "1-1x1x1-1" / "metrics.jsonl");
        findings.expect_equal<std::size_t>(whole.size(), 4, "steps of the reference");
        compare(losses, whole, 2e-5,
                fmt::format("{} x {} in {} passes", mesh.replicas, to_string(mesh.parts), passes),
                findings);
      }
    }
  });
}

TEST_CASE("a batch that passes do not divide is refused") {
  CHECK(pass_batch(12, {2, {1, 1, 1}}, 3) == 2);
  CHECK_THROWS_WITH_AS(pass_batch(12, {2, {1, 1, 1}}, 4),
                       "--accumulate 4 does not divide the 6 samples of a replica in a step",
                       UsageError);
  CHECK_THROWS_AS(pass_batch(12, {2, {1, 1, 1}}, 0), UsageError);
}

/// One step of plain descent with the rate 1 on a mesh: the norm that it found, and that of the
/// change of all weights.
struct ClippedStep {
  double norm = 0, change = 0;
  std::vector<float> weights;  ///< of this part
};

ClippedStep clipped_step(const Comm& comm, const MeshShape& shape, double clip_norm) {
  const ProcessMesh mesh(comm, shape);
  CosmoFlowOptions options = small_cosmoflow();
  options.dropout = 0;  // replicas have the same sample: then their gradients are the same
  Model model = make_cosmoflow(options);
  const ModelGeometry geometry = model.geometry(shape.parts);
  Parameters parameters(geometry, mesh.part());
  parameters.initialize(1);
  // The input is zero: with biases there are gradients everywhere.
  for_each_held(parameters, geometry, mesh.part(), [&](auto at, auto placement, auto index) {
    if (geometry.parameters()[placement].geometry.name == "bias")
      parameters.values()[at] = 0.125F + 0.0625F * static_cast<float>(index % 3);
  });
  const std::vector<float> before(parameters.values().begin(), parameters.values().end());
  Sgd sgd({0, 0});
  MeanSquaredError loss(geometry.tensors().back().shape);
  TrainingStep training(mesh, model, geometry, parameters, sgd, loss, 1, nullptr, Reduction::kAuto,
                        {1, clip_norm});
  ConstantLoader loader(training.executor().input_span(), DataType::kFloat32);
  training.run(loader, {1, 0, 1.0F});
  ClippedStep step;
  step.norm = training.gradient_norm();
  for (const HolderGroup& group : parameters.groups())
    for (std::int64_t i = group.offset; i < group.offset + group.volume; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double moved =
          static_cast<double>(parameters.values()[at]) - static_cast<double>(before[at]);
      if (parameters.counts(group)) step.change += moved * moved;
    }
  step.change = std::sqrt(mesh.group().sum(step.change));
  step.weights.assign(parameters.values().begin(), parameters.values().end());
  return step;
}

TEST_CASE("a gradient is clipped to a norm over all parts, and to none that it keeps [4 ranks]") {
  for_comms("clipping", sizes_of(kMeshes), [&](const Comm& comm, Findings& findings) {
    for (const MeshShape& mesh : kMeshes) {
      if (mesh.ranks() != comm.size()) continue;
      const ClippedStep free = clipped_step(comm, mesh, 0), large = clipped_step(comm, mesh, 1e6);
      const double norm = large.norm, clip = norm / 8;
      const ClippedStep clipped = clipped_step(comm, mesh, clip);
      const std::string where = fmt::format("{} x {}", mesh.replicas, to_string(mesh.parts));
      findings.expect_equal(free.norm, 0.0, where + ": a norm that nobody asked for");
      findings.expect(free.weights == large.weights && !free.weights.empty(),
                      [&] { return where + ": a gradient within the norm was changed"; });
      findings.expect(clipped.weights != large.weights,
                      [&] { return where + ": nothing was clipped"; });
      // Weights of up to 1 round changes to 2^-25 each, at random: some 3e4 of them.
      const auto near = [&](double got, double expected, const char* what) {
        findings.expect(std::abs(got - expected) <= 2e-5 * expected, [&] {
          return fmt::format("{}: {} {:g}, not {:g}", where, what, got, expected);
        });
      };
      findings.expect(norm > 0.01, [&] { return fmt::format("a norm of {:g}", norm); });
      near(large.change, norm, "free change");
      near(clipped.norm, norm, "norm of the clipped step");
      near(clipped.change, clip, "clipped change");
      // As on one rank.
      const ProcessMesh mine(comm.split(comm.rank(), 0), {1, {1, 1, 1}});
      near(norm, clipped_step(mine.world(), {1, {1, 1, 1}}, 1e6).norm, "norm, against one rank");
    }
  });
}

TEST_CASE("every optimizer resumes bit for bit, and on another mesh [4 ranks]") {
  const SharedDirectory directory(test_world());
  if (test_world().rank() == 0) write_training_data(directory.path());
  test_world().barrier();
  const std::vector<MeshShape> meshes{{1, {2, 1, 1}}, {2, {2, 1, 1}}};
  for_comms("resuming", sizes_of(meshes), [&](const Comm& comm, Findings& findings) {
    for (const std::string& name : optimizer_names()) {
      TrainingRequest request{2, meshes[comm.size() == 2 ? 0 : 1], 12, directory.path(), {}};
      request.optimizer.name = name;
      request.optimizer.weight_decay = 0.01;
      const auto run = [&](const char* what, std::optional<std::filesystem::path> from) {
        request.out = directory.path() / fmt::format("{}-{}-{}", name, comm.size(), what);
        request.resume = std::move(from);
        return train(comm, request);
      };
      const auto checkpoint_of = [&](int ranks) {
        return directory.path() / fmt::format("{}-{}-whole", name, ranks) / "checkpoints" /
               checkpoint_name(10);
      };
      std::vector<double> whole = run("whole", {});
      findings.expect_equal<std::size_t>(whole.size(), 12, name + ": steps");
      whole.erase(whole.begin(), whole.begin() + 10);
      compare(run("resumed", checkpoint_of(comm.size())), whole, 0, name + " resumed", findings);
      if (comm.size() == 2) continue;
      // One update after the checkpoint: without its moments the second loss is another.
      const auto other = read_losses(directory.path() / (name + "-2-whole") / "metrics.jsonl");
      compare(run("taken-over", checkpoint_of(2)), {other.begin() + 10, other.end()}, 2e-4,
              name + " on another mesh", findings);
    }
    // SGD has no second moment, and adamw and lamb have the same.
    const ProcessMesh mesh(comm, meshes[comm.size() == 2 ? 0 : 1]);
    const Model model = make_training_network(2);
    const ModelGeometry geometry = model.geometry(mesh.shape().parts);
    Parameters parameters(geometry, mesh.part());
    const auto file = directory.path() / fmt::format("adamw-{}-whole", comm.size()) /
                      "checkpoints" / checkpoint_name(10);
    std::string refusal;
    try {
      load_checkpoint(mesh, geometry, parameters, file);
    } catch (const Error& error) {
      refusal = std::string(error.what()) + error.hint();
    }
    for (const char* part : {"another optimizer", "--optimizer adamw", "--init-from", "/optimizer"})
      findings.expect(refusal.find(part) != std::string::npos,
                      [&] { return fmt::format("no {} in \"{}\"", part, refusal); });
    findings.expect(refusal.find(file.string()) == 0, [&] { return "no file in " + refusal; });
    load_checkpoint(mesh, geometry, parameters, file, LoadWhat::kParametersOnly);
  });
}

}  // namespace
}  // namespace halomesh
