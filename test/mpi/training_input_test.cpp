// SPDX-License-Identifier: Apache-2.0
// A trainer's batches of fields and labels: from the files of an archive, directly and staged, on
// every cut, transformed, equal the samples that were written.
#include "runtime/load/training_input.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "partition/partition.hpp"
#include "partition/samples/crops.hpp"
#include "partition/samples/sliding_windows.hpp"
#include "runtime/data/archive.hpp"
#include "runtime/data/foreground_scan.hpp"
#include "runtime/data/open_dataset.hpp"
#include "runtime/hdf5/hdf5_file.hpp"
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

/// Those of the inputs, or some that differ, also from one another.
Shape shape_of(std::int64_t sample, bool differ) {
  if (!differ) return kInput;
  const std::vector<Spatial> all{{9, 6, 6}, {6, 2, 11}, {13, 7, 4}, {7, 6, 5}, {3, 12, 4}};
  const Spatial& extents = all[static_cast<std::size_t>(sample)];
  return {2, extents[0], extents[1], extents[2]};
}

/// A sample is in a file of its own.
struct Samples {
  std::filesystem::path directory;
  bool differ = false;

  Shape shape(std::int64_t sample) const { return shape_of(sample, differ); }
};

float value(std::int64_t sample, std::int64_t at) {
  return 0.5F * static_cast<float>((sample * 977 + at * 13) % 4001) - 900.0F;
}
std::uint8_t label(std::int64_t sample, std::int64_t at) {
  return static_cast<std::uint8_t>((sample * 5 + at * 7 / 4) % kClasses);
}

void write_archive(const Samples& samples) {
  std::filesystem::create_directories(samples.directory);
  for (std::int64_t sample = 0; sample < kSamples; ++sample) {
    ArchiveFile content;
    content.samples = 1;
    content.first_sample = sample;
    content.split_samples = kSamples;
    content.shape = samples.shape(sample);
    content.source = "a formula";
    content.values = SampleFormat::Kind::kField;
    content.classes = kClasses;
    ArchiveWriter writer(samples.directory / archive_name("train", sample), content);
    std::vector<float> values;
    std::vector<std::uint8_t> labels;
    for (std::int64_t at = 0; at < content.shape.volume(); ++at)
      values.push_back(value(sample, at));
    for (std::int64_t at = 0; at < content.shape.volume() / content.shape.c; ++at)
      labels.push_back(label(sample, at));
    writer.write(std::as_bytes(std::span(values)), std::span<const std::uint8_t>(labels));
    writer.commit();
  }
}

/// Values and labels of a batch that differ from the formula; `shape`: of the inputs.
std::int64_t different(const Batch& batch, std::span<const SampleUse> uses, const Shape& shape,
                       const Samples& samples) {
  std::int64_t count = 0;
  const auto each = [&](const Box& box, std::size_t i, const auto& check) {
    for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
      for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
        for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w) {
          const Shape whole = samples.shape(uses[i].sample);
          Box from = uses[i].symmetry.source_of({{0, d, h, w}, {1, d + 1, h + 1, w + 1}}, shape);
          if (shape != kInput)
            from = shifted(
                from, uses[i].origin.value_or(centred_origin(whole.spatial(), shape.spatial())));
          const bool inside = Box::whole(whole).contains(from);
          const std::int64_t pixel =
              inside ? (from.lo[kD] * whole.h + from.lo[kH]) * whole.w + from.lo[kW] : -1;
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

/// The bytes of all chunks of the archive.
std::int64_t stored_bytes(const Samples& samples) {
  std::int64_t bytes = 0;
  for (std::int64_t sample = 0; sample < kSamples; ++sample) {
    Hdf5File file = Hdf5File::open(samples.directory / archive_name("train", sample));
    bytes += file.stored_bytes("x") + file.stored_bytes("labels");
  }
  return bytes;
}

/// Windows and labels of volumes that are staged.
void check_volumes(const ProcessMesh& mesh, StagedVolumes& volumes, const SampleOrder& order,
                   const Samples& samples, Findings& findings) {
  BatchSchedule schedule{3, order.replicas, 1, {}};
  for (std::int64_t use = 0; use < schedule.steps * order.replicas; ++use)
    schedule.uses.push_back({use % kSamples, {}, Spatial{use % 4 - 1, -use % 3, use % 2}});
  volumes.windows().append(schedule);
  for (std::int64_t step = 0; step < schedule.steps; ++step)
    findings.expect_equal(
        different(volumes.windows().next(), schedule.taken(step, mesh.replica()), kCrop, samples),
        std::int64_t{0}, "values of windows that differ");
  for (std::int64_t sample = kSamples - 1; sample >= 0; --sample) {
    Shape shape = samples.shape(sample);
    shape.c = 1;
    const auto columns = [&](int rank) {
      const Range range = block_range(shape.w, mesh.world().size(), rank);
      return intersect(Box::whole(shape), {{0, 0, 0, range.lo}, {1, shape.d, shape.h, range.hi}});
    };
    const auto found = volumes.labels(sample, columns).as<std::uint8_t>();
    const Box mine = columns(mesh.world().rank());
    std::int64_t wrong = found.span == mine ? 0 : 1, compared = 0;
    for (std::int64_t d = mine.lo[kD]; d < mine.hi[kD]; ++d)
      for (std::int64_t h = mine.lo[kH]; h < mine.hi[kH]; ++h)
        for (std::int64_t w = mine.lo[kW]; w < mine.hi[kW]; ++w, ++compared)
          wrong += found.at(0, 0, d, h, w) != label(sample, (d * shape.h + h) * shape.w + w);
    findings.expect_equal(wrong, std::int64_t{0}, "labels of a volume that differ");
    findings.expect_equal(mesh.world().sum(compared), shape.volume(), "labels compared");
  }
}

/// How a run gets its data; no codec: from files. `shape`: of the inputs.
void check_input(const Comm& comm, const PartGrid& grid, const Samples& samples,
                 std::optional<StageCodec> codec, const Shape& shape, Findings& findings) {
  const ProcessMesh mesh(comm, {comm.size() / grid.count(), grid});
  Model model(shape);
  ConvolutionOptions options;
  options.filters = kClasses;
  options.window = WindowOptions::cube(3, 1, PaddingKind::kSame);
  model.add("conv", std::make_unique<Convolution>(options));
  const ModelGeometry geometry = model.geometry(grid);
  const SegmentationLoss loss(geometry.tensors().back().shape, {});
  const bool cropped = shape != kInput;
  const auto data =
      open_dataset(comm, samples.directory, "train", cropped ? Shape{kInput.c, 0, 0, 0} : kInput,
                   TargetSpec::labels(kClasses));
  const SampleOrder order{Shuffle::kGlobal, 3, kSamples, mesh.shape().replicas, 1};
  const auto part = static_cast<std::size_t>(mesh.part());
  std::optional<StageOptions> stage;
  if (codec) stage = StageOptions{samples.directory / "stage", *codec, false};
  const CropOptions crops{.random = true, .padding = kPadding};
  const InputSplit split{data.get(), order, cropped ? &crops : nullptr};
  TrainingInput input(mesh, geometry, DataType::kFloat32,
                      loss.target_box(geometry.tensors().back().owned[part]), split,
                      cropped ? split : InputSplit{}, stage);
  const ReadCounts before = read_counts();
  input.open([] { return false; }, [](std::int64_t) {});
  std::int64_t read = comm.sum((read_counts() - before).bytes);
  findings.expect_equal(input.pads(), cropped, "samples are smaller than crops");
  const SymmetryDraw draw(3, shape);
  BatchSchedule schedule = order.training(0, 0, &draw);
  const CropDraw crop_draw(3, shape.spatial(), 0);
  if (cropped)
    for (SampleUse& use : schedule.uses)
      if (use.sample != 2)
        use.origin = crop_draw(0, use.sample, samples.shape(use.sample).spatial());
  input.training().append(schedule);
  for (std::int64_t step = 0; step < schedule.steps; ++step) {
    const auto uses = schedule.taken(step, mesh.replica());
    const Batch& batch = input.training().next();
    findings.expect_equal(batch.count, std::ssize(uses), "samples of a batch");
    findings.expect_equal(different(batch, uses, shape, samples), std::int64_t{0},
                          "values and labels that differ");
  }
  findings.expect_equal(input.validation_volumes() != nullptr, cropped && codec, "staged volumes");
  if (cropped && codec) check_volumes(mesh, *input.validation_volumes(), order, samples, findings);
  if (codec) {  // training and validation, both of the same files
    findings.expect_equal(comm.sum((read_counts() - before).bytes), read, "bytes read later");
    const std::int64_t expected = (cropped ? 2 : 1) * stored_bytes(samples);
    findings.expect_equal(read, expected, "bytes read");
  }
  if (cropped) {
    const auto scanned = scan_foreground(comm, *data, [] { return false; });
    findings.expect(scanned == input.foreground() && std::ssize(scanned) == kSamples,
                    [] { return std::string("other foreground"); });
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
  const Samples alike{directory.path() / "alike", false}, differ{directory.path() / "differ", true};
  if (test_world().rank() == 0)
    for (const Samples& samples : {alike, differ}) write_archive(samples);
  test_world().barrier();
  for_comms("reading fields and labels", {1, 2, 4, 6}, [&](const Comm& comm, Findings& findings) {
    for (std::int64_t parts = 1; parts <= comm.size(); ++parts)
      for (const PartGrid& grid :
           comm.size() % parts == 0 ? grids_of(parts) : std::vector<PartGrid>())
        if (comm.size() / parts <= kSamples)
          for (const auto codec : {std::optional<StageCodec>(), std::optional(StageCodec::kNone),
                                   std::optional(StageCodec::kDeflate)})
            for (const auto& [samples, shape] :
                 {std::pair{&alike, kInput}, {&alike, kCrop}, {&differ, kCrop}})
              check_input(comm, grid, *samples, codec, shape, findings);
  });
}

}  // namespace
}  // namespace halomesh
