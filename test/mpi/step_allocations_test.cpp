// Once a network has made a step, no further one asks for memory: forward, exchanges, backward,
// reduction and optimizer, on every cut.
#include <doctest/doctest.h>

#include "models/cosmoflow.hpp"
#include "runtime/executor.hpp"
#include "runtime/gradient_reducer.hpp"
#include "src/nn/loss.hpp"
#include "src/nn/optimizer.hpp"
#include "test/harness/mpi_allocation_count.hpp"
#include "test/harness/mpi_for_comms.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kSteps = 3;

CosmoFlowOptions small_network(DataType input_type) {
  CosmoFlowOptions options;
  options.input = {4, 16, 16, 16};
  options.filters = 4;
  options.conv_layers = 2;
  options.input_type = input_type;
  return options;
}

void step(Executor& executor, GradientReducer& reducer, Parameters& parameters, AnyConstView input,
          ConstView targets, std::int64_t number) {
  const Pass pass{true, 1, number, 0};
  executor.forward(pass, input);
  if (!executor.output().span.empty())
    loss_gradient(LossKind::kMeanSquaredError, executor.output(), targets, 1, 1,
                  executor.output_diff());
  executor.backward(pass, input, reducer);
  reducer.finish();
  sgd_step(SgdOptions{}, 0.001F, parameters.diffs(), parameters.velocity(), parameters.values());
}

TEST_CASE("a step allocates nothing") {
  REQUIRE(test::allocation_count() != 0);  // it counts what this test program does before
  if (test::allocation_count() < 0) {
    MESSAGE("not counted: the sanitizer owns operator new");
    return;
  }
  for_comms("steps of CosmoFlow", [](const Comm& comm, Findings& findings) {
    for (const PartGrid& grid : grids_of(comm.size()))
      for (const DataType type : {DataType::kFloat32, DataType::kInt16}) {
        const ProcessMesh mesh(comm, {1, grid});
        Model model = make_cosmoflow(small_network(type));
        const ModelGeometry geometry = model.geometry(grid);
        Parameters parameters(geometry, mesh.part());
        parameters.initialize(1);
        Executor executor(mesh.group(), model, geometry, parameters, 1, true);
        GradientReducer reducer(mesh, geometry, parameters);
        const Tensor input(executor.input_span(), 1, type);
        const std::vector<float> values(4, 0.5F);
        const ConstView targets{values.data(), Box::whole({4, 1, 1, 1}), 1};
        step(executor, reducer, parameters, input.any_view(), targets, 0);
        const std::int64_t before = test::allocation_count();
        for (std::int64_t s = 1; s <= kSteps; ++s)
          step(executor, reducer, parameters, input.any_view(), targets, s);
        const std::int64_t made = test::allocation_count() - before;
        findings.expect_equal<std::int64_t>(made, 0,
                                            cat("allocations in ", kSteps, " steps on ",
                                                to_string(grid), ", input ", name_of(type)));
      }
  });
}

}  // namespace
}  // namespace halomesh
