// What loads the next batch can move on again and again while a batch is computed.
#include <doctest/doctest.h>

#include "runtime/evaluator.hpp"
#include "runtime/training_step.hpp"
#include "test/harness/constant_loader.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/small_cosmoflow.hpp"

namespace halomesh {
namespace {

TEST_CASE("a step and an evaluation let the loader move on with every layer") {
  for_comms("polling", {1, 2, 4}, [](const Comm& comm, Findings& findings) {
    const ProcessMesh mesh(comm, {1, {comm.size(), 1, 1}});
    Model model = make_cosmoflow(small_cosmoflow());
    const ModelGeometry geometry = model.geometry(mesh.shape().parts);
    Parameters parameters(geometry, mesh.part());
    parameters.initialize(1);
    TrainingStep training(mesh, model, geometry, parameters, 1, nullptr);
    ConstantLoader loader(training.executor().input_span(), DataType::kFloat32);
    training.run(loader, {1, 0, SgdOptions{}, 0.001F});
    const std::int64_t step = loader.polls(), samples = 5;
    evaluate(mesh, training.executor(), loader, {Shuffle::kGlobal, 1, samples, 1, 1});
    const std::int64_t forward = (loader.polls() - step) / samples, backward = step - forward;
    // Each layer, and the blocks on their own: forward, for the gradients of data and parameters.
    const auto layers = std::ssize(model.layers());
    findings.expect(forward >= layers + 2, [&] { return cat(forward, " polls forward"); });
    findings.expect(backward >= layers + 3, [&] { return cat(backward, " polls backward"); });
  });
}

}  // namespace
}  // namespace halomesh
