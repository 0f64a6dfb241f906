// SPDX-License-Identifier: Apache-2.0
// Data sets of images with labels: see synth_fields.hpp.
#include "src/apps/data/synth_fields.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "error.hpp"
#include "printable.hpp"
#include "runtime/data/archive.hpp"
#include "runtime/data/climate_file.hpp"
#include "runtime/log/json_bytes.hpp"
#include "runtime/log/progress.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "runtime/posix/stop_signals.hpp"
#include "src/apps/data/synth_files.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/output_directory.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/launch/run_record.hpp"
#include "src/apps/launch/version.hpp"
#include "src/synth/labelled_sample.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSamplesPerFile =
    8;  // for archives: few enough for ranks to share a small set

struct FieldsRequest {
  fs::path out;
  bool overwrite = false, is_climate = false;
  std::int64_t train = 0, validation = 0;
  std::uint64_t seed = 0;
  Shape shape;
  std::string made_with;

  std::int64_t samples() const { return train + validation; }
  SynthFormat format() const { return is_climate ? SynthFormat::kClimate : SynthFormat::kArchive; }
  /// Estimated bytes on disk of values and labels; noise hardly compresses.
  std::int64_t disk_bytes() const {
    return samples() * (shape.volume() * 4 + shape.volume() / shape.c * 4);
  }
  /// Makes a sample; those of the validation split follow those of the training split.
  LabelledSample make(std::int64_t sample) const {
    return is_climate ? make_climate(seed, sample, shape) : make_volume(seed, sample, shape);
  }
};

FieldsRequest fields_request(const Options& options) {
  FieldsRequest r;
  const auto kind = options.get<std::string>("kind");
  r.is_climate = kind == "climate";
  for (const char* name : {"format", "gzip", "extent", "universe-boxes", "voxel-mpc-h",
                           "particles-per-voxel", "parameter-spread"})
    if (options.is_given(name))
      throw UsageError(fmt::format("--{} is not an option of --kind {}", name, kind),
                       "leave it out; --input sets the extents");
  r.out = options.get<std::string>("out");
  r.overwrite = options.get<bool>("overwrite");
  r.train = options.get<std::int64_t>("train");
  r.validation = options.get<std::int64_t>("validation");
  r.seed = options.get<std::uint64_t>("seed");
  r.shape = r.is_climate ? Shape{kClimateChannels, 96, 1, 144} : Shape{1, 64, 64, 64};
  if (options.is_given("input")) r.shape = options.get<Shape>("input");
  r.made_with = fmt::format("{} --kind {} --input {} --seed {} --train {} --validation {}",
                            kSynthSource, kind, r.shape, r.seed, r.train, r.validation);
  if (r.samples() > 0) static_cast<void>(r.make(0));  // refuses impossible shapes
  return r;
}

/// The samples of one file, the unit of work.
struct File {
  const char* split;
  std::int64_t number = 0, first = 0, samples = 0;  // within the split
  std::int64_t of_split = 0;
};

std::vector<File> files_of(const FieldsRequest& request) {
  std::vector<File> files;
  const std::int64_t most = request.is_climate ? 1 : kSamplesPerFile;
  for (const auto& [split, all] :
       {std::pair{"train", request.train}, {"validation", request.validation}})
    for (std::int64_t first = 0; first < all; first += most)
      files.push_back({split, first / most, first, std::min(most, all - first), all});
  return files;
}

/// Makes and writes the samples of one file; `done` is called after each. Returns the sums over a
/// climate image.
std::vector<ChannelSums> write_file(const FieldsRequest& request, const File& file,
                                    const std::function<void()>& done) {
  const std::int64_t before = file.split == std::string("train") ? 0 : request.train;
  if (request.is_climate) {
    const LabelledSample sample = request.make(before + file.first);
    write_climate_file(request.out / climate_file_of(request.seed, file.split, file.number),
                       request.shape, sample.values, sample.labels);
    done();
    return channel_sums(sample.values, request.shape.c);
  }
  ArchiveFile content;
  content.samples = file.samples;
  content.first_sample = file.first;
  content.split_samples = file.of_split;
  content.shape = request.shape;
  content.source = request.made_with;
  content.values = SampleFormat::Kind::kField;
  content.classes = kSynthClasses;
  ArchiveWriter writer(request.out / archive_name(file.split, file.number), content);
  for (std::int64_t i = 0; i < file.samples; ++i) {
    const LabelledSample sample = request.make(before + file.first + i);
    writer.write(std::as_bytes(std::span(sample.values)),
                 std::span<const std::uint8_t>(sample.labels));
    done();
  }
  writer.commit();
  return {};
}

/// Adds the sums of all files of the training split in their order, whatever the number of ranks.
void write_stats(const Comm& world, const FieldsRequest& request, const std::string& mine) {
  const std::vector<std::string> all = world.all_gather(mine);
  if (world.rank() != 0) return;
  const std::size_t bytes = kClimateChannels * sizeof(ChannelSums);
  std::vector<ChannelSums> sums, one(kClimateChannels);
  for (std::int64_t sample = 0; sample < request.train; ++sample) {
    const auto rank = static_cast<std::size_t>(sample % world.size());
    std::memcpy(one.data(),
                all[rank].data() + static_cast<std::size_t>(sample / world.size()) * bytes, bytes);
    add(one, sums);
  }
  write_climate_stats(request.out / "stats.h5", sums);
}

void write_fields_description(const FieldsRequest& request, const Options& options) {
  nlohmann::ordered_json d;
  d["made_by"] = fmt::format("halomesh {} ({})", version(), git_commit());
  const Shape& s = request.shape;
  d["shape_dhwc"] = {s.d, s.h, s.w, s.c};
  d["classes"] = request.is_climate ? nlohmann::json{"background", "cyclone", "river"}
                                    : nlohmann::json{"background", "organ", "lesion"};
  for (const auto& [name, value] : options.resolved())
    if (name == "kind" || name == "train" || name == "validation" || name == "seed")
      d["options"][name] = value;
  write_file_atomically(request.out / "dataset.json", dump_json(d, 2) + "\n");
}

}  // namespace

int synthesise_fields(const Comm& world, const Options& options) {
  const FieldsRequest request = fields_request(options);
  if (request.is_climate && request.train == 0)
    throw UsageError("--train 0: the ranges of the channels come from the training samples",
                     "make at least one");
  bind_threads(world);
  const auto lock = hold_directory(world, request.out, "making a data set", "--out");
  on_first_rank(world, [&] {
    prepare_directory(request.out, request.overwrite, request.disk_bytes(), request.format());
    return std::string();
  });
  const auto start = std::chrono::steady_clock::now();
  Progress progress("synth", "samples", request.samples(), world.rank() == 0);
  const StopSignals signals;
  const std::vector<File> files = files_of(request);
  std::string sums;  // the sums of this rank's training images
  run_with_collective_errors(world, [&](const std::function<bool()>& others_failed) {
    std::int64_t done = 0;
    const auto tick = [&] {
      require(!signals.requested(), signals.name() + " received: stopped",
              "give the same command with --overwrite to start again");
      done += world.size();  // ranks have equal work
      progress.update(std::min(done, request.samples()));
    };
    for (std::int64_t f = world.rank(); f < std::ssize(files) && !others_failed();
         f += world.size()) {
      const File& file = files[static_cast<std::size_t>(f)];
      const std::vector<ChannelSums> of_file = write_file(request, file, tick);
      sums.append(reinterpret_cast<const char*>(of_file.data()),  // NOLINT: bytes
                  of_file.size() * sizeof(ChannelSums));
    }
  });
  if (request.is_climate) write_stats(world, request, sums);
  progress.finish();
  if (world.rank() != 0) return kExitDone;
  write_fields_description(request, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::cout << request.train << " training and " << request.validation << " validation samples of "
            << request.shape << " with labels of " << kSynthClasses << " classes are in "
            << printable(request.out.string()) << " (" << Progress::duration(seconds.count())
            << " on " << world.size() << (world.size() == 1 ? " rank" : " ranks") << ").\n";
  return kExitDone;
}

}  // namespace halomesh
