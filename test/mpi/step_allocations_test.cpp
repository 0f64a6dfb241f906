// Once a network has made a step, no further one asks for memory: forward, exchanges, backward,
// reduction and optimizer, on every cut.
#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/training_step.hpp"
#include "test/harness/constant_loader.hpp"
#include "test/harness/mpi_allocation_count.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/small_cosmoflow.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kSteps = 3;

// Every cut of one sample; and of one by each of two replicas, whose sums are made in two levels.
std::vector<std::pair<MeshShape, Reduction>> ways_of(std::int64_t ranks) {
  std::vector<std::pair<MeshShape, Reduction>> ways;
  for (const PartGrid& grid : grids_of(ranks)) ways.push_back({{1, grid}, Reduction::kFlat});
  if (ranks % 2 == 0)
    for (const PartGrid& grid : grids_of(ranks / 2))
      ways.push_back({{2, grid}, Reduction::kTwoLevel});
  return ways;
}

TEST_CASE("a step allocates nothing") {
  REQUIRE(test::allocation_count() != 0);  // it counts what this test program does before
  if (test::allocation_count() < 0) {
    MESSAGE("not counted: the sanitizer owns operator new");
    return;
  }
  for_comms("steps of CosmoFlow", [](const Comm& comm, Findings& findings) {
    for (const auto& [shape, reduction] : ways_of(comm.size()))
      for (const DataType type : {DataType::kFloat32, DataType::kInt16}) {
        const ProcessMesh mesh(comm, shape);
        Model model = make_cosmoflow(small_cosmoflow(type));
        const ModelGeometry geometry = model.geometry(shape.parts);
        Parameters parameters(geometry, mesh.part());
        parameters.initialize(1);
        TrainingStep training(mesh, model, geometry, parameters, 1, nullptr, reduction);
        ConstantLoader loader(training.executor().input_span(), type);
        training.run(loader, {1, 0, SgdOptions{}, 0.001F});
        const std::int64_t before = test::allocation_count();
        for (std::int64_t step = 1; step <= kSteps; ++step)
          training.run(loader, {1, step, SgdOptions{}, 0.001F});
        const std::int64_t made = test::allocation_count() - before;
        findings.expect_equal<std::int64_t>(
            made, 0,
            cat("allocations in ", kSteps, " steps on ", shape.replicas, " x ",
                to_string(shape.parts), ", input ", name_of(type)));
      }
  });
}

}  // namespace
}  // namespace halomesh
