// SPDX-License-Identifier: Apache-2.0
// Steps after the first allocate no memory: staged input, forward, exchanges, backward, reduction,
// optimizer and tracing, on every cut and in every precision.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/load/stage_loader.hpp"
#include "runtime/log/phase_times.hpp"
#include "runtime/step/training_step.hpp"
#include "src/nn/losses/mean_squared_error.hpp"
#include "src/nn/onednn/library.hpp"
#include "src/nn/optimizers/registry.hpp"
#include "src/nn/optimizers/sgd.hpp"
#include "src/nn/pack.hpp"
#include "test/harness/constant_loader.hpp"
#include "test/harness/mpi_allocation_count.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/mpi_shared_directory.hpp"
#include "test/harness/skip.hpp"
#include "test/harness/small_cosmoflow.hpp"
#include "test/harness/staged_sample.hpp"
#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kSteps = 3;

// Every cut of one sample; and of one by each of two replicas, whose sums are made in two levels.
std::vector<std::pair<MeshShape, Reduction>> ways_of(std::int64_t ranks) {
  std::vector<std::pair<MeshShape, Reduction>> ways;
  for (const PartGrid& grid : grids_of(ranks)) ways.push_back({{1, grid}, Reduction::kAuto});
  if (ranks % 2 == 0)
    for (const PartGrid& grid : grids_of(ranks / 2))
      ways.push_back({{2, grid}, Reduction::kTwoLevel});
  return ways;
}

struct Numbers {
  DataType precision, input;
};

// bf16 only where the CPU has instructions for it: the library's emulation is different code.
std::vector<Numbers> numbers() {
  std::vector<Numbers> all = {{DataType::kFloat32, DataType::kFloat32},
                              {DataType::kFloat32, DataType::kInt16}};
  if (cpu_computes_bf16()) all.push_back({DataType::kBfloat16, DataType::kInt16});
  return all;
}

TEST_CASE("a step allocates nothing, traced or not") {
  if (test::allocation_count() < 0) return test::skip_case("the sanitizer owns operator new");
  REQUIRE(test::allocation_count() != 0);  // it counts what this test program does before
  for_comms("steps of CosmoFlow", [](const Comm& comm, Findings& findings) {
    for (const auto& [shape, reduction] : ways_of(comm.size()))
      for (const Numbers& types : numbers()) {
        const ProcessMesh mesh(comm, shape);
        CosmoFlowOptions options = small_cosmoflow(types.input);
        options.precision = types.precision;
        Model model = make_cosmoflow(options);
        const ModelGeometry geometry = model.geometry(shape.parts);
        Parameters parameters(geometry, mesh.part());
        parameters.initialize(1);
        const bool traced = types.input == DataType::kInt16;
        Trace trace(1 << 12);
        Timeline timeline;
        timeline.reserve(1 << 14, 64);
        timeline.open();
        trace.send_to(&timeline);
        PhaseTimes times;
        Sgd sgd;
        MeanSquaredError loss(geometry.tensors().back().shape);
        TrainingStep training(mesh, model, geometry, parameters, sgd, loss, 1,
                              traced ? &trace : nullptr, reduction);
        ConstantLoader loader(training.executor().input_span(), types.input);
        const auto step = [&](std::int64_t number) {
          trace.clear();
          timeline.begin_step(number);
          {
            const TraceScope whole(&trace, Phase::kStep);
            training.run(loader, {1, number, 0.001F});
          }
          timeline.end_step();
          times.add(trace.events());
        };
        step(0);
        const std::int64_t before = test::allocation_count();
        for (std::int64_t number = 1; number <= kSteps; ++number) step(number);
        const std::int64_t made = test::allocation_count() - before;
        findings.expect_equal<std::int64_t>(
            made, 0,
            fmt::format("allocations in {} steps on {} x {}, {}, input {}", kSteps, shape.replicas,
                        to_string(shape.parts), name_of(types.precision), name_of(types.input)));
        findings.expect(timeline.dropped() == 0 && !timeline.events().empty(),
                        [] { return std::string("no timeline, or not all of it"); });
        findings.expect((trace.events().size() > 10) == traced, [&] {
          return fmt::format("{} intervals, traced: {}", trace.events().size(), traced);
        });
      }
  });
}

TEST_CASE("steps of several passes with clipping and any optimizer allocate nothing") {
  if (test::allocation_count() < 0) return test::skip_case("the sanitizer owns operator new");
  for_comms("updates", {1, 2, 4}, [](const Comm& comm, Findings& findings) {
    for (const auto& [shape, reduction] : ways_of(comm.size()))
      for (const std::string& name : optimizer_names()) {
        const ProcessMesh mesh(comm, shape);
        Model model = make_cosmoflow(small_cosmoflow());
        const ModelGeometry geometry = model.geometry(shape.parts);
        const auto optimizer = make_optimizer({name, 0.9, 0.01});
        auto states = optimizer->states();
        states.emplace_back(kGradientResidual);
        Parameters parameters(geometry, mesh.part(), states);
        parameters.initialize(1);
        MeanSquaredError loss(geometry.tensors().back().shape);
        const bool rounds = reduction != Reduction::kFlat && name != "nesterov";
        TrainingStep training(mesh, model, geometry, parameters, *optimizer, loss, 1, nullptr,
                              reduction,
                              {2, 1e-6, rounds ? DataType::kBfloat16 : DataType::kFloat32});
        ConstantLoader loader(training.executor().input_span(), DataType::kFloat32);
        training.run(loader, {1, 0, 0.001F});
        const std::int64_t before = test::allocation_count();
        for (std::int64_t number = 1; number <= kSteps; ++number)
          training.run(loader, {1, number, 0.001F});
        const std::int64_t made = test::allocation_count() - before;
        findings.expect_equal<std::int64_t>(
            made, 0,
            fmt::format("allocations in {} steps of {} on {} x {}", kSteps, name, shape.replicas,
                        to_string(shape.parts)));
        findings.expect(training.gradient_norm() > 1e-6,
                        [] { return std::string("no gradient was clipped"); });
      }
  });
}

const Shape kStagedShape{2, 20, 18, 19};

class Zeros final : public Dataset {
 public:
  Zeros() : Dataset(kStagedShape, 1) {}
  std::int64_t size() const override { return 6; }
  const std::filesystem::path& directory() const override { return directory_; }
  const std::string& identity() const override { return identity_; }
  std::unique_ptr<SampleReader> reader() const override { return std::make_unique<Reader>(); }

 private:
  class Reader final : public SampleReader {
    void read(std::int64_t /*sample*/, AnyView dst, AnyView /*targets*/) override {
      clear(dst, dst.span);
    }
    void stream(std::int64_t sample, const VoxelSink& sink, AnyView targets) override {
      const Tensor whole(Box::whole(kStagedShape), 1, DataType::kInt16);
      read(sample, whole.any_view(), targets);
      sink(0, {whole.any_view().data, static_cast<std::size_t>(2 * kStagedShape.volume())});
    }
  };
  std::filesystem::path directory_ = "nowhere";
  std::string identity_ = "zeros";
};

// The same steps twice: in the second round all numbers of messages and their shapes are known.
std::int64_t allocations_of_batches(const ProcessMesh& mesh, const PartGrid& grid,
                                    const std::filesystem::path& directory, bool transformed,
                                    DataType type) {
  const StagedSample sample = staged_sample(kStagedShape, grid, 1);
  const Zeros data;
  const SampleOrder order{Shuffle::kGlobal, 5, data.size(), mesh.shape().replicas, 1};
  const SymmetryDraw draw(5, kStagedShape);
  Stager stager(mesh, {directory, StageCodec::kNone, false},
                {{"train", &data, SampleOwners::of_training(order), sample, {}}});
  auto staged = stager.run([] { return false; }, [](std::int64_t) {});
  StageLoader loader(mesh, sample, std::move(staged->front()),
                     {kStagedShape, sample.blocks[static_cast<std::size_t>(mesh.part())],
                      Box::whole({1, 1, 1, 1}), 1, type, mesh.replica()});
  const BatchSchedule schedule = order.training(0, 0, transformed ? &draw : nullptr);
  for (int round = 0; round < 3; ++round) loader.append(schedule);
  const auto run = [&] {
    for (std::int64_t step = 0; step < schedule.steps; ++step) {
      loader.next();
      loader.progress();
    }
  };
  run();
  run();
  const std::int64_t before = test::allocation_count();
  run();
  return test::allocation_count() - before;
}

TEST_CASE("a staged batch allocates nothing") {
  if (test::allocation_count() < 0) return test::skip_case("the sanitizer owns operator new");
  const SharedDirectory directory(test_world());
  for_comms("staged batches", {1, 2, 4}, [&](const Comm& comm, Findings& findings) {
    for (const auto& [shape, reduction] : ways_of(comm.size()))
      for (const bool transformed : {false, true})
        for (const DataType type : {DataType::kInt16, DataType::kFloat32})
          findings.expect_equal<std::int64_t>(
              allocations_of_batches(ProcessMesh(comm, shape), shape.parts, directory.path(),
                                     transformed, type),
              0,
              fmt::format("allocations of staged batches on {} x {}{}, {}", shape.replicas,
                          to_string(shape.parts), transformed ? ", transformed" : "",
                          name_of(type)));
  });
}

}  // namespace
}  // namespace halomesh
