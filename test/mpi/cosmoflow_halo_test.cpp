// SPDX-License-Identifier: Apache-2.0
// The halo of the published CosmoFlow on 4x4x1 parts, cut in space throughout or by channels in the
// end: the bytes counted by an exchange equal those of the plan and those computed by hand.
#include <doctest/doctest.h>

#include "models/cosmoflow.hpp"
#include "runtime/step/executor.hpp"
#include "test/harness/mpi_for_comms.hpp"

namespace halomesh {
namespace {

// Kernel 2 needs one plane after a block along d and h, and the edge where both meet. Block i of
// conv i + 1 has e = 128 / 2^i / 4 planes of d and h, all of w, and c channels. conv1's halo comes
// with the input; conv2..conv5 read 32, 64, 128 and 256 channels. Cut by channels, conv5 reads the
// other 15 parts' blocks of its input, of 8^3 voxels.
std::int64_t interior_bytes(bool channel_cuts) {
  std::int64_t elements = channel_cuts ? 8 * 8 * 8 * 256 / 16 * 15 : 0;
  for (std::int64_t i = 1; i <= (channel_cuts ? 3 : 4); ++i) {
    const std::int64_t width = 128 >> i, block = width / 4, channels = 16 << i;
    elements += (2 * block + 1) * width * channels;
  }
  return elements * static_cast<std::int64_t>(sizeof(float));
}

void check_exchanges(bool channel_cuts) {
  for_comms("forward passes of CosmoFlow", {16}, [=](const Comm& comm, Findings& findings) {
    constexpr std::int64_t kSamples = 2;
    const PartGrid grid{4, 4, 1};
    CosmoFlowOptions options;
    options.cuts = parse_cuts(channel_cuts ? "conv5:1x16" : "space");
    Model model = make_cosmoflow(options);
    const ModelGeometry geometry = model.geometry(grid);
    Parameters parameters(geometry, comm.rank());
    parameters.initialize(1);
    Executor executor(comm, model, geometry, parameters, 1, false);
    Tensor input(executor.input_span(), 1);
    for (std::int64_t i = 0; i < input.view().sample_volume(); ++i)
      input.view().data[i] = static_cast<float>(i % 7) / 7.0F;
    std::int64_t planned = 0, gathered = 0;
    for (std::size_t t = 1; t < geometry.tensors().size(); ++t) {
      const TensorGeometry& tensor = geometry.tensors()[t];
      const std::int64_t bytes = 4 * tensor.distribute.received_volume(comm.rank());
      // Dense layers read what they own: after the convolutions nothing is distributed.
      (tensor.shape.spatial() == Spatial{1, 1, 1} ? gathered : planned) += bytes;
    }
    executor.load_parameters();
    for (std::int64_t n = 0; n < kSamples; ++n) executor.forward({false, 1, n, 0}, input.view());
    const Spatial at = grid.coordinates(comm.rank());
    if (at[0] < 3 && at[1] < 3)
      findings.expect_equal(executor.received_bytes(Phase::kHaloWait),
                            kSamples * interior_bytes(channel_cuts),
                            "bytes that an interior rank received");
    findings.expect_equal(executor.received_bytes(Phase::kHaloWait), kSamples * planned,
                          "bytes received, against the plan");
    findings.expect_equal<std::int64_t>(gathered, 0, "bytes distributed after the convolutions");
    const Box& block = geometry.tensors()[0].owned[static_cast<std::size_t>(comm.rank())];
    const std::int64_t with_input = 4 * (executor.input_span().volume() - block.volume());
    if (at[0] < 3 && at[1] < 3)
      findings.expect_equal<std::int64_t>(with_input, 133120,
                                          "halo bytes that come with the input");
    // fc1: a slice of 1/16 on each part, none shared.
    for (const ParameterPlacement& p : geometry.parameters())
      if (p.layer_name == "fc1" && p.geometry.name == "weight") {
        findings.expect_equal<std::size_t>(p.holders.size(), 16, "slices of fc1");
        for (const SliceHolders& holders : p.holders)
          findings.expect_equal<std::size_t>(holders.parts.size(), 1, "holders of a slice of fc1");
      }
  });
}

TEST_CASE("CosmoFlow at 128^3 on 4x4x1 parts in space exchanges 524,288 bytes [16 ranks]") {
  CHECK(interior_bytes(false) == 524288);
  check_exchanges(false);
}

TEST_CASE("CosmoFlow at 128^3 on 4x4x1 parts exchanges 974,848 bytes per sample [16 ranks]") {
  CHECK(interior_bytes(true) == 974848);
  check_exchanges(true);
}

}  // namespace
}  // namespace halomesh
