// SPDX-License-Identifier: Apache-2.0
// The command `synth`: makes a data set of synthetic universes, divided over the ranks, or of
// images with labels. The bytes do not depend on the number of ranks.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "printable.hpp"
#include "runtime/data/archive.hpp"
#include "runtime/data/example.hpp"
#include "runtime/data/tfrecord.hpp"
#include "runtime/log/json_bytes.hpp"
#include "runtime/log/progress.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "runtime/posix/free_space.hpp"
#include "runtime/posix/memory_needs.hpp"
#include "runtime/posix/stop_signals.hpp"
#include "src/apps/data/synth_fields.hpp"
#include "src/apps/data/synth_files.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/output_directory.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/launch/run_record.hpp"
#include "src/apps/launch/version.hpp"
#include "src/synth/universe.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kArchiveSamplesPerFile = 8;

struct UniverseRequest {
  fs::path out;
  bool overwrite = false;
  SynthFormat format = SynthFormat::kTfRecord;
  Compression compression = Compression::kNone;
  std::string made_with;  ///< all options that determine the data
  SynthPlan plan;
  UniverseOptions universe;

  bool compressed() const {
    return format == SynthFormat::kArchive || compression == Compression::kGzip;
  }
  Shape box() const {
    const std::int64_t extent = universe.box_extent();
    return {std::ssize(kRedshifts), extent, extent, extent};
  }
  /// Bytes of one file: the counts, and less than 128 bytes of framing, names and targets.
  std::int64_t file_bytes() const { return universe.box_elements() * 2 + 128; }
  /// Estimated bytes of the whole set on disk. Particle counts are small numbers, which gzip at
  /// least halves.
  std::int64_t disk_bytes() const {
    const std::int64_t bytes = (plan.train + plan.validation) * file_bytes();
    return compressed() ? bytes / 2 : bytes;
  }
};

Options synth_options() {
  const UniverseOptions d;
  Options options("synth --out DIR [options]",
                  "Makes a data set of synthetic universes in the format of the CosmoFlow "
                  "benchmark: boxes of\nparticle counts at four redshifts, and the four "
                  "cosmological parameters that made them.\nOther kinds are images with a label "
                  "for each voxel: volumes of organs and lesions as an\narchive, and maps of the "
                  "atmosphere with cyclones and rivers of vapour in the format of\nthe DeepCAM "
                  "benchmark. The work is divided over the ranks of mpirun or srun.");
  options.group("Data set")
      .add_required<std::string>("out", "DIR", "directory for train/ and validation/")
      .add_choice("kind", {"cosmology", "volumes", "climate"}, "cosmology", "what samples are")
      .add<Shape>("input", "DxHxWxC", Shape{1, 64, 64, 64},
                  "extents of a sample; a climate image has 96x1x144x16 if none are given")
      .add<std::int64_t>("train", "N", 32, "training samples")
      .at_least(0)
      .add<std::int64_t>("validation", "N", 16, "validation samples, from other universes")
      .at_least(0)
      .add<std::uint64_t>("seed", "S", 0, "random seed; the same seed gives the same bytes")
      .add_choice("format", {"tfrecord", "archive"}, "tfrecord",
                  "TFRecord, one sample per file, or an archive")
      .add_switch("gzip", "compress TFRecord files; archives are always compressed")
      .add_switch("overwrite", "replace the samples of an earlier run");
  options.group("Universe")
      .add<std::int64_t>("extent", "N", d.extent, "voxels along each axis of a sample")
      .at_least(1)
      .add<std::int64_t>("universe-boxes", "B", d.boxes_per_axis,
                         "samples along each axis of a universe")
      .at_least(1)
      .add<double>("voxel-mpc-h", "X", d.voxel_mpc_h, "edge of a voxel in Mpc/h, for h = 0.7")
      .add<std::int64_t>("particles-per-voxel", "P", 8, "mean count: 1, 8, 27 or another cube")
      .at_least(1)
      .add<double>("parameter-spread", "S", d.parameter_spread,
                   "relative half width of the parameters' ranges; wider is easier");
  return options;
}

std::int64_t cube_root(std::int64_t particles) {
  std::int64_t root = 1;
  while (root * root * root < particles) ++root;
  if (root * root * root != particles)
    throw UsageError(
        fmt::format("--particles-per-voxel {} is not a cube", particles),
        fmt::format("use {} or {}", (root - 1) * (root - 1) * (root - 1), root * root * root));
  return root;
}

UniverseRequest universe_request(const Options& options) {
  UniverseRequest r;
  r.out = options.get<std::string>("out");
  r.overwrite = options.get<bool>("overwrite");
  if (options.get<std::string>("format") == "archive") r.format = SynthFormat::kArchive;
  r.made_with = kSynthSource;
  for (const auto& [name, value] : options.resolved())
    if (name != "out" && name != "overwrite" && name != "kind" && name != "input")
      r.made_with += fmt::format(" --{} {}", name, value);
  r.compression = options.get<bool>("gzip") ? Compression::kGzip : Compression::kNone;
  r.universe.boxes_per_axis = options.get<std::int64_t>("universe-boxes");
  r.universe.extent = options.get<std::int64_t>("extent") * r.universe.boxes_per_axis;
  r.universe.voxel_mpc_h = options.get<double>("voxel-mpc-h");
  r.universe.particles_per_voxel_axis = cube_root(options.get<std::int64_t>("particles-per-voxel"));
  r.universe.parameter_spread = options.get<double>("parameter-spread");
  r.universe.seed = options.get<std::uint64_t>("seed");
  r.plan = {options.get<std::int64_t>("train"), options.get<std::int64_t>("validation"),
            r.universe.boxes()};
  check(r.universe);
  return r;
}

/// Throws Error if the universes do not fit the node's memory, before ranks swap or are killed.
/// Collective over `world`.
void check_memory(const Comm& world, const UniverseRequest& request) {
  const Comm& node = world.node();
  const std::int64_t own = request.universe.peak_bytes() + 2 * request.file_bytes();
  const std::int64_t needed = node.size() * own;
  require_memory(fmt::format("a universe of {}^3 voxels", request.universe.extent), own);
  if (const FreeSpace free = free_memory(); free.bytes < needed)
    throw Error(fmt::format("universes of {}^3 voxels on {} ranks of a node need {} bytes of "
                            "memory, {} {}",
                            request.universe.extent, node.size(), needed, free.bytes, free.text()),
                "start fewer ranks per node or make smaller universes");
}

/// Takes one box: its universe, its number in the universe, counts and targets.
using BoxSink = std::function<void(const SynthUniverse& piece, std::int64_t box,
                                   std::span<const std::int16_t>, std::span<const float>)>;

/// Called with the number of samples done; throws Error to end the work.
using Report = std::function<void(std::int64_t done)>;

/// Makes the boxes of one universe; in `report` they count as `step` samples after `done`.
void make_universe(const UniverseRequest& request, const SynthUniverse& piece, const BoxSink& sink,
                   const Report& report, std::int64_t done, std::int64_t step) {
  const Universe universe =
      generate_universe(request.universe, piece.universe, [&](double fraction) {
        report(done + static_cast<std::int64_t>(fraction * static_cast<double>(step)));
      });
  const auto targets = universe.targets();
  std::vector<std::int16_t> voxels(static_cast<std::size_t>(request.universe.box_elements()));
  for (std::int64_t box = 0; box < piece.boxes; ++box) {
    universe.box(box, voxels);
    sink(piece, box, voxels, targets);
  }
}

/// Writes one record to its own file.
void write_record(const UniverseRequest& request, const SynthUniverse& piece, std::int64_t box,
                  std::span<const std::int16_t> voxels, std::span<const float> targets) {
  TfRecordWriter writer(request.out / file_of(request.universe.seed, piece, box),
                        request.compression);
  writer.write(encode_example(voxels, targets));
  writer.commit();
}

/// The content of an archive's file for a group.
ArchiveFile content_of(const UniverseRequest& request, const SynthGroup& group) {
  const bool validation = group.universes.front().validation;
  ArchiveFile content;
  content.samples = group.samples;
  content.first_sample = group.first_sample;
  content.split_samples = validation ? request.plan.validation : request.plan.train;
  content.shape = request.box();
  content.targets = std::tuple_size_v<decltype(std::declval<Universe>().targets())>;
  content.source = request.made_with;
  return content;
}

/// Makes the samples of a group; `report` extrapolates to all ranks, which have equal work.
void make_group(const UniverseRequest& request, const SynthGroup& group, const Report& report,
                std::int64_t ranks, std::int64_t& done) {
  std::optional<ArchiveWriter> archive;
  BoxSink sink = [&](const SynthUniverse& piece, std::int64_t box, auto voxels, auto targets) {
    write_record(request, piece, box, voxels, targets);
  };
  if (request.format == SynthFormat::kArchive) {
    const char* const split = group.universes.front().validation ? "validation" : "train";
    archive.emplace(request.out / archive_name(split, group.file), content_of(request, group));
    sink = [&](const SynthUniverse&, std::int64_t, auto voxels, auto targets) {
      archive->write(voxels, targets);
    };
  }
  const std::int64_t samples = request.plan.train + request.plan.validation;
  for (const SynthUniverse& piece : group.universes) {
    const std::int64_t step = std::min(piece.boxes * ranks, samples - done);
    make_universe(request, piece, sink, report, done, step);
    report(done += step);
  }
  if (archive) archive->commit();
}

/// Records how the data set was made, for people and programs that find it later.
void write_description(const UniverseRequest& request, const Options& options) {
  const Cosmology centre;
  const auto rounded = [](double value) { return std::round(value * 1e6) / 1e6; };
  const double spread = request.universe.parameter_spread;
  const auto range = [&](double value) {
    return nlohmann::json{rounded(value * (1 - spread)), rounded(value * (1 + spread))};
  };
  nlohmann::ordered_json d;
  d["made_by"] = fmt::format("halomesh {} ({})", version(), git_commit());
  const Shape box = request.box();
  d["shape_dhwc"] = {box.d, box.h, box.w, box.c};
  d["redshifts"] = kRedshifts;
  d["targets"] = {"omega_m", "sigma_8", "n_s", "h"};
  d["target_ranges"] = {{"omega_m", range(centre.omega_m)},
                        {"sigma_8", range(centre.sigma_8)},
                        {"n_s", range(centre.n_s)},
                        {"h", range(centre.h)}};
  d["target_scaling"] = "each range is mapped to [-1, 1]";
  for (const auto& [name, value] : options.resolved())
    if (name != "out" && name != "overwrite" && name != "input") d["options"][name] = value;
  write_file_atomically(request.out / "dataset.json", dump_json(d, 2) + "\n");
}

void print_summary(const UniverseRequest& request, double seconds, int ranks) {
  const Shape shape = request.box();
  const std::string out = printable(request.out.string());
  std::cout << request.plan.train << " training and " << request.plan.validation
            << " validation samples of " << shape << " are in " << out << " ("
            << Progress::duration(seconds) << " on " << ranks << (ranks == 1 ? " rank" : " ranks")
            << ").\nTrain on them with: halomesh train --data " << out << " --input " << shape
            << " ...\n";
}

/// Removes the directories of samples if a run fails before it has written any.
struct NoEmptySplits {
  fs::path out;  // "": another rank removes them
  ~NoEmptySplits() {
    std::error_code not_empty;
    if (std::uncaught_exceptions() > 0 && !out.empty())
      for (const char* split : {"train", "validation"}) fs::remove(out / split, not_empty);
  }
};

int synthesise(const Comm& world, const Options& options) {
  if (options.get<std::string>("kind") != "cosmology") return synthesise_fields(world, options);
  if (options.is_given("input"))
    throw UsageError("--input is not an option of --kind cosmology", "use --extent");
  const UniverseRequest request = universe_request(options);
  bind_threads(world);
  check_memory(world, request);
  const auto lock = hold_directory(world, request.out, "making a data set", "--out");
  const NoEmptySplits cleanup{world.rank() == 0 ? request.out : fs::path()};
  on_first_rank(world, [&] {
    prepare_directory(request.out, request.overwrite, request.disk_bytes(), request.format);
    return std::string();
  });

  const auto start = std::chrono::steady_clock::now();
  // Archive files are small enough for the ranks to share even a small data set.
  const std::vector<SynthGroup> groups =
      groups_of(universes_of(request.plan),
                request.format == SynthFormat::kArchive ? kArchiveSamplesPerFile : 1);
  Progress progress("synth", "samples", request.plan.train + request.plan.validation,
                    world.rank() == 0);
  const StopSignals signals;
  const Report report = [&](std::int64_t done) {
    require(!signals.requested(), signals.name() + " received: stopped",
            "give the same command with --overwrite to start again");
    progress.update(done);
  };
  run_with_collective_errors(world, [&](const std::function<bool()>& others_failed) {
    std::int64_t done = 0;
    for (std::int64_t g = world.rank(); g < std::ssize(groups) && !others_failed();
         g += world.size())
      make_group(request, groups[static_cast<std::size_t>(g)], report, world.size(), done);
  });
  progress.finish();
  if (world.rank() != 0) return kExitDone;
  write_description(request, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  print_summary(request, seconds.count(), world.size());
  return kExitDone;
}

}  // namespace

int run_synth(int argc, char** argv) {
  Options options = synth_options();
  return run_parallel(argc, argv, options,
                      [&](const Comm& world) { return synthesise(world, options); });
}

}  // namespace halomesh
