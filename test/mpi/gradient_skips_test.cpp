// SPDX-License-Identifier: Apache-2.0
// Layers that are no longer trained: what is left of a step is what it was, and nothing is
// computed, sent or updated for them.
#include "runtime/train/gradient_skips.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "error.hpp"
#include "runtime/train/checkpoint_directory.hpp"
#include "src/nn/losses/mean_squared_error.hpp"
#include "src/nn/optimizers/registry.hpp"
#include "test/harness/constant_loader.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/mpi_shared_directory.hpp"
#include "test/harness/small_cosmoflow.hpp"
#include "test/harness/test_comm.hpp"
#include "test/mpi/network_run.hpp"
#include "test/mpi/training_run.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kBefore = 2, kAfter = 3;  // steps
constexpr float kRate = 0x1p-5F;

/// A network in training on a mesh.
struct Scene {
  ProcessMesh mesh;
  Model model;
  ModelGeometry geometry;
  std::unique_ptr<Optimizer> optimizer;
  Parameters parameters;
  Trace trace{1 << 12};
  MeanSquaredError loss;
  TrainingStep training;
  ConstantLoader loader;

  Scene(const Comm& comm, const MeshShape& shape, const std::string& name)
      : mesh(comm, shape),
        model(make_cosmoflow(small_cosmoflow())),
        geometry(model.geometry(shape.parts)),
        optimizer(make_optimizer({name, 0.9, 0.125})),
        parameters(geometry, mesh.part(), optimizer->states()),
        loss(geometry.tensors().back().shape),
        training(mesh, model, geometry, parameters, *optimizer, loss, 1, &trace),
        loader(training.executor().input_span(), DataType::kFloat32) {
    parameters.initialize(1);
    // The input is zero: with biases there are gradients everywhere.
    for_each_held(parameters, geometry, mesh.part(), [&](auto at, auto placement, auto index) {
      if (geometry.parameters()[placement].geometry.name == "bias")
        parameters.values()[at] = 0.125F + 0.0625F * static_cast<float>(index % 3);
    });
  }
  void step(std::int64_t number) {
    trace.clear();
    training.run(loader, {1, number, kRate});
  }
  bool is_frozen(std::size_t placement, std::size_t first) const {
    return geometry.parameters()[placement].layer < first;
  }
  std::vector<std::vector<float>> memory() {
    std::vector<std::vector<float>> all{{parameters.values().begin(), parameters.values().end()}};
    for (std::size_t s = 0; s < parameters.state_names().size(); ++s)
      all.emplace_back(parameters.state(s).begin(), parameters.state(s).end());
    return all;
  }
  void restore(const std::vector<std::vector<float>>& from, std::size_t first) {
    for_each_held(parameters, geometry, mesh.part(), [&](auto at, auto placement, auto) {
      if (!is_frozen(placement, first)) return;
      parameters.values()[at] = from[0][at];
      for (std::size_t s = 0; s + 1 < from.size(); ++s) parameters.state(s)[at] = from[s + 1][at];
    });
  }
};

/// Steps without the first layers' gradients, beside whole steps after which these are put back.
void check_steps(const Comm& comm, const MeshShape& shape, const std::string& name,
                 std::int64_t layers, Findings& findings) {
  const std::string where =
      fmt::format("{} on {} x {}, {} layers", name, shape.replicas, to_string(shape.parts), layers);
  Scene skips(comm, shape, name), whole(comm, shape, name);
  const std::size_t first = first_trained_layer(skips.geometry, layers);
  for (std::int64_t step = 0; step < kBefore; ++step) {
    skips.step(step);
    whole.step(step);
  }
  const auto frozen = skips.memory();
  const StepCounts before = skips.training.counts(), other = whole.training.counts();
  skips.training.train_from(first);
  for (std::int64_t step = kBefore; step < kBefore + kAfter; ++step) {
    skips.step(step);
    whole.step(step);
    whole.restore(frozen, first);
  }
  const auto got = skips.memory(), expected = whole.memory();
  std::int64_t kept = 0, moved = 0, summed = 0, left_out = 0;
  for_each_held(
      skips.parameters, skips.geometry, skips.mesh.part(), [&](auto at, auto placement, auto) {
        const bool is_frozen = skips.is_frozen(placement, first);
        for (std::size_t s = 0; s < got.size(); ++s) {
          const double off =
              std::abs(static_cast<double>(got[s][at]) - static_cast<double>(expected[s][at]));
          const double magnitude = std::abs(static_cast<double>(expected[s][at]));
          // Buckets of other bounds may add in another order.
          findings.expect(is_frozen || comm.size() > 1 ? off <= 2e-5 * magnitude + 1e-7 : off == 0,
                          [&] { return fmt::format("{}: {:g} off", where, off); });
          findings.expect(!is_frozen || got[s][at] == frozen[s][at],
                          [&] { return where + ": a frozen layer has changed"; });
        }
        (is_frozen ? kept : moved) += got[0][at] == frozen[0][at] ? 0 : 1;
      });
  findings.expect_equal<std::int64_t>(kept, 0, where + ": changes of frozen layers");
  findings.expect(comm.sum(moved) > 0, [&] { return where + ": nothing was trained"; });
  // Backward ends at the first layer that is trained.
  for (const TraceEvent& event : skips.trace.events()) {
    const bool data = event.phase == Phase::kBackwardData;
    if (!data && event.phase != Phase::kBackwardParameters) continue;
    const auto& all = skips.geometry.layers();
    const auto layer = static_cast<std::size_t>(
        std::find_if(all.begin(), all.end(),
                     [&](const LayerPlacement& l) { return l.name == event.detail; }) -
        all.begin());
    // The scope of backward to data is there, but nothing in it.
    findings.expect(layer >= first,
                    [&] { return fmt::format("{}: backward of {}", where, event.detail); });
  }
  for (const HolderGroup& group : skips.parameters.groups()) {
    if (std::ssize(group.parts) * shape.replicas == 1) continue;
    summed += group.trained_volume();
    left_out += group.frozen;
  }
  const StepCounts after = skips.training.counts() - before, all = whole.training.counts() - other;
  findings.expect_equal(after.reduction.bytes, 4 * kAfter * summed, where + ": bytes summed");
  findings.expect_equal(all.reduction.bytes, 4 * kAfter * (summed + left_out),
                        where + ": all bytes");
  if (shape.parts.count() > 1)
    findings.expect(comm.sum(after.halo.sent_bytes) < comm.sum(all.halo.sent_bytes),
                    [&] { return where + ": gradients of halos were sent"; });
}

TEST_CASE("steps without the gradients of the first layers train the others as before [4 ranks]") {
  const std::vector<MeshShape> meshes{
      {1, {1, 1, 1}}, {2, {1, 1, 1}}, {1, {2, 1, 1}}, {2, {2, 1, 1}}, {1, {2, 2, 1}}};
  for_comms("skipped gradients", {1, 2, 4}, [&](const Comm& comm, Findings& findings) {
    for (const MeshShape& shape : meshes)
      if (shape.ranks() == comm.size())
        for (const std::string& name : optimizer_names())
          for (const std::int64_t layers : {1, 2, 3})
            check_steps(comm, shape, name, layers, findings);
  });
}

TEST_CASE("a run that skips gradients resumes bit for bit [4 ranks]") {
  const SharedDirectory directory(test_world());
  if (test_world().rank() == 0) write_training_data(directory.path());
  test_world().barrier();
  for_comms("resuming", {2, 4}, [&](const Comm& comm, Findings& findings) {
    TrainingRequest request{2, {2, {comm.size() / 2, 1, 1}}, 14, directory.path(), {}};
    const auto run = [&](const std::string& what, std::vector<GradientSkip> skips,
                         std::optional<std::filesystem::path> from = {}) {
      request.skips = std::move(skips);
      request.out = directory.path() / fmt::format("{}-{}", comm.size(), what);
      request.resume = std::move(from);
      return train(comm, request);
    };
    const auto full = run("full", {}), whole = run("whole", {{1, 1}, {3, 2}});
    const auto resumed = run("resumed", {{1, 1}, {3, 2}},
                             directory.path() / fmt::format("{}-whole", comm.size()) /
                                 "checkpoints" / checkpoint_name(10));
    findings.expect(resumed == std::vector<double>(whole.begin() + 10, whole.end()),
                    [] { return std::string("another curve"); });
    // The first epoch has 4 steps; the loss of the next was computed before it was different.
    for (std::size_t i = 0; i < whole.size(); ++i)
      findings.expect((whole[i] == full[i]) == (i < 5), [&] {
        return fmt::format("step {}: {:.9g}, without skips {:.9g}", i + 1, whole[i], full[i]);
      });
  });
}

TEST_CASE("what --skip-gradients says") {
  const auto skips = parse_gradient_skips("2@8,4@16");
  CHECK(to_text(skips) == "2@8,4@16");
  CHECK(parse_gradient_skips("").empty());
  CHECK(skipped_layers(skips, 7) == 0);
  CHECK(skipped_layers(skips, 8) == 2);
  CHECK(skipped_layers(skips, 100) == 4);
  for (const char* text : {"2", "@", "2@", "0@1", "1@0", "x@1", "2@8,1@16", "1@8,2@8", "1@2x"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_gradient_skips(text), UsageError);
  }
}

}  // namespace
}  // namespace halomesh
