// SPDX-License-Identifier: Apache-2.0
// Staging: see stager.hpp.
#include "runtime/stage/stager.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <sstream>
#include <utility>

#include "error.hpp"
#include "runtime/data/data_content.hpp"
#include "runtime/data/foreground_scan.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/mpi/nonblocking_any.hpp"
#include "runtime/mpi/spread_over.hpp"
#include "runtime/stage/gather_shares.hpp"
#include "runtime/stage/sample_scatter.hpp"

namespace halomesh {
namespace {

/// A margin for blocks that compress less well than the first sample.
constexpr double kDeflateMargin = 1.1;

std::string megabytes(double bytes) {
  return fmt::format("{:.{}f} MB", bytes * 1e-6, bytes < 1e7 ? 3 : 0);
}

/// Names other stages that earlier runs kept in this directory.
std::string others_kept(const std::filesystem::path& directory, const std::string& mine) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(directory, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("halomesh-stage-") && name != mine)
      return fmt::format("remove {}, which another run kept, ", entry.path().c_str());
  }
  return "free space there, ";
}

/// Describes the parts' blocks of the samples, as far as data and mesh do not determine them.
std::string text_of(const StagedSamples& samples) {
  const StagedSample* const each = samples.each();
  if (each == nullptr) return " in blocks of their own extents";
  std::ostringstream text;
  text << " of " << each->shape << ", blocks";
  for (const Box& kept : each->blocks) text << ' ' << kept;
  return text.str();
}

/// True if ranks agree after this round whether to stop.
bool ends_interval(std::int64_t round, std::int64_t rounds, std::int64_t between) {
  return round % between == 0 || round + 1 == rounds;
}

/// Opens the directory on every rank, or on none. Collective.
StageDirectory open_on_all_ranks(const Comm& job, const std::filesystem::path& path) {
  std::optional<StageDirectory> directory;
  on_all_ranks(job, [&] { directory.emplace(path); });
  return std::move(*directory);
}

}  // namespace

std::int64_t Stager::rounds_between_stops(std::int64_t sample_bytes) {
  constexpr std::int64_t kMost = 4, kBytes = 64 << 20;
  return std::clamp<std::int64_t>(kBytes / sample_bytes, 1, kMost);
}

Stager::Stager(const ProcessMesh& mesh, StageOptions options, std::vector<SplitSource> splits,
               const Comm* job)
    : mesh_(mesh),
      job_(job != nullptr ? *job : mesh.world()),
      options_(std::move(options)),
      splits_(std::move(splits)),
      directory_(open_on_all_ranks(job_, options_.directory)) {
  if (job_.size() > mesh.world().size()) twins_ = job_.split(mesh.world().rank(), job_.rank());
  require(!twins_ || !options_.keep, "runs that share a stage cannot keep it",
          "leave --keep-stage out");
  for (std::size_t s = 0; s < splits_.size(); ++s) {
    const Dataset& data = *splits_[s].data;
    fields_.push_back({s, false});
    if (!data.has_labels()) continue;
    const std::optional<StagedSamples>& labels = splits_[s].labels;
    for (std::int64_t sample = 0; sample < data.size(); ++sample) {
      Shape of_labels = data.shape_of(sample);
      of_labels.c = 1;
      require(labels && labels->shape(sample) == of_labels,
              text("labels {} of sample {} of {} are to be staged in blocks of {}", of_labels,
                   data.name(sample), data.directory().c_str(),
                   labels ? labels->shape(sample) : Shape{}),
              "read the samples from their files: leave out --stage-dir");
    }
    fields_.push_back({s, true});
  }
}

std::string Stager::title_of(const Field& field) const {
  return split_of(field).name + (field.is_labels ? "-labels" : "");
}

/// All that a kept stage depends on. Collective.
std::string Stager::key() const {
  std::ostringstream text;
  const MeshShape& mesh = mesh_.shape();
  text << "format 3, codec " << static_cast<int>(options_.codec);
  if (options_.codec == StageCodec::kDeflate) text << " of format " << BlockCodec::kFormat;
  text << ", mesh " << mesh.replicas << " x " << to_string(mesh.parts);
  for (const Field& field : fields_) {
    const SplitSource& split = split_of(field);
    if (field.is_labels) {
      text << ", labels" << text_of(*split.labels);
      continue;
    }
    text << ", samples" << text_of(split.samples) << ' ' << name_of(type_of(field));
    for (const ChannelRange& range : split.data->format().ranges())
      text << fmt::format(" {}:{}", range.min, range.max);
  }
  for (const SplitSource& split : splits_) {
    text << ", " << split.name << ' ' << split.data->identity() << ", "
         << content_of(mesh_.world(), *split.data) << " slots";
    for (std::int64_t r = 0; r < mesh.replicas; ++r) text << ' ' << split.owners.slots(r);
  }
  return text.str();
}

std::vector<std::string> Stager::names() const {
  std::vector<std::string> all;
  for (const Field& field : fields_) all.push_back(title_of(field));
  return all;
}

/// The slots of a replica that run number `run` stages.
Range Stager::share_of(const SplitSource& split, std::int64_t replica, std::int64_t run) const {
  return block_range(split.owners.slots(replica), runs(), run);
}

/// The parts' boxes of the samples in some slots of this replica, by slot.
StagedSamples Stager::samples_in(const Field& field, const Range& slots) const {
  const SplitSource& split = split_of(field);
  std::vector<std::int64_t> samples;
  for (std::int64_t slot = slots.lo; slot < slots.hi; ++slot)
    samples.push_back(split.owners.sample({mesh_.replica(), slot}));
  return (field.is_labels ? *split.labels : split.samples).chosen(samples);
}

/// The number of values that this part keeps in each slot.
std::vector<std::int64_t> Stager::values_of(const StagedSamples& samples,
                                            std::int64_t slots) const {
  std::vector<std::int64_t> values;
  for (std::int64_t slot = 0; slot < slots; ++slot)
    values.push_back(samples.block(slot, mesh_.part()).volume());
  return values;
}

/// Bytes of the slots without compression.
std::int64_t Stager::bytes_of(const Field& field, const Range& slots) const {
  std::int64_t bytes = 0;
  for (const std::int64_t values : values_of(samples_in(field, slots), slots.extent()))
    bytes += StageFile::raw_bytes(values, type_of(field));
  return bytes;
}

/// Bytes of the largest sample, or of its labels.
std::int64_t Stager::bytes_of_largest(const Field& field) const {
  Shape largest = split_of(field).data->shape();
  if (field.is_labels) largest.c = 1;
  return size_of(type_of(field)) * largest.volume();
}

Stager::Work Stager::open(const Field& field, Descriptor file) const {
  const Range share = share_of(split_of(field), mesh_.replica(), run_number());
  const std::int64_t slots = share.extent();
  StagedSamples samples = samples_in(field, share);
  return {StageFile(std::move(file),
                    fmt::format("{} in {}", title_of(field), directory_.path().c_str()),
                    options_.codec, values_of(samples, slots), type_of(field)),
          {},
          std::move(samples),
          share,
          block_range(slots, mesh_.shape().parts.count(), mesh_.part()),
          {},
          {}};
}

/// Prepares to stage a field. Collective over mesh.group().
Stager::Work Stager::begin(const Field& field) const {
  const auto make = [this] { return directory_.nameless_file(); };
  Work work = open(field, make());
  // A block that is to be compressed stays in memory until it is complete, on the part that keeps
  // it.
  if (options_.codec == StageCodec::kNone)
    work.files = exchange_node_files(mesh_.group(), bytes_of(field, work.share) > 0, make);
  if (twins_) work.copies = make();
  return work;
}

/// Reuses the stage that an earlier run kept; true if all ranks could. Unless options_.keep is set,
/// its files then lose their names.
bool Stager::take_up_kept(std::vector<Work>& works) {
  if (twins_) return false;
  key_ = key();
  const bool exists = KeptStage::exists(directory_.path(), key_);
  if (!options_.keep && mesh_.world().max(std::int64_t{exists ? 1 : 0}) == 0) return false;
  std::string holder;
  std::optional<std::vector<KeptStage::Split>> found;
  if (options_.keep || exists) {
    kept_.emplace(directory_.path(), key_, mesh_.world().rank());
    holder = kept_->lock();
    if (holder.empty()) found = kept_->find(names());
  }
  if (const std::string other = mesh_.world().first_text(holder); options_.keep && !other.empty()) {
    discard();
    throw Error(fmt::format("the stage {} is in use by {}",
                            (directory_.path() / KeptStage::directory_name(key_)).string(), other),
                "wait for it to end, leave --keep-stage out or give another --stage-dir");
  }
  const bool all = mesh_.world().sum(std::int64_t{found ? 1 : 0}) == mesh_.world().size();
  if (all)
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      Work work = open(fields_[i], {});
      work.file.reopen(std::move((*found)[i].files), std::move((*found)[i].index));
      work.targets = std::move((*found)[i].targets);
      works.push_back(std::move(work));
    }
  if (kept_ && holder.empty()) {
    if (!options_.keep)
      kept_->remove();
    else if (!all)
      kept_->clear();
  }
  if (!options_.keep) kept_.reset();
  return all;
}

/// Removes this run's stage, unless it is kept and complete. Collective over the job.
void Stager::discard() {
  kept_.reset();
  job_.barrier();  // the directory is empty once all have cleaned up
  directory_.remove_if_made();
}

/// Throws an Error on every rank if the space of some node is too small for its ranks.
void Stager::require_space(double share_of_raw) {
  std::int64_t needed = 0;
  for (const Field& field : fields_) {
    const SplitSource& split = split_of(field);
    std::int64_t bytes = bytes_of(field, share_of(split, mesh_.replica(), run_number()));
    if (near_)  // the first rank stores the slots that near ranks have not staged
      if (const std::int64_t staged = near_->sum(bytes); near_->rank() == 0)
        bytes += bytes_of(field, {0, split.owners.slots(mesh_.replica())}) - staged;
    needed += bytes;
  }
  const StageDirectory::Space space = directory_.space();
  const Comm& node = job_.node();
  // Ranks of a node may stage to different file systems, such as one for each NUMA domain.
  std::map<std::uint64_t, std::pair<std::int64_t, int>> of_device;
  for (const std::string& text : node.all_gather(fmt::format("{} {}", space.device, needed))) {
    std::istringstream fields(text);
    std::uint64_t device = 0;
    std::int64_t bytes = 0;
    fields >> device >> bytes;
    of_device[device].first += bytes;
    of_device[device].second += 1;
  }
  const auto [raw, ranks] = of_device[space.device];
  const double wanted = static_cast<double>(raw) * share_of_raw;
  std::string problem;
  if (const auto free = static_cast<double>(space.free.bytes); wanted > free)
    problem =
        fmt::format("the stage needs {} in {} for the {} ranks of a node, {} {}", megabytes(wanted),
                    directory_.path().c_str(), ranks, megabytes(free), space.free.text());
  if (const std::string text = job_.first_text(problem); !text.empty()) {
    const std::string others = others_kept(directory_.path(), KeptStage::directory_name(key_));
    discard();
    throw Error(
        text, others + (options_.codec == StageCodec::kNone ? "use --stage-codec deflate, " : "") +
                  (space.free.is_memory ? "give the job more memory or more nodes"
                                        : "a larger RAM disk or more nodes"));
  }
}

/// Reads a first sample into memory to find out how well blocks compress, before anything is
/// written. Throws Error if compressed blocks do not fit either. Collective over the job.
std::vector<std::byte> Stager::try_deflate(const Field& field, const Read& read,
                                           std::int64_t bytes_of_sample) {
  std::vector<std::byte> sample;
  double share = 0;
  if (read) {
    const std::int64_t size = size_of(type_of(field));
    sample.reserve(static_cast<std::size_t>(bytes_of_sample));
    read([&](std::int64_t, std::span<const std::byte> bytes) {
      sample.insert(sample.end(), bytes.begin(), bytes.end());
    });
    BlockCodec codec;
    share = static_cast<double>(codec.deflate(sample, size).size()) /
            static_cast<double>(sample.size());
  }
  require_space(kDeflateMargin * job_.max(share));
  return sample;
}

/// Reads the sample `number` of a field into a sink, and its targets too where it has values.
Stager::Read Stager::read_of(const Field& field, SampleReader& reader, std::int64_t number,
                             std::span<float> targets) {
  return [&field, &reader, number, targets](const VoxelSink& sink) {
    if (field.is_labels) return reader.stream_labels(number, sink);
    reader.stream(number, sink, scalars(targets));
  };
}

/// Stages a field. False if some rank has been told to stop.
bool Stager::stage(const Field& field, Work& work, const std::function<bool()>& must_stop,
                   const Report& report) {
  const SplitSource& split = split_of(field);
  const std::int64_t slots = work.share.extent();
  const std::int64_t targets = split.data->has_labels() ? 0 : split.data->targets();
  const std::int64_t rounds = job_.max(block_range(slots, mesh_.group().size(), 0).hi);
  const std::int64_t between = rounds_between_stops(bytes_of_largest(field));
  SampleScatter scatter(mesh_.group(), work.samples, work.file, std::move(work.files));
  NonblockingAny stop(job_);
  const auto reader = split.data->reader();
  const auto sample_of = [&](std::int64_t round) {
    return split.owners.sample({mesh_.replica(), work.share.lo + work.run.lo + round});
  };
  const std::int64_t count = work.run.extent();
  work.targets.resize(static_cast<std::size_t>(count * targets));
  const std::int64_t before = record_.samples;
  for (std::int64_t round = 0; round < rounds; ++round) {
    const std::int64_t slot = work.run.lo + round;
    Read read;
    if (round < count) {
      if (round + 1 < count) reader->expect(sample_of(round + 1));
      read = read_of(field, *reader, sample_of(round),
                     std::span(work.targets)
                         .subspan(static_cast<std::size_t>(round * targets),
                                  static_cast<std::size_t>(targets)));
    }
    if (round == 0 && before == 0 && options_.codec == StageCodec::kDeflate) {
      const std::vector<std::byte> sample = try_deflate(
          field, read, read ? size_of(type_of(field)) * work.samples.shape(slot).volume() : 0);
      if (read) scatter.take(slot, 0, sample);
    } else if (read) {
      read([&](std::int64_t offset, std::span<const std::byte> bytes) {
        scatter.take(slot, offset, bytes);
        stop.progress();
      });
    }
    if (read) scatter.end_sample(slot);
    if (!field.is_labels)
      report(std::min(before + (round + 1) * job_.size(), before + split.owners.samples()));
    if (!ends_interval(round, rounds, between)) continue;
    scatter.receive(round + 1);
    if (stop.take_result()) return false;
    stop.start(must_stop());
  }
  if (stop.take_result()) return false;
  scatter.finish();
  work.file.finish();
  if (!field.is_labels) record_.samples += split.owners.samples();
  return true;
}

/// Gathers the targets of all samples from the ranks that have read them.
std::vector<float> Stager::all_targets(const SplitSource& split, const Work& work) const {
  if (split.data->has_labels()) return {};
  const std::int64_t targets = split.data->targets(), parts = mesh_.shape().parts.count();
  const std::string mine(reinterpret_cast<const char*>(work.targets.data()),  // NOLINT: bytes
                         work.targets.size() * sizeof(float));
  const std::vector<std::string> read = job_.all_gather(mine);
  std::vector<float> all(static_cast<std::size_t>(split.owners.samples() * targets));
  for (std::size_t rank = 0; rank < read.size(); ++rank) {
    const std::int64_t ranks = mesh_.shape().ranks();
    const std::int64_t in_run = static_cast<std::int64_t>(rank) % ranks;
    const std::int64_t replica = mesh_.shape().replica_of(in_run);
    const Range share = share_of(split, replica, static_cast<std::int64_t>(rank) / ranks);
    const Range run = block_range(share.extent(), parts, mesh_.shape().part_of(in_run));
    const std::size_t bytes = static_cast<std::size_t>(targets) * sizeof(float);
    require(read[rank].size() == static_cast<std::size_t>(run.hi - run.lo) * bytes,
            text("the stage of rank {} lacks targets", rank), "remove it and start again");
    for (std::int64_t slot = run.lo; slot < run.hi; ++slot)
      std::memcpy(all.data() + split.owners.sample({replica, share.lo + slot}) * targets,
                  read[rank].data() + static_cast<std::size_t>(slot - run.lo) * bytes, bytes);
  }
  return all;
}

void Stager::keep(const std::vector<Work>& works) {
  for (std::size_t i = 0; i < works.size(); ++i)
    kept_->add(title_of(fields_[i]), works[i].file, works[i].targets);
  kept_->complete();
}

/// Returns this part's complete file once every run has staged its share, and counts the bytes that
/// this rank has stored of it. Collective over the job.
StageFile Stager::whole(const Field& field, Work& work) {
  record_.bytes_staged += work.file.stored_bytes();
  if (!twins_) return std::move(work.file);
  const Range slots{0, split_of(field).owners.slots(mesh_.replica())};
  GatheredShares gathered =
      gather_shares(*twins_, *near_, values_of(samples_in(field, slots), slots.extent()), work.file,
                    std::move(work.copies));
  record_.bytes_staged += gathered.copied_bytes;
  return std::move(gathered.file);
}

/// Searches the labels that this run has staged for foreground; empty if some rank has been told to
/// stop. Collective over the job.
std::optional<std::vector<Foreground>> Stager::foreground_in(
    const Field& field, Work& work, const std::function<bool()>& must_stop) const {
  const SplitSource& split = split_of(field);
  const std::int64_t slots = work.file.slots(), rounds = job_.max(slots);
  const std::int64_t between = rounds_between_stops(bytes_of_largest(field));
  NonblockingAny stop(job_);
  ForegroundSearches mine;
  std::vector<std::byte> room;
  for (std::int64_t round = 0; round < rounds; ++round) {
    const Box box = round < slots ? work.samples.block(round, mesh_.part()) : Box{};
    if (!box.empty()) {
      if (options_.codec != StageCodec::kNone) room.resize(static_cast<std::size_t>(box.volume()));
      const std::int64_t sample = split.owners.sample({mesh_.replica(), work.share.lo + round});
      ForegroundSearch& search = mine.try_emplace(sample, split.data->classes()).first->second;
      search.take(box, reinterpret_cast<const std::uint8_t*>(  // NOLINT: labels are bytes
                           work.file.read(round, room).data()));
    }
    if (!ends_interval(round, rounds, between)) continue;
    if (stop.take_result()) return {};
    stop.start(must_stop());
  }
  if (stop.take_result()) return {};
  ForegroundSearches found = joined_over(mesh_.group(), mine);
  if (mesh_.part() != 0) found.clear();
  return foreground_of(joined_over(job_, found), split.data->size());
}

/// Sums this rank's counts over all ranks. Collective over the job.
void Stager::finish_record(const ReadCounts& read, double seconds) {
  record_.rank_seconds = spread_over(job_, seconds);
  record_.seconds = record_.rank_seconds.max;
  std::array<std::int64_t, 4> sums = {read.bytes, read.calls, read.ns, record_.bytes_staged};
  job_.sum(sums);
  record_.bytes_read = sums[0];
  record_.read_calls = sums[1];
  record_.read_seconds = static_cast<double>(sums[2]) * 1e-9;
  record_.bytes_staged = sums[3];
}

std::optional<StagedSplits> Stager::run(const std::function<bool()>& must_stop,
                                        const Report& report) {
  const double start = MPI_Wtime();
  const ReadCounts before = read_counts();
  std::vector<Work> works;
  record_.reused = take_up_kept(works);
  if (record_.reused) {
    for (const SplitSource& split : splits_) record_.samples += split.owners.samples();
  } else {
    for (const Field& field : fields_) works.push_back(begin(field));
    if (twins_) near_ = sharers_of_files(*twins_, works.front().copies);
    job_.barrier();
    directory_.remove_if_made();  // its name is no longer needed
    if (options_.codec == StageCodec::kNone) require_space(1);
    for (std::size_t i = 0; i < fields_.size(); ++i)
      if (!stage(fields_[i], works[i], must_stop, report)) {
        discard();
        return {};
      }
    if (options_.keep) keep(works);
  }
  std::optional<StagedSplits> result = staged(works, must_stop);
  if (!result) {
    discard();
    return {};
  }
  finish_record(read_counts() - before, MPI_Wtime() - start);
  return result;
}

/// Assembles the splits from their works; empty if some rank has been told to stop. Collective over
/// the job.
std::optional<StagedSplits> Stager::staged(std::vector<Work>& works,
                                           const std::function<bool()>& must_stop) {
  StagedSplits splits;
  for (std::size_t i = 0; i < works.size(); ++i) {
    const Field& field = fields_[i];
    if (field.is_labels) {
      if (split_of(field).find_foreground) {
        auto found = foreground_in(field, works[i], must_stop);
        if (!found) return {};
        splits.back().foreground = std::move(*found);
      }
      splits.back().labels = whole(field, works[i]);
      continue;
    }
    std::vector<float> targets = all_targets(split_of(field), works[i]);
    splits.push_back({split_of(field).owners, whole(field, works[i]), std::move(targets), {}, {}});
  }
  return splits;
}

}  // namespace halomesh
