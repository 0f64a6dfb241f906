// SPDX-License-Identifier: Apache-2.0
// A traced step: every phase occurs, phases add up to the step, and the bytes that they report are
// those that the exchanges count and the geometry predicts.
#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <map>

#include "runtime/log/phase_times.hpp"
#include "runtime/step/training_step.hpp"
#include "src/nn/losses/mean_squared_error.hpp"
#include "src/nn/optimizers/sgd.hpp"
#include "test/harness/constant_loader.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/small_cosmoflow.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kSteps = 2;

// Kernel 3: halos on both sides, in all directions; fc1 is split over its input.
CosmoFlowOptions cut_in_space() {
  CosmoFlowOptions options = small_cosmoflow();
  options.kernel = 3;
  options.cuts = parse_cuts("space");
  return options;
}

// Bytes that the geometry has `part` receive in a step of one sample, by the phase that waits.
std::map<Phase, std::int64_t> planned_bytes(const Model& model, const ModelGeometry& geometry,
                                            std::int64_t part) {
  std::map<Phase, std::int64_t> bytes;
  const std::vector<DataType> types = model.types();
  for (std::size_t t = 1; t < geometry.tensors().size(); ++t) {
    const TensorGeometry& g = geometry.tensors()[t];
    const std::int64_t size = size_of(types[t]);
    bytes[Phase::kHaloWait] += size * g.distribute.received_volume(part);
    bytes[Phase::kPartialSumWait] += size * g.broadcast.sent_volume(part);
    bytes[Phase::kHaloGradientWait] +=
        size * (g.distribute.sent_volume(part) + g.broadcast.received_volume(part));
  }
  return bytes;
}

TEST_CASE("a traced step has every phase, and they add up to the step in time and bytes") {
  for_comms("traced steps", {4}, [](const Comm& comm, Findings& findings) {
    const ProcessMesh mesh(comm, {1, {2, 2, 1}});
    Model model = make_cosmoflow(cut_in_space());
    const ModelGeometry geometry = model.geometry(mesh.shape().parts);
    Parameters parameters(geometry, mesh.part());
    parameters.initialize(1);
    Trace trace(1 << 12);
    Sgd sgd;
    MeanSquaredError loss(geometry.tensors().back().shape);
    TrainingStep training(mesh, model, geometry, parameters, sgd, loss, 1, &trace);
    ConstantLoader loader(training.executor().input_span(), DataType::kFloat32);
    PhaseTimes times;
    std::int64_t steps_ns = 0, sum_ns = 0;
    for (std::int64_t step = 0; step < kSteps; ++step) {
      trace.clear();
      {
        const TraceScope whole(&trace, Phase::kStep);
        training.run(loader, {1, step, 0.001F});
      }
      times.add(trace.events());
      steps_ns += trace.events().back().end_ns - trace.events().back().begin_ns;
    }
    findings.expect_equal<std::int64_t>(trace.dropped(), 0, "intervals dropped");
    for (const PhaseTimes::Row& row : times.rows()) {
      sum_ns += row.ns;
      findings.expect(row.ns >= 0,
                      [&] { return fmt::format("{} of {} ns", name_of(row.key.phase), row.ns); });
    }
    findings.expect(std::abs(sum_ns - steps_ns) <= steps_ns / 100, [&] {
      return fmt::format("{} ns of phases in steps of {}", sum_ns, steps_ns);
    });
    std::array<std::int64_t, kPhases.size()> seen{};
    for (const PhaseTimes::Row& row : times.rows())
      seen[static_cast<std::size_t>(row.key.phase)] = 1;
    comm.sum(seen);
    for (const PhaseEntry& entry : kPhases) {
      const bool of_a_step = entry.phase != Phase::kStep && entry.phase != Phase::kEvaluation &&
                             entry.phase != Phase::kCheckpoint;
      const std::int64_t ranks = seen[static_cast<std::size_t>(entry.phase)];
      findings.expect((ranks > 0) == of_a_step,
                      [&] { return fmt::format("{} occurs on {} ranks", entry.name, ranks); });
    }
    for (const auto& [phase, planned] : planned_bytes(model, geometry, mesh.part())) {
      const std::int64_t counted = training.executor().received_bytes(phase);
      findings.expect_equal(times.of(phase).received_bytes, counted,
                            fmt::format("{}: bytes traced, against those counted", name_of(phase)));
      findings.expect_equal(counted, kSteps * planned,
                            fmt::format("{}: bytes, planned", name_of(phase)));
      findings.expect(comm.sum(planned) > 0,
                      // clang 14 captures no structured binding.
                      [name = name_of(phase)] { return fmt::format("{} of no bytes", name); });
    }
    findings.expect_equal(times.of(Phase::kReductionWait).received_bytes,
                          training.reducer().reduced_bytes(), "bytes of gradients");
    const ReductionCounts& sums = training.reducer().counts();
    findings.expect(sums.buckets > 0 && sums.buckets % kSteps == 0,
                    [&] { return fmt::format("{} buckets in {} steps", sums.buckets, kSteps); });
    findings.expect(sums.ns > 0 && sums.ns <= sums.buckets * steps_ns, [&] {
      return fmt::format("{} ns for {} buckets in steps of {} ns", sums.ns, sums.buckets, steps_ns);
    });
    const HaloCounts halo = training.executor().halo_counts();
    findings.expect(halo.messages > 0 && halo.messages % kSteps == 0,
                    [&] { return fmt::format("{} messages", halo.messages); });
    findings.expect_equal(comm.sum(halo.sent_bytes), comm.sum(halo.received_bytes),
                          "bytes sent, against those received");
    findings.expect(comm.sum(training.reducer().reduced_bytes()) > 0,
                    [] { return std::string("nothing was reduced"); });
  });
}

}  // namespace
}  // namespace halomesh
