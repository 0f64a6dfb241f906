// SPDX-License-Identifier: Apache-2.0
// Each slice of a gradient is summed over exactly the ranks that hold it, on any mesh and with any
// bucket size. The gradients are a global formula here: no layer computes.
#include "runtime/step/gradient_reducer.hpp"

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <memory>
#include <span>
#include <vector>

#include "rng.hpp"
#include "src/nn/layers/convolution.hpp"
#include "src/nn/layers/dense.hpp"
#include "src/nn/model.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/mpi/network_run.hpp"

namespace halomesh {
namespace {

// Held by all parts that compute, one slice each, and only by part 0; and, as the second
// convolution leaves two planes along d, by only some parts of a long cut.
Model test_model() {
  const auto convolution = [](std::int64_t filters, std::int64_t kernel, std::int64_t stride) {
    return std::make_unique<Convolution>(
        ConvolutionOptions{filters, WindowOptions::cube(kernel, stride, PaddingKind::kSame)});
  };
  Model model({2, 6, 5, 7});
  model.add("conv1", convolution(3, 2, 1));
  model.add("conv2", convolution(2, 3, 3));
  model.add("fc1", std::make_unique<Dense>(5));
  model.add("fc2", std::make_unique<Dense>(3));
  return model;
}

// Uniform in [-1, 1), different for each rank, parameter and element.
float gradient_of(std::int64_t rank, std::size_t placement, std::int64_t index) {
  const CounterRng rng(3, RandomUse::kSynth, static_cast<std::uint32_t>(rank),
                       static_cast<std::uint32_t>(placement));
  return 2.0F * rng.uniform(static_cast<std::uint64_t>(index)) - 1.0F;
}

// A multiple of 1/64: sums over ranks are exact in any order.
float exact_gradient_of(std::int64_t rank, std::size_t placement, std::int64_t index) {
  return static_cast<float>(static_cast<int>(64.0F * gradient_of(rank, placement, index))) / 64.0F;
}

using Gradient = float (*)(std::int64_t, std::size_t, std::int64_t);

// One backward pass: layers complete from the last to the first.
void reduce(GradientReducer& reducer, Parameters& parameters, const ModelGeometry& geometry,
            const ProcessMesh& mesh, Gradient gradient) {
  for_each_held(parameters, geometry, mesh.part(), [&](auto at, auto placement, auto index) {
    parameters.diffs()[at] = gradient(mesh.world().rank(), placement, index);
  });
  reducer.begin();
  for (std::size_t l = geometry.layers().size(); l-- > 0;) {
    reducer.completed(l);
    reducer.progress();
  }
  reducer.finish();
}

// The sum over all ranks whose slice has something in common with that of `part`.
float expected_sum(const ModelGeometry& geometry, const MeshShape& shape, std::int64_t part,
                   std::size_t placement, std::int64_t index) {
  const std::vector<ParameterSlice>& slices = geometry.parameters()[placement].slices;
  float sum = 0;
  for (std::int64_t rank = 0; rank < shape.ranks(); ++rank) {
    const ParameterSlice& other = slices[static_cast<std::size_t>(shape.part_of(rank))];
    if (overlap(slices[static_cast<std::size_t>(part)], other))
      sum += exact_gradient_of(rank, placement, index);
  }
  return sum;
}

std::vector<MeshShape> meshes_of(std::int64_t ranks) {
  std::vector<MeshShape> meshes;
  for (std::int64_t parts = 1; parts <= ranks; ++parts)
    if (ranks % parts == 0)
      for (const PartGrid& grid : grids_of(parts)) meshes.push_back({ranks / parts, grid});
  return meshes;
}

struct Way {
  Reduction reduction;
  std::int64_t bucket_bytes;
};
// The smallest buckets are a bias of two or three values: fewer than most meshes have parts.
std::vector<Way> all_ways() {
  using enum Reduction;
  std::vector<Way> ways;
  for (const Reduction reduction : {kAuto, kFlat, kTwoLevel, kHalving, kDoubling, kRing, kBinomial})
    for (const std::int64_t bytes : {1, 100, 600, 4 << 20}) ways.push_back({reduction, bytes});
  return ways;
}

void check_sums(const Comm& comm, Findings& findings) {
  const Model model = test_model();
  for (const MeshShape& shape : meshes_of(comm.size())) {
    const ProcessMesh mesh(comm, shape);
    const ModelGeometry geometry = model.geometry(shape.parts);
    for (const Way& way : all_ways()) {
      Parameters parameters(geometry, mesh.part());
      GradientReducer reducer(mesh, geometry, parameters, way.reduction, nullptr, way.bucket_bytes);
      for (int step = 0; step < 2; ++step) {
        reduce(reducer, parameters, geometry, mesh, &exact_gradient_of);
        for_each_held(parameters, geometry, mesh.part(), [&](auto at, auto placement, auto index) {
          const float expected = expected_sum(geometry, shape, mesh.part(), placement, index);
          findings.expect(parameters.diffs()[at] == expected, [&] {
            return fmt::format("{} x {}, {}, buckets of {} bytes, {} {}, element {}: {}, not {}",
                               shape.replicas, to_string(shape.parts), name_of(way.reduction),
                               way.bucket_bytes, geometry.parameters()[placement].layer_name,
                               geometry.parameters()[placement].geometry.name, index,
                               parameters.diffs()[at], expected);
          });
        });
      }
    }
  }
}

TEST_CASE("gradients are summed over exactly their holders") {
  for_comms("sum over holders", check_sums);
}

TEST_CASE("gradients are summed over exactly their holders on more ranks [12 ranks]") {
  for_comms("sum over holders", {8, 12}, check_sums);
}

// The picture in gradient_reducer.hpp, with 10^rank as gradient: the digits name the ranks summed.
TEST_CASE("conv is summed over all ranks, fc1 over replicas, fc2 over the replicas' part 0") {
  for_comms("the holders of 2 x 2x1x1", {4}, [](const Comm& comm, Findings& findings) {
    const Model model = test_model();
    const ProcessMesh mesh(comm, {2, {2, 1, 1}});
    const ModelGeometry geometry = model.geometry({2, 1, 1});
    Parameters parameters(geometry, mesh.part());
    GradientReducer reducer(mesh, geometry, parameters, Reduction::kTwoLevel, nullptr, 64);
    reduce(reducer, parameters, geometry, mesh, [](auto rank, auto, auto) {
      return std::array{1.0F, 10.0F, 100.0F, 1000.0F}[static_cast<std::size_t>(rank)];
    });
    const bool first = mesh.part() == 0;
    std::int64_t held = 0;
    for_each_held(parameters, geometry, mesh.part(), [&](auto at, auto placement, auto) {
      const ParameterPlacement& p = geometry.parameters()[placement];
      // The bias of a dense layer belongs to the owner of its output, part 0.
      const bool everywhere = p.layer_name == "conv1" || p.layer_name == "conv2";
      const float expected = everywhere ? 1111.0F : (first ? 101.0F : 1010.0F);
      findings.expect_equal(parameters.diffs()[at], expected, p.layer_name + p.geometry.name);
      findings.expect(everywhere || first || p.layer_name == "fc1",
                      [&] { return "part 1 holds " + p.layer_name; });
      ++held;
    });
    const std::int64_t convolutions = 3 * 2 * 8 + 3 + 2 * 3 * 27 + 2, fc1 = 5 * 2 * 2 * 2 * 3 / 2;
    findings.expect_equal(held, convolutions + fc1 + (first ? 5 + 3 * 5 + 3 : 0), "elements held");
    findings.expect_equal(reducer.reduced_bytes(), 4 * held, "bytes reduced");
  });
}

TEST_CASE("the same gradients give the same bits again, on every rank that holds them") {
  for_comms("repeated sums", [](const Comm& comm, Findings& findings) {
    const Model model = test_model();
    for (const MeshShape& shape : meshes_of(comm.size())) {
      const ProcessMesh mesh(comm, shape);
      const ModelGeometry geometry = model.geometry(shape.parts);
      for (const Way& way : all_ways()) {
        std::vector<float> first;
        for (int run = 0; run < 2; ++run) {
          Parameters parameters(geometry, mesh.part());
          GradientReducer reducer(mesh, geometry, parameters, way.reduction, nullptr,
                                  way.bucket_bytes);
          reduce(reducer, parameters, geometry, mesh, &gradient_of);
          const std::span<float> diffs = parameters.diffs();
          if (run == 0) first.assign(diffs.begin(), diffs.end());
          for (std::size_t i = 0; i < first.size(); ++i)
            findings.expect_equal(std::bit_cast<std::uint32_t>(diffs[i]),
                                  std::bit_cast<std::uint32_t>(first[i]), "bits");
        }
        // Ranks of one part hold the same slices, and must never drift apart.
        const Comm replicas = comm.split(static_cast<int>(mesh.part()), comm.rank());
        std::vector<std::int64_t> bits;
        for (const float value : first) bits.push_back(std::bit_cast<std::int32_t>(value));
        std::vector<std::int64_t> largest = bits;
        replicas.max(largest);
        findings.expect(largest == bits, [] { return "other bits on another replica"; });
        findings.expect(comm.sum(std::int64_t{std::ssize(bits)}) > 0,
                        [] { return "nothing was compared"; });
      }
    }
  });
}

}  // namespace
}  // namespace halomesh
