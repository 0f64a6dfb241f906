// SPDX-License-Identifier: Apache-2.0
// Every loss trains with every way to give it samples: padded or not, by patches or whole, staged
// or from files, in fp32 and bf16, on one part and cut. A loss that is registered is in the table.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/archive.hpp"
#include "runtime/data/open_dataset.hpp"
#include "runtime/train/trainer.hpp"
#include "src/nn/layers/convolution.hpp"
#include "src/nn/layers/elementwise.hpp"
#include "src/nn/losses/registry.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/mpi_shared_directory.hpp"
#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kClasses = 3, kSamples = 4, kExtent = 6;

/// A row of the table.
struct Feed {
  std::string loss;
  LossSettings settings;
  bool padded = false, patches = false, staged = false;
  DataType precision = DataType::kFloat32;

  std::string name() const {
    return fmt::format("{}{}{}{}{} {}", loss, settings.weights.empty() ? "" : " weighted",
                       padded ? " padded" : "", patches ? " patches" : "", staged ? " staged" : "",
                       name_of(precision));
  }
  /// Samples that this row needs, by name: extents are those of the input, at most, or at least.
  std::string data() const {
    return !padded && !patches ? "alike" : padded && patches ? "mixed" : padded ? "small" : "large";
  }
};

std::vector<Feed> feeds() {
  std::vector<Feed> all;
  for (const std::string& loss : loss_names(DataType::kUint8))
    for (const LossSettings& settings : {LossSettings{}, LossSettings{{1, 0.5, 2}, Score::kIou}})
      for (const bool padded : {false, true})
        for (const bool patches : {false, true})
          for (const bool staged : {false, true})
            for (const DataType precision : {DataType::kFloat32, DataType::kBfloat16})
              all.push_back({loss, settings, padded, patches, staged, precision});
  return all;
}

Shape sample_shape(const std::string& data, std::int64_t sample) {
  const std::int64_t less = sample % 3, more = 2 * (sample % 2);
  if (data == "small") return {1, kExtent - less, kExtent, kExtent - more};
  if (data == "large") return {1, kExtent + less, kExtent, kExtent + more};
  if (data == "mixed") return {1, kExtent - less, kExtent, kExtent + more};
  return {1, kExtent, kExtent, kExtent};
}

void write_samples(const std::filesystem::path& root) {
  for (const std::string data : {"alike", "small", "large", "mixed"}) {
    std::filesystem::create_directories(root / data);
    for (std::int64_t sample = 0; sample < kSamples; ++sample) {
      ArchiveFile content;
      content.samples = 1;
      content.first_sample = sample;
      content.split_samples = kSamples;
      content.shape = sample_shape(data, sample);
      content.source = "a formula";
      content.values = SampleFormat::Kind::kField;
      content.classes = kClasses;
      std::vector<float> values;
      std::vector<std::uint8_t> labels;
      for (std::int64_t at = 0; at < content.shape.volume(); ++at) {
        labels.push_back(static_cast<std::uint8_t>((sample * 5 + at * 7 / 4) % kClasses));
        values.push_back(static_cast<float>(labels.back()) - 0.01F * static_cast<float>(at % 50));
      }
      ArchiveWriter writer(root / data / archive_name("train", sample), content);
      writer.write(std::as_bytes(std::span(values)), std::span<const std::uint8_t>(labels));
      writer.commit();
    }
  }
}

/// The first and the last loss of a run, the loss of its validation and its score.
std::array<double, 4> train(const Comm& comm, const PartGrid& grid, const Feed& feed,
                            const std::filesystem::path& root, const std::string& out) {
  const ProcessMesh mesh(comm, {comm.size() / grid.count(), grid});
  Model model({1, kExtent, kExtent, kExtent});
  ConvolutionOptions options{4, WindowOptions::cube(3, 1, PaddingKind::kSame)};
  options.compute = feed.precision;
  model.add("conv", std::make_unique<Convolution>(options));
  model.add("act",
            std::make_unique<Elementwise>(ElementFunction::leaky_relu(0.25F), feed.precision));
  ConvolutionOptions head{kClasses, WindowOptions::cube(1, 1, PaddingKind::kSame)};
  head.compute = feed.precision;
  head.writes_fp32 = true;
  model.add("head", std::make_unique<Convolution>(head));
  const ModelGeometry geometry = model.geometry(grid);
  const auto make = [&](const Shape& output) {
    return make_loss(feed.loss, output, feed.settings);
  };
  TrainerOptions trainer_options;
  trainer_options.optimizer = {"sgd", 0.9, 0};
  trainer_options.schedule.peak = 0.05;
  trainer_options.global_batch = 2;
  trainer_options.epochs = 2;
  trainer_options.seed = 3;
  trainer_options.make_loss = make;
  trainer_options.out = root / out;
  if (feed.padded || feed.patches)
    trainer_options.crops = CropOptions{
        .random = feed.patches, .padding = feed.padded ? std::optional(-1.0F) : std::nullopt};
  if (feed.staged) trainer_options.stage = StageOptions{root / "stage"};
  Parameters parameters(geometry, mesh.part(), states_of(trainer_options));
  parameters.initialize(3);
  const bool differ = feed.data() != "alike";
  const auto data =
      open_dataset(comm, root / feed.data(), "train", differ ? Shape{1, 0, 0, 0} : model.input(),
                   TargetSpec::labels(kClasses));
  if (comm.rank() == 0) std::filesystem::create_directories(trainer_options.out);
  comm.barrier();
  const auto loss = make(geometry.tensors().back().shape);
  Trainer trainer(mesh, model, geometry, parameters, *loss, *data, data.get(), trainer_options);
  const TrainingResult result = trainer.run();
  comm.barrier();
  if (comm.rank() == 0) std::filesystem::remove_all(trainer_options.out);
  comm.barrier();
  return {result.first_loss, result.last_loss, result.last_evaluation->loss,
          result.last_evaluation->score};
}

TEST_CASE("every loss trains the same on any mesh, padded, by patches, staged and in bf16") {
  const SharedDirectory directory(test_world());
  if (test_world().rank() == 0) write_samples(directory.path());
  test_world().barrier();
  const std::vector<Feed> rows = feeds();
  REQUIRE(rows.size() >= 96);
  for_comms("training with every loss", {2}, [&](const Comm& comm, Findings& findings) {
    const Comm alone = comm.split(comm.rank(), 0);
    const std::string own = fmt::format("alone-{}", comm.rank());
    for (const Feed& row : rows) {
      Feed direct = row;
      direct.staged = false;
      const auto expected = train(alone, {1, 1, 1}, direct, directory.path(), own);
      for (const PartGrid& grid : {PartGrid{1, 1, 2}, PartGrid{1, 1, 1}}) {
        const auto got = train(comm, grid, row, directory.path(), "run");
        // Four steps change the weights by a few tenths; sums are rounded in another order.
        const double bound = row.precision == DataType::kFloat32 ? 1e-5 : 2e-2;
        for (std::size_t i = 0; i < got.size(); ++i)
          findings.expect(std::abs(got[i] - expected[i]) <= bound, [&] {
            return fmt::format("{} on {}: {} is {}, not {}", row.name(), to_string(grid), i, got[i],
                               expected[i]);
          });
        findings.expect(got[1] < got[0], [&] {
          return fmt::format("{} on {}: loss {} after {}", row.name(), to_string(grid), got[1],
                             got[0]);
        });
      }
    }
  });
}

TEST_CASE("losses of scalars refuse padded samples") {
  const std::vector<std::string> names = loss_names(DataType::kFloat32);
  REQUIRE(!names.empty());
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK_THROWS_WITH_AS(make_loss(name, {4, 1, 1, 1})->expect_padding(),
                         "samples cannot be padded for a loss that has no label for each voxel",
                         Error);
  }
}

}  // namespace
}  // namespace halomesh
