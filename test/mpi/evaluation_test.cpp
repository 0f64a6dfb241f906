// SPDX-License-Identifier: Apache-2.0
// An evaluation sees the parameters as the last step left them.
#include <doctest/doctest.h>

#include "runtime/step/evaluator.hpp"
#include "runtime/step/training_step.hpp"
#include "src/nn/losses/mean_squared_error.hpp"
#include "src/nn/optimizers/sgd.hpp"
#include "test/harness/constant_loader.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/small_cosmoflow.hpp"

namespace halomesh {
namespace {

TEST_CASE("an evaluation after a step is that of a network made with its parameters") {
  for_comms("evaluations", {1, 2}, [](const Comm& comm, Findings& findings) {
    const ProcessMesh mesh(comm, {1, {comm.size(), 1, 1}});
    Model model = make_cosmoflow(small_cosmoflow()), anew = make_cosmoflow(small_cosmoflow());
    const ModelGeometry geometry = model.geometry(mesh.shape().parts);
    Parameters parameters(geometry, mesh.part());
    parameters.initialize(1);
    Sgd sgd;
    MeanSquaredError loss(geometry.tensors().back().shape);
    TrainingStep training(mesh, model, geometry, parameters, sgd, loss, 1, nullptr);
    ConstantLoader loader(training.executor().input_span(), DataType::kFloat32);
    const SampleOrder order{Shuffle::kGlobal, 1, 2, 1, 1};
    const auto loss_of = [&](Executor& executor) {
      return evaluate(mesh, executor, loader, loss, order).loss;
    };
    const double before = loss_of(training.executor());
    // The input is zero: after the first step the convolutions have biases, and then weights count.
    for (std::int64_t step = 0; step < 3; ++step) training.run(loader, {1, step, 0.1F});
    const double after = loss_of(training.executor());
    Executor executor(mesh.group(), anew, geometry, parameters, 1, false);
    findings.expect(before != after,
                    [&] { return fmt::format("three steps left a loss of {:g}", before); });
    findings.expect_equal(after, loss_of(executor), "the loss of evaluation");
  });
}

}  // namespace
}  // namespace halomesh
