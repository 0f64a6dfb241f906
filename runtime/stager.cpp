// Staging: see stager.hpp.
#include "runtime/stager.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>
#include <utility>

#include "error.hpp"
#include "narrow.hpp"
#include "runtime/direct_loader.hpp"
#include "runtime/read_bytes.hpp"
#include "src/nn/pack.hpp"

namespace halomesh {
namespace {

/// Rounds between two agreements of all ranks on whether to stop: each one makes them wait for the
/// slowest.
constexpr std::int64_t kRoundsBetweenStops = 4;

/// Room for blocks that compress less well than the first sample.
constexpr double kDeflateMargin = 1.1;

std::string megabytes(double bytes) {
  std::ostringstream text;
  text.precision(bytes < 1e7 ? 3 : 0);
  text << std::fixed << bytes * 1e-6 << " MB";
  return text.str();
}

/// Stages that earlier runs kept in this directory.
std::string others_kept(const std::filesystem::path& directory, const std::string& mine) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(directory, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("halomesh-stage-") && name != mine)
      return cat("remove ", entry.path().string(), ", which another run kept, ");
  }
  return "make room there, ";
}

}  // namespace

Stager::Stager(const ProcessMesh& mesh, KeptSample sample, StageOptions options,
               std::vector<SplitSource> splits)
    : mesh_(mesh),
      sample_(std::move(sample)),
      options_(std::move(options)),
      splits_(std::move(splits)),
      directory_(options_.directory) {
  for (const Box& kept : sample_.kept) {
    block_of_part_.emplace_back();
    if (!kept.empty()) block_of_part_.back().emplace(Box::whole(sample_.shape), kept);
  }
  if (sample_.kept.size() > 1)
    arriving_ = AlignedBuffer<std::int16_t>(static_cast<std::int64_t>(sample_.kept.size()) *
                                            box().volume());
}

std::string Stager::key() const {
  std::ostringstream text;
  const MeshShape& mesh = mesh_.shape();
  text << "format 1, codec " << static_cast<int>(options_.codec) << ", mesh " << mesh.replicas
       << " x " << to_string(mesh.parts) << ", samples of " << sample_.shape << ", blocks";
  for (const Box& kept : sample_.kept) text << ' ' << kept;
  for (const SplitSource& split : splits_) {
    text << ", " << split.name << ' ' << split.data->identity() << " slots";
    for (std::int64_t r = 0; r < mesh.replicas; ++r) text << ' ' << split.homes.slots(r);
  }
  return text.str();
}

std::vector<std::string> Stager::names() const {
  std::vector<std::string> all;
  for (const SplitSource& split : splits_) all.push_back(split.name);
  return all;
}

Stager::Work Stager::begin(const SplitSource& split, Descriptor file) const {
  const std::int64_t slots = split.homes.slots(mesh_.replica());
  const Range run = block_range(slots, mesh_.shape().parts.count(), mesh_.part());
  return {StageFile(std::move(file), cat(split.name, " in ", directory_.path().string()),
                    options_.codec, box().empty() ? 0 : slots, box().volume()),
          run.lo,
          run.hi - run.lo,
          {}};
}

/// True when all ranks have taken up what an earlier run kept. Without options_.keep it then has no
/// names any more.
bool Stager::take_up_kept(std::vector<Work>& works) {
  const std::string text = key();
  const bool exists = KeptStage::exists(directory_.path(), text);
  if (!options_.keep && mesh_.world().max(std::int64_t{exists ? 1 : 0}) == 0) return false;
  std::string holder;
  std::optional<std::vector<KeptStage::Split>> found;
  if (options_.keep || exists) {
    kept_.emplace(directory_.path(), text, mesh_.world().rank());
    holder = kept_->lock();
    if (holder.empty()) found = kept_->find(names());
  }
  for (const std::string& other : mesh_.world().all_gather(holder))
    if (options_.keep && !other.empty())
      throw Error(cat("the stage ", (directory_.path() / KeptStage::directory_name(text)).string(),
                      " is in use by ", other, ", another job of yours"),
                  "wait for that job to end, leave --keep-stage out or give another --stage-dir");
  const bool all = mesh_.world().sum(std::int64_t{found ? 1 : 0}) == mesh_.world().size();
  if (all)
    for (std::size_t i = 0; i < splits_.size(); ++i) {
      Work work = begin(splits_[i], std::move((*found)[i].file));
      work.file.reopen(std::move((*found)[i].index));
      work.targets = std::move((*found)[i].targets);
      works.push_back(std::move(work));
    }
  if (kept_ && holder.empty()) {
    if (!options_.keep)
      kept_->remove(names());
    else if (!all)
      kept_->clear(names());
  }
  if (!options_.keep) kept_.reset();
  return all;
}

/// Throws the same Error on every rank when a node's space does not suffice for its ranks.
void Stager::require_space(double share_of_raw) const {
  std::int64_t needed = 0;
  for (const SplitSource& split : splits_)
    needed += split.homes.slots(mesh_.replica()) * StageFile::raw_bytes(box().volume());
  const StageDirectory::Space space = directory_.space();
  const Comm node = mesh_.world().split_by_node();
  // Ranks of a node may stage to different file systems, such as one for each NUMA domain.
  std::map<std::uint64_t, std::pair<std::int64_t, int>> of_device;
  for (const std::string& text : node.all_gather(cat(space.device, ' ', needed))) {
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
  if (wanted > static_cast<double>(space.available))
    problem = cat("the stage needs ", megabytes(wanted), " in ", directory_.path().string(),
                  " for the ", ranks, " ranks of a node, where ",
                  megabytes(static_cast<double>(space.available)), " are available");
  for (const std::string& text : mesh_.world().all_gather(problem))
    if (!text.empty())
      throw Error(text,
                  others_kept(directory_.path(), KeptStage::directory_name(key())) +
                      (options_.codec == StageCodec::kNone ? "use --stage-codec deflate, " : "") +
                      "a larger RAM disk or more nodes");
}

/// Gives each part its block of the sample that this rank has read in `round` (null: none), and
/// writes the blocks that this part receives.
void Stager::distribute(const std::int16_t* sample, std::int64_t round, std::int64_t slots,
                        Work& work) {
  const Comm& group = mesh_.group();
  const std::int64_t volume = box().volume();
  const auto block_from = [&](int part) {
    return std::span(arriving_.data() + part * volume, static_cast<std::size_t>(volume));
  };
  Requests receives, sends;
  std::vector<std::pair<int, std::int64_t>> arriving;  // part that reads, slot
  for (int part = 0; part < group.size(); ++part) {
    const Range run = block_range(slots, group.size(), part);
    if (part == group.rank() || run.lo + round >= run.hi || volume == 0) continue;
    arriving.emplace_back(part, run.lo + round);
    mpi_check(MPI_Irecv(block_from(part).data(), narrow<int>(volume), MPI_INT16_T, part, 0,
                        group.handle(), receives.add()));
  }
  if (sample != nullptr) {
    for (int part = 0; part < group.size(); ++part)
      if (const auto& type = block_of_part_[static_cast<std::size_t>(part)];
          type && part != group.rank())
        mpi_check(MPI_Isend(sample, 1, type->get(), part, 0, group.handle(), sends.add()));
    if (volume > 0) {
      const TensorView<const std::int16_t> whole{sample, Box::whole(sample_.shape), 1};
      std::span<const std::int16_t> mine(sample, static_cast<std::size_t>(volume));
      if (group.size() > 1) {
        pack(whole, box(), reinterpret_cast<std::byte*>(block_from(group.rank()).data()));
        mine = block_from(group.rank());
      }
      work.file.write(work.first + round, mine);
    }
  }
  for (std::size_t i = 0; i < arriving.size(); ++i) {
    receives.wait(i);
    work.file.write(arriving[i].second, block_from(arriving[i].first));
  }
  sends.wait_all();
}

/// False when some rank has been told to stop.
bool Stager::stage(const SplitSource& split, Work& work, const std::function<bool()>& must_stop,
                   const Report& report) {
  const Comm& world = mesh_.world();
  const std::int64_t slots = split.homes.slots(mesh_.replica()), targets = split.data->targets();
  const std::int64_t rounds = world.max(block_range(slots, mesh_.group().size(), 0).hi);
  DirectLoader loader(split.data->reader(),
                      {sample_.shape, Box::whole(sample_.shape), targets, 1, DataType::kInt16, 0});
  Course course{work.count, 1, 1, {}};
  for (std::int64_t i = 0; i < work.count; ++i)
    course.uses.push_back({split.homes.sample({mesh_.replica(), work.first + i}), {}});
  loader.append(course);
  const std::int64_t before = record_.samples;
  for (std::int64_t round = 0; round < rounds; ++round) {
    const std::int16_t* sample = nullptr;
    if (round < work.count) {
      const Batch& batch = loader.next();
      sample = batch.data.as<std::int16_t>().data;
      work.targets.insert(work.targets.end(), batch.targets.begin(), batch.targets.end());
    }
    if (round == 0 && before == 0 && options_.codec == StageCodec::kDeflate) {
      // Nothing has been written so far.
      const auto raw = static_cast<std::size_t>(sample_.shape.volume());
      BlockCodec codec;
      const double share = sample == nullptr
                               ? 0
                               : static_cast<double>(codec.deflate({sample, raw}).size()) /
                                     static_cast<double>(2 * raw);
      require_space(kDeflateMargin * world.max(share));
    }
    distribute(sample, round, slots, work);
    report(std::min(before + (round + 1) * world.size(), before + split.homes.samples()));
    if (round % kRoundsBetweenStops == 0 || round + 1 == rounds)
      if (world.max(std::int64_t{must_stop() ? 1 : 0}) != 0) return false;
  }
  work.file.finish();
  record_.samples += split.homes.samples();
  return true;
}

/// The targets of all samples out of those that each rank has read.
std::vector<float> Stager::all_targets(const SplitSource& split, const Work& work) const {
  const std::int64_t targets = split.data->targets(), parts = mesh_.shape().parts.count();
  const std::string mine(reinterpret_cast<const char*>(work.targets.data()),  // NOLINT: bytes
                         work.targets.size() * sizeof(float));
  const std::vector<std::string> read = mesh_.world().all_gather(mine);
  std::vector<float> all(static_cast<std::size_t>(split.homes.samples() * targets));
  for (std::size_t rank = 0; rank < read.size(); ++rank) {
    const std::int64_t replica = mesh_.shape().replica_of(static_cast<std::int64_t>(rank));
    const Range run = block_range(split.homes.slots(replica), parts,
                                  mesh_.shape().part_of(static_cast<std::int64_t>(rank)));
    const std::size_t bytes = static_cast<std::size_t>(targets) * sizeof(float);
    require(read[rank].size() == static_cast<std::size_t>(run.hi - run.lo) * bytes,
            cat("the stage of rank ", rank, " lacks targets"), "remove it and start again");
    for (std::int64_t slot = run.lo; slot < run.hi; ++slot)
      std::memcpy(all.data() + split.homes.sample({replica, slot}) * targets,
                  read[rank].data() + static_cast<std::size_t>(slot - run.lo) * bytes, bytes);
  }
  return all;
}

void Stager::keep(const std::vector<Work>& works) {
  for (std::size_t i = 0; i < works.size(); ++i)
    kept_->add(splits_[i].name, works[i].file, works[i].targets);
  kept_->complete();
}

std::optional<std::vector<StagedSplit>> Stager::run(const std::function<bool()>& must_stop,
                                                    const Report& report) {
  const Comm& world = mesh_.world();
  const double start = MPI_Wtime();
  const std::int64_t read_before = read_bytes();
  std::vector<Work> works;
  record_.reused = take_up_kept(works);
  if (record_.reused) {
    for (const SplitSource& split : splits_) record_.samples += split.homes.samples();
  } else {
    for (const SplitSource& split : splits_)
      works.push_back(begin(split, directory_.nameless_file()));
    world.barrier();
    directory_.remove_if_made();  // nobody needs its name any more
    if (options_.codec == StageCodec::kNone) require_space(1);
    for (std::size_t i = 0; i < splits_.size(); ++i)
      if (!stage(splits_[i], works[i], must_stop, report)) return {};
    if (options_.keep) keep(works);
  }
  std::vector<StagedSplit> staged;
  for (std::size_t i = 0; i < works.size(); ++i) {
    record_.bytes_staged += works[i].file.stored_bytes();
    std::vector<float> targets = all_targets(splits_[i], works[i]);
    staged.push_back({splits_[i].homes, std::move(works[i].file), std::move(targets)});
  }
  record_.bytes_read = world.sum(read_bytes() - read_before);
  record_.bytes_staged = world.sum(record_.bytes_staged);
  record_.seconds = world.max(MPI_Wtime() - start);
  return staged;
}

}  // namespace halomesh
