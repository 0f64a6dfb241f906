// What loads the next batch can move on again and again while a batch is computed.
#include <doctest/doctest.h>

#include "models/cosmoflow.hpp"
#include "runtime/evaluator.hpp"
#include "runtime/training_step.hpp"
#include "test/harness/constant_loader.hpp"
#include "test/harness/mpi_for_comms.hpp"

namespace halomesh {
namespace {

TEST_CASE("a step and an evaluation let the loader move on with every layer") {
  for_comms("polling", {1, 2, 4}, [](const Comm& comm, Findings& findings) {
    CosmoFlowOptions options;
    options.input = {4, 16, 16, 16};
    options.filters = 4;
    options.conv_layers = 2;
    const ProcessMesh mesh(comm, {1, {comm.size(), 1, 1}});
    Model model = make_cosmoflow(options);
    const ModelGeometry geometry = model.geometry(mesh.shape().parts);
    Parameters parameters(geometry, mesh.part());
    parameters.initialize(1);
    TrainingStep training(mesh, model, geometry, parameters, 1, nullptr);
    ConstantLoader loader(training.executor().input_span(), DataType::kFloat32);
    // Each rank computes the two blocks and a share of fc1 at least.
    training.run(loader, {1, 0, SgdOptions{}, 0.001F});
    findings.expect(loader.polls() >= 2 * 3,
                    [&] { return cat(loader.polls(), " polls in a step"); });
    const std::int64_t before = loader.polls(), samples = 5;
    const SampleOrder order{Shuffle::kGlobal, 1, samples, 1, 1};
    evaluate(mesh, training.executor(), loader, order);
    findings.expect(loader.polls() - before >= 3 * samples,
                    [&] { return cat(loader.polls() - before, " polls in an evaluation"); });
  });
}

}  // namespace
}  // namespace halomesh
