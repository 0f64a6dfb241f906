// SPDX-License-Identifier: Apache-2.0
// Every optimizer on every kind of mesh, against its formula on whole tensors in double precision.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "rng.hpp"
#include "runtime/step/part_sums.hpp"
#include "src/nn/optimizers/registry.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/optimizer_reference.hpp"
#include "test/harness/small_cosmoflow.hpp"
#include "test/mpi/network_run.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kUpdates = 5;
constexpr double kRate = 0x1p-6;

/// The gradient of an element: of a magnitude that differs from tensor to tensor, and 0 for some.
float gradient_at(std::size_t placement, std::int64_t index, std::int64_t update) {
  const CounterRng rng(7, RandomUse::kSynth, static_cast<std::uint32_t>(placement),
                       static_cast<std::uint32_t>(update));
  const float draw = rng.uniform(static_cast<std::uint64_t>(index));
  return draw < 0.1F ? 0.0F : std::ldexp(draw - 0.55F, -static_cast<int>(placement % 4));
}

/// On several parts, conv2 is cut in two groups of channels and fc1 over its input.
Model network_of(const PartGrid& parts) {
  CosmoFlowOptions options = small_cosmoflow();
  options.filters = 16;
  options.fc = {16, 8};
  Model model = make_cosmoflow(options);
  if (parts.count() > 1) model.set_cuts(parse_cuts(fmt::format("conv2:{}x2", parts.count() / 2)));
  return model;
}

/// Whole tensors after kUpdates updates, and how far they moved.
std::vector<ReferenceTensor> expected_after(const ModelGeometry& geometry,
                                            const OptimizerOptions& options) {
  std::vector<ReferenceTensor> tensors;
  for (std::size_t p = 0; p < geometry.parameters().size(); ++p) {
    std::vector<double> w(static_cast<std::size_t>(geometry.parameters()[p].geometry.volume()));
    for (std::size_t i = 0; i < w.size(); ++i)
      w[i] = geometry.parameters()[p].geometry.name == "bias"
                 ? 0
                 : gradient_at(p, static_cast<std::int64_t>(i), kUpdates);
    tensors.emplace_back(std::move(w)).one_per_channel =
        geometry.parameters()[p].geometry.name == "bias";
  }
  const OptimizerReference reference(options, 0);
  for (std::int64_t update = 0; update < kUpdates; ++update) {
    std::vector<std::vector<double>> gradients;
    for (std::size_t p = 0; p < tensors.size(); ++p) {
      auto& g = gradients.emplace_back(tensors[p].w.size());
      for (std::size_t i = 0; i < g.size(); ++i)
        g[i] = gradient_at(p, static_cast<std::int64_t>(i), update);
    }
    reference.update(tensors, std::move(gradients), update + 1, kRate);
  }
  return tensors;
}

void check_mesh(const Comm& comm, const MeshShape& shape, const OptimizerOptions& options,
                Findings& findings) {
  const ProcessMesh mesh(comm, shape);
  const Model model = network_of(shape.parts);
  const ModelGeometry geometry = model.geometry(shape.parts);
  const auto optimizer = make_optimizer(options);
  Parameters parameters(geometry, mesh.part(), optimizer->states());
  PartSums part_sums(mesh.group());
  const SumOverParts sum = [&](std::span<double> values) { part_sums.sum(values); };
  const auto each = [&](auto visit) { for_each_held(parameters, geometry, mesh.part(), visit); };
  each([&](std::size_t at, std::size_t placement, std::int64_t index) {
    parameters.values()[at] = geometry.parameters()[placement].geometry.name == "bias"
                                  ? 0
                                  : gradient_at(placement, index, kUpdates);
  });
  for (std::int64_t update = 0; update < kUpdates; ++update) {
    each([&](std::size_t at, std::size_t placement, std::int64_t index) {
      parameters.diffs()[at] = gradient_at(placement, index, update);
    });
    optimizer->update(parameters, {update, static_cast<float>(kRate), &sum});
  }
  const auto expected = expected_after(geometry, options);
  std::int64_t compared = 0, sliced = 0;
  for (const ParameterPlacement& placement : geometry.parameters())
    sliced += placement.holders.size() > 1 ? 1 : 0;
  findings.expect_equal<std::int64_t>(sliced, shape.parts.count() > 1 ? 3 : 0,
                                      "tensors in slices: of conv2 weight and bias, of fc1 weight");
  double largest = 0;  // bound
  each([&](std::size_t at, std::size_t placement, std::int64_t index) {
    const ReferenceTensor& tensor = expected[placement];
    const auto i = static_cast<std::size_t>(index);
    const double off = static_cast<double>(parameters.values()[at]) - tensor.w[i];
    largest = std::max(largest, tensor.w_error[i]);
    ++compared;
    // 1.01: terms of second order.
    findings.expect(std::abs(off) <= 1.01 * tensor.w_error[i], [&] {
      return fmt::format("{} on {} x {}: tensor {}, element {}: {:g}, {:g} off; allowed {:g}",
                         options.name, shape.replicas, to_string(shape.parts), placement, index,
                         tensor.w[i], off, tensor.w_error[i]);
    });
  });
  findings.expect_equal(compared, parameters.size(), "elements compared");
  // An error would show as a part of the rate.
  findings.expect(largest < 1e-4 * kRate, [&] { return fmt::format("a bound of {:g}", largest); });
  // Holders of the same element must not drift apart by a bit.
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  for (std::size_t p = 0; p < expected.size(); ++p) {
    std::vector<double> most(expected[p].w.size(), kNone), negative = most;
    each([&](std::size_t at, std::size_t placement, std::int64_t index) {
      if (placement != p) return;
      const auto value = static_cast<double>(parameters.values()[at]);
      most[static_cast<std::size_t>(index)] = value;
      negative[static_cast<std::size_t>(index)] = -value;
    });
    comm.max(most);
    comm.max(negative);
    for (std::size_t i = 0; i < most.size(); ++i)
      findings.expect_equal(most[i], -negative[i], "the same weight on all its holders");
  }
}

TEST_CASE("every optimizer gives the formula's weights on every mesh [4 ranks]") {
  const std::vector<MeshShape> meshes{{1, {1, 1, 1}}, {1, {2, 1, 1}}, {2, {1, 1, 1}},
                                      {1, {2, 2, 1}}, {2, {2, 1, 1}}, {1, {4, 1, 1}}};
  for_comms("optimizers", {1, 2, 4}, [&](const Comm& comm, Findings& findings) {
    for (const MeshShape& shape : meshes)
      if (shape.ranks() == comm.size())
        for (const std::string& name : optimizer_names())
          for (const double decay : {0.0, 0.125}) {
            OptimizerOptions options;
            options.name = name;
            options.weight_decay = decay;
            options.lars_coefficient = 0.5;
            check_mesh(comm, shape, options, findings);
            if (name != "lars") continue;
            options.lars_biases = true;
            check_mesh(comm, shape, options, findings);
          }
  });
}

}  // namespace
}  // namespace halomesh
