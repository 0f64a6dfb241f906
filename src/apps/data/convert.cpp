// SPDX-License-Identifier: Apache-2.0
// The command `convert`: packs a data set of any format into an archive, divided over the ranks.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "counted.hpp"
#include "printable.hpp"
#include "runtime/data/open_dataset.hpp"
#include "runtime/log/json_bytes.hpp"
#include "runtime/log/progress.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "runtime/posix/free_space.hpp"
#include "runtime/posix/input_file.hpp"
#include "runtime/posix/memory_needs.hpp"
#include "runtime/posix/stop_signals.hpp"
#include "src/apps/data/convert_split.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/output_directory.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/options/misplacement_option.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/source_options.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

Options convert_options() {
  const ArchiveOptions d;
  Options options(
      "convert --from DIR --to DIR [options]",
      "Packs a data set (TFRecord, HDF5, .npy arrays, universes, images of the DeepCAM "
      "benchmark,\n"
      "NIfTI cases, or an archive) into an archive: few large HDF5 files, made for\n"
      "reading blocks. The files are divided over the ranks of mpirun or srun. After a stop, the\n"
      "same command keeps the complete files and continues. With --verify but without --from, an\n"
      "existing archive is checked.");
  options.group("Data set")
      .add<std::string>("from", "DIR", "", "the data set: a directory with train/ and validation/")
      .add_required<std::string>("to", "DIR", "directory for the archive")
      .add<std::string>(kShareOption, "all|train|validation|X", "all",
                        "splits to convert; all: those that exist. Or, where there is no "
                        "validation/, the share X of the samples for it, as --split of train")
      .add<Shape>("input", "DxHxWxC", Shape{4, 128, 128, 128}, "extents of a sample")
      .add_switch("any-extents",
                  "samples with labels may have any extents, and one file each; of --input, only "
                  "the channels count")
      .add<std::int64_t>("targets", "T", 4, "targets of a sample")
      .at_least(1)
      .add<std::int64_t>("classes", "C", 0,
                         "samples have a label of 0 to C-1 for each voxel, in place of targets")
      .at_least(0)
      .below(257)
      .add_switch("whole",
                  "keep universes whole: samples of 4 times --input along each spatial axis");
  add_misplacement_option(options);
  add_source_options(options);
  options.group("Archive")
      .add_choice("codec", {"gzip", "none"}, "gzip", "compression, after a byte shuffle")
      .add<std::int64_t>("level", "1..9", d.gzip, "gzip level: 1 is fastest, 9 smallest")
      .at_least(1)
      .below(10)
      .add<std::int64_t>("samples-per-file", "N", d.samples_per_file, "maximum samples per file")
      .at_least(1)
      .add_switch(
          "verify",
          "read the archive back and compare it with its checksums and, if given, the source");
  return options;
}

constexpr const char* kSourceDescription = "dataset.json";

struct Request {
  std::string from;
  DataSource source{fs::path()};
  ArchiveOptions archive;
  std::vector<std::string> splits;
  Shape shape;
  TargetSpec targets = 0;
  bool verify = false;
};

bool holds_split(const DataSource& source, const std::string& split) {
  const fs::path files = source.of_split(split);
  return (fs::is_directory(files) && !fs::is_empty(files)) ||
         fs::exists(source.directory / archive_name(split, 0));
}

/// Reads --split.
void choose_splits(const Options& options, Request& r) {
  const auto split = options.get<std::string>(kShareOption);
  const auto share = from_text<double>(split);
  const bool is_share = share && *share > 0 && *share < 1 && !r.from.empty();
  if (split != "all" && split != "train" && split != "validation" && !is_share)
    throw UsageError(fmt::format("--split {}: expected all, train, validation or, with --from, a "
                                 "share above 0 and below 1",
                                 split),
                     "--split 0.2 takes a fifth of the samples for validation");
  if (is_share) set_share(r.source, *share);
  r.splits = {"train", "validation"};
  if (split != "all" && !is_share) r.splits = {split};
}

Request request_of(const Options& options) {
  Request r;
  r.source = source_of(options, "from");
  r.from = r.source.directory.string();
  r.archive.directory = options.get<std::string>("to");
  r.archive.samples_per_file = options.get<std::int64_t>("samples-per-file");
  if (options.get<std::string>("codec") == "gzip")
    r.archive.gzip = static_cast<int>(options.get<std::int64_t>("level"));
  else
    r.archive.gzip = 0;
  r.targets = options.get<std::int64_t>("targets");
  if (const auto classes = options.get<std::int64_t>("classes"); classes > 0) {
    if (options.is_given("targets"))
      throw UsageError("--classes and --targets are both given", "keep one of them");
    r.targets = TargetSpec::labels(classes);
  }
  r.verify = options.get<bool>("verify");
  r.shape = options.get<Shape>("input");
  if (options.get<bool>("whole"))
    r.shape = {r.shape.c, 4 * r.shape.d, 4 * r.shape.h, 4 * r.shape.w};
  if (options.get<bool>("any-extents")) {
    if (r.targets.classes == 0)
      throw UsageError("--any-extents is for samples with labels", "give --classes as well");
    r.shape = {r.shape.c, 0, 0, 0};
    r.archive.samples_per_file = 1;
  }
  choose_splits(options, r);
  if (r.from.empty() && !r.verify)
    throw UsageError("--from is missing", "name the data set, or --verify an archive");
  return r;
}

/// Resolves --split all to the existing splits. Collective.
void find_splits(const Comm& world, Request& request) {
  const DataSource where = request.from.empty() ? request.archive.directory : request.source;
  const std::string there = on_first_rank(world, [&] {
    std::string marks;
    for (const std::string& split : request.splits) marks += holds_split(where, split) ? '+' : '-';
    require(
        marks.find('+') != std::string::npos || request.splits.size() == 1,
        text("{} holds neither train/ nor validation/, nor an archive", where.directory.c_str()),
        "name the directory that holds them");
    return marks;
  });
  if (request.splits.size() == 1) return;  // problems are reported when it is opened
  std::vector<std::string> found;
  for (std::size_t s = 0; s < there.size(); ++s)
    if (there[s] == '+') found.push_back(request.splits[s]);
  request.splits = found;
}

/// Throws Error if samples do not fit the memory of the node. Collective.
void check_memory(const Comm& world, const Dataset& data) {
  const Comm& node = world.node();
  const std::int64_t largest = data.shape().volume() * size_of(data.format().type());
  const std::int64_t needed = node.size() * 2 * largest;
  require_memory(text("a sample of {}", data.shape()), 2 * largest);
  if (const FreeSpace free = free_memory(); free.bytes < needed)
    throw Error(text("samples of {} on {} ranks of one node need {} bytes of memory, {} {}",
                     data.shape(), node.size(), needed, free.bytes, free.text()),
                "start fewer ranks per node");
}

std::string gigabytes(std::int64_t bytes) {
  return fmt::format("{:.3g} GB", static_cast<double>(bytes) / 1e9);
}

/// Checks the free space for uncompressed files, whose size is known in advance.
void check_space(const Request& request, std::int64_t bytes) {
  if (request.archive.gzip > 0) return;
  const FreeSpace free = free_space(request.archive.directory);
  require(free.bytes >= bytes,
          text("the archive needs {} more bytes in {}, {} {}", bytes,
               request.archive.directory.c_str(), free.bytes, free.text()),
          "free space, use another --to, or --codec gzip");
}

/// Shows progress; extrapolates from rank 0's share, because all ranks have equal work.
class Ticker {
 public:
  Ticker(Progress& progress, const Comm& world, std::int64_t total, std::int64_t done)
      : progress_(progress), ranks_(world.size()), total_(total), done_(done) {}
  void operator()() {
    if (signals_.requested())
      throw Error(signals_.name() + " received: stopped",
                  "run the same command again: it keeps complete files");
    done_ += ranks_;
    progress_.update(std::min(done_, total_));
  }

 private:
  Progress& progress_;
  StopSignals signals_;
  std::int64_t ranks_, total_, done_;
};

/// Converts one split and returns rank 0's summary.
std::string convert_split(const Comm& world, const Request& request, const std::string& split,
                          const Dataset* source) {
  std::string told;
  if (source != nullptr) {
    check_memory(world, *source);
    const SplitConversion conversion(world, *source, split, request.archive);
    on_first_rank(world, [&] {
      check_space(request, conversion.bytes_missing());
      return std::string();
    });
    Progress progress("convert " + split, "samples", conversion.samples(), world.rank() == 0,
                      conversion.samples_kept());
    Ticker tick(progress, world, conversion.samples(), conversion.samples_kept());
    conversion.run([&tick] { tick(); });
    progress.finish();
    told = fmt::format("{}: {} of {}{} in {}", split, counted(conversion.samples(), "sample"),
                       request.shape.d == 0 ? "up to " : "", source->shape(),
                       counted(conversion.files(), "file"));
    if (conversion.samples_kept() > 0)
      told += fmt::format(" ({} already converted)", counted(conversion.samples_kept(), "sample"));
  }
  if (!request.verify) return told;
  const auto archive =
      open_dataset(world, request.archive.directory, split, request.shape, request.targets);
  check_memory(world, *archive);
  Progress progress("verify " + split, "samples", archive->size(), world.rank() == 0);
  Ticker tick(progress, world, archive->size(), 0);
  verify_archive(world, *archive, source, [&tick] { tick(); });
  progress.finish();
  return fmt::format(
      "{}{}",
      told.empty() ? fmt::format("{}: {}", split, counted(archive->size(), "sample")) : told,
      source != nullptr ? ", verified against the source" : ", verified");
}

std::int64_t archive_bytes(const Request& request) {
  std::int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(request.archive.directory))
    for (const std::string& split : request.splits)
      if (entry.path().filename().string().starts_with(split + "-"))
        bytes += static_cast<std::int64_t>(entry.file_size());
  return bytes;
}

/// Copies the description of the samples and the names of their targets or classes, which hold for
/// the archive as well; or describes targets by the titles that their table has.
void copy_description(const Comm& world, const Request& request, const Dataset& source) {
  on_first_rank(world, [&] {
    const fs::path from = fs::path(request.from) / kSourceDescription,
                   to = request.archive.directory / kSourceDescription;
    std::error_code ignored;
    nlohmann::json names;
    std::istringstream titles(source.target_titles());
    for (std::string name; std::getline(titles, name, ',');) names.push_back(name);
    if (fs::exists(from, ignored))
      write_file_atomically(to, read_input_file(from));
    else if (!names.empty() && !fs::exists(to, ignored))
      write_file_atomically(to, dump_json(nlohmann::json{{"targets", names}}, 2) + "\n");
    return std::string();
  });
}

int convert(const Comm& world, const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  Request request = request_of(options);
  check_output(world, options, "to");
  find_splits(world, request);
  std::vector<std::unique_ptr<const Dataset>> sources;
  for (const std::string& split : request.splits)
    sources.push_back(request.from.empty() ? nullptr
                                           : open_dataset(world, request.source, split,
                                                          request.shape, request.targets));
  for (const auto& source : sources)
    if (source != nullptr) heed_misplacement(world, options, *source);
  std::unique_ptr<DirectoryLock> lock;
  if (!request.from.empty()) {
    lock = hold_directory(world, request.archive.directory, "converting", "--to");
    on_first_rank(world, [&] {  // leftovers of a killed run
      for (const std::string& split : request.splits)
        remove_partial_files(request.archive.directory, split + "-");
      remove_partial_files(request.archive.directory, kSourceDescription);
      return std::string();
    });
  }
  std::int64_t raw_bytes = 0;
  std::vector<std::string> told;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    told.push_back(convert_split(world, request, request.splits[s], sources[s].get()));
    for (std::int64_t i = 0; sources[s] && i < sources[s]->size(); ++i)
      raw_bytes += sample_bytes(*sources[s], i);
  }
  if (!request.from.empty()) copy_description(world, request, *sources.front());
  if (world.rank() != 0) return kExitDone;
  for (const std::string& line : told) std::cout << line << '\n';
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const std::int64_t bytes = archive_bytes(request);
  std::cout << printable(request.archive.directory.string()) << " takes " << gigabytes(bytes);
  if (raw_bytes > 0)
    std::cout << ", " << static_cast<double>(bytes) / static_cast<double>(raw_bytes)
              << " of the voxels' " << gigabytes(raw_bytes);
  std::cout << " (" << Progress::duration(seconds.count()) << ")\n";
  return kExitDone;
}

}  // namespace

int run_convert(int argc, char** argv) {
  Options options = convert_options();
  return run_parallel(argc, argv, options,
                      [&](const Comm& world) { return convert(world, options); });
}

}  // namespace halomesh
