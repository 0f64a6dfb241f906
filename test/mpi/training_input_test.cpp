// SPDX-License-Identifier: Apache-2.0
// A trainer's batches of fields and labels: from the files of an archive, directly and staged, on
// every cut, transformed, equal the samples that were written.
#include "runtime/load/training_input.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "partition/samples/crops.hpp"
#include "partition/samples/sliding_windows.hpp"
#include "runtime/data/archive.hpp"
#include "runtime/data/open_dataset.hpp"
#include "src/nn/layers/convolution.hpp"
#include "src/nn/losses/segmentation_loss.hpp"
#include "src/nn/model.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/mpi_shared_directory.hpp"
#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

const Shape kInput{2, 9, 6, 6};
constexpr std::int64_t kSamples = 5, kClasses = 3;
/// Crops, which reach beyond the samples along h.
const Shape kCrop{2, 6, 8, 4};
constexpr float kPadding = -7;

float value(std::int64_t sample, std::int64_t at) {
  return 0.5F * static_cast<float>((sample * 977 + at * 13) % 4001) - 900.0F;
}
std::uint8_t label(std::int64_t sample, std::int64_t at) {
  return static_cast<std::uint8_t>((sample * 5 + at * 7 / 4) % kClasses);
}

void write_archive(const std::filesystem::path& directory) {
  ArchiveFile content;
  content.samples = content.split_samples = kSamples;
  content.shape = kInput;
  content.source = "a formula";
  content.values = SampleFormat::Kind::kField;
  content.classes = kClasses;
  ArchiveWriter writer(directory / archive_name("train", 0), content);
  for (std::int64_t sample = 0; sample < kSamples; ++sample) {
    std::vector<float> values;
    std::vector<std::uint8_t> labels;
    for (std::int64_t at = 0; at < kInput.volume(); ++at) values.push_back(value(sample, at));
    for (std::int64_t at = 0; at < kInput.volume() / kInput.c; ++at)
      labels.push_back(label(sample, at));
    writer.write(std::as_bytes(std::span(values)), std::span<const std::uint8_t>(labels));
  }
  writer.commit();
}

/// Values and labels of a batch that differ from the formula; `shape`: of the inputs.
std::int64_t different(const Batch& batch, std::span<const SampleUse> uses, const Shape& shape) {
  std::int64_t count = 0;
  const auto each = [&](const Box& box, std::size_t i, const auto& check) {
    for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
      for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
        for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w) {
          Box from = uses[i].symmetry.source_of({{0, d, h, w}, {1, d + 1, h + 1, w + 1}}, shape);
          if (shape != kInput)
            from = shifted(
                from, uses[i].origin.value_or(centred_origin(kInput.spatial(), shape.spatial())));
          const bool inside = Box::whole(kInput).contains(from);
          const std::int64_t pixel =
              inside ? (from.lo[kD] * kInput.h + from.lo[kH]) * kInput.w + from.lo[kW] : -1;
          for (std::int64_t c = box.lo[kC]; c < box.hi[kC]; ++c)
            count += check(static_cast<std::int64_t>(i), c, d, h, w, pixel) ? 0 : 1;
        }
  };
  const auto values = batch.data.as<float>();
  const auto labels = batch.targets.as<std::uint8_t>();
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::int64_t sample = uses[i].sample;
    each(values.span, i, [&](auto n, auto c, auto d, auto h, auto w, std::int64_t pixel) {
      const float expected = pixel < 0 ? kPadding : value(sample, pixel * kInput.c + c);
      return values.at(n, c, d, h, w) == expected;
    });
    each(labels.span, i, [&](auto n, auto c, auto d, auto h, auto w, std::int64_t pixel) {
      return labels.at(n, c, d, h, w) == (pixel < 0 ? kOutsideLabel : label(sample, pixel));
    });
  }
  return count;
}

/// How a run gets its data; no codec: from files. `shape`: of the inputs.
void check_input(const Comm& comm, const PartGrid& grid, const std::filesystem::path& directory,
                 std::optional<StageCodec> codec, const Shape& shape, Findings& findings) {
  const ProcessMesh mesh(comm, {comm.size() / grid.count(), grid});
  Model model(shape);
  ConvolutionOptions options;
  options.filters = kClasses;
  options.window = WindowOptions::cube(3, 1, PaddingKind::kSame);
  model.add("conv", std::make_unique<Convolution>(options));
  const ModelGeometry geometry = model.geometry(grid);
  const SegmentationLoss loss(geometry.tensors().back().shape, {});
  const auto data = open_dataset(comm, directory, "train", kInput, TargetSpec::labels(kClasses));
  const SampleOrder order{Shuffle::kGlobal, 3, kSamples, mesh.shape().replicas, 1};
  const auto part = static_cast<std::size_t>(mesh.part());
  std::optional<StageOptions> stage;
  if (codec) stage = StageOptions{directory / "stage", *codec, false};
  const CropOptions crops{.random = true, .padding = kPadding};
  TrainingInput input(mesh, geometry, DataType::kFloat32,
                      loss.target_box(geometry.tensors().back().owned[part]),
                      {data.get(), order, shape == kInput ? nullptr : &crops}, {}, stage);
  input.open([] { return false; }, [](std::int64_t) {});
  const SymmetryDraw draw(3, shape);
  BatchSchedule schedule = order.training(0, 0, &draw);
  const CropDraw crop_draw(3, shape.spatial(), 0);
  if (shape != kInput)
    for (SampleUse& use : schedule.uses)
      if (use.sample != 2) use.origin = crop_draw(0, use.sample, kInput.spatial());
  input.training().append(schedule);
  for (std::int64_t step = 0; step < schedule.steps; ++step) {
    const auto uses = schedule.taken(step, mesh.replica());
    const Batch& batch = input.training().next();
    findings.expect_equal(batch.count, std::ssize(uses), "samples of a batch");
    findings.expect_equal(different(batch, uses, shape), std::int64_t{0},
                          "values and labels that differ");
  }
  // A network of counts cannot read them.
  bool refused = false;
  try {
    TrainingInput(mesh, geometry, DataType::kInt16, {}, {data.get(), order}, {}, {});
  } catch (const Error&) {
    refused = true;
  }
  findings.expect(refused, [] { return std::string("counts were read from fields"); });
}

TEST_CASE("a trainer's batches of fields and labels equal what was written, on every cut") {
  const SharedDirectory directory(test_world());
  if (test_world().rank() == 0) write_archive(directory.path());
  test_world().barrier();
  for_comms("reading fields and labels", {1, 2, 4, 6}, [&](const Comm& comm, Findings& findings) {
    for (std::int64_t parts = 1; parts <= comm.size(); ++parts)
      for (const PartGrid& grid :
           comm.size() % parts == 0 ? grids_of(parts) : std::vector<PartGrid>())
        if (comm.size() / parts <= kSamples)
          for (const auto codec : {std::optional<StageCodec>(), std::optional(StageCodec::kNone),
                                   std::optional(StageCodec::kDeflate)})
            for (const Shape& shape : {kInput, kCrop})
              check_input(comm, grid, directory.path(), codec, shape, findings);
  });
}

}  // namespace
}  // namespace halomesh
