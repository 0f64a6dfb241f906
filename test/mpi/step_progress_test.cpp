// SPDX-License-Identifier: Apache-2.0
// The loader of the next batch makes progress repeatedly while a batch is computed.
#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/step/evaluator.hpp"
#include "runtime/step/training_step.hpp"
#include "src/nn/losses/mean_squared_error.hpp"
#include "src/nn/optimizers/sgd.hpp"
#include "test/harness/constant_loader.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/small_cosmoflow.hpp"

namespace halomesh {
namespace {

TEST_CASE("a step and an evaluation call the loader's progress() in every layer") {
  for_comms("polling", {1, 2, 4}, [](const Comm& comm, Findings& findings) {
    const ProcessMesh mesh(comm, {1, {comm.size(), 1, 1}});
    Model model = make_cosmoflow(small_cosmoflow());
    const ModelGeometry geometry = model.geometry(mesh.shape().parts);
    Parameters parameters(geometry, mesh.part());
    parameters.initialize(1);
    Sgd sgd;
    MeanSquaredError loss(geometry.tensors().back().shape);
    TrainingStep training(mesh, model, geometry, parameters, sgd, loss, 1, nullptr);
    ConstantLoader loader(training.executor().input_span(), DataType::kFloat32);
    training.run(loader, {1, 0, 0.001F});
    const std::int64_t step = loader.polls(), samples = 5;
    evaluate(mesh, training.executor(), loader, loss, {Shuffle::kGlobal, 1, samples, 1, 1});
    const std::int64_t forward = (loader.polls() - step) / samples, backward = step - forward;
    // After each layer, and after each chunk of a layer that has work on this part. The two blocks
    // poll on their own, too: forward, and for the gradients of data (the second one) and
    // parameters.
    const std::int64_t layers = std::ssize(model.layers());
    const std::int64_t active = std::count_if(
        geometry.layers().begin(), geometry.layers().end(), [&](const LayerPlacement& layer) {
          return !layer.boxes[static_cast<std::size_t>(mesh.part())].dst_produced.empty();
        });
    findings.expect(forward >= layers + active + 2,
                    [&] { return text("{} polls forward in {} layers", forward, layers); });
    findings.expect(backward >= layers + 3,
                    [&] { return text("{} polls backward in {} layers", backward, layers); });
  });
}

}  // namespace
}  // namespace halomesh
