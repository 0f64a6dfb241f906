// SPDX-License-Identifier: Apache-2.0
// Staged batches equal directly read ones, bit for bit: on any mesh, in either order, transformed
// or not, compressed or not; and every sample is read once.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "rng.hpp"
#include "runtime/load/direct_loader.hpp"
#include "runtime/load/stage_loader.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/mpi_shared_directory.hpp"
#include "test/harness/staged_sample.hpp"
#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kTargets = 3, kClasses = 200;

std::int16_t count_of(std::int64_t sample, std::int64_t index) {
  const CounterRng rng(3, RandomUse::kSynth, static_cast<std::uint32_t>(sample));
  return static_cast<std::int16_t>(rng.block(static_cast<std::uint64_t>(index))[0] % 300);
}

/// The other kind of values.
float value_of(std::int64_t sample, std::int64_t index) {
  return 0.5F * static_cast<float>(count_of(sample, index)) - 40.0F;
}
std::uint8_t label_of(std::int64_t sample, std::int64_t index) {
  return static_cast<std::uint8_t>(count_of(sample + 1000, index) % kClasses);
}

/// A generated data set, of counts with scalars or of fields with labels, that counts how often
/// this process has read each whole sample.
class MadeUp final : public Dataset {
 public:
  MadeUp(const Shape& shape, std::int64_t size, std::string identity, bool fields = false)
      : Dataset(shape, fields ? TargetSpec::labels(kClasses) : TargetSpec(kTargets),
                fields ? SampleFormat::field() : SampleFormat::counts()),
        size_(size),
        identity_(std::move(identity)) {}
  std::int64_t size() const override { return size_; }
  const std::filesystem::path& directory() const override { return directory_; }
  const std::string& identity() const override { return identity_; }
  std::unique_ptr<SampleReader> reader() const override { return std::make_unique<Reader>(*this); }
  /// Voxels read by this process.
  std::int64_t voxels_read() const {
    const std::lock_guard lock(mutex_);
    return voxels_read_;
  }

 private:
  class Reader final : public SampleReader {
   public:
    explicit Reader(const MadeUp& data) : data_(data) {}
    DataType type() const override { return data_.format().type(); }
    void read(std::int64_t sample, AnyView dst, AnyView targets) override {
      const Shape& s = data_.shape();
      if (type() == DataType::kInt16)
        fill(dst.as<std::int16_t>(), s, sample, count_of);
      else
        fill(dst.as<float>(), s, sample, value_of);
      if (data_.has_labels()) {
        fill(targets.span.empty() ? TensorView<std::uint8_t>() : targets.as<std::uint8_t>(),
             data_.target_shape(), sample, label_of);
        return;
      }
      for (std::int64_t t = 0; t < targets.span.extent(kC); ++t)
        targets.as<float>().data[t] = static_cast<float>(sample) + 0.25F * static_cast<float>(t);
    }
    void stream(std::int64_t sample, const VoxelSink& sink, AnyView targets) override {
      const Tensor whole(Box::whole(data_.shape()), 1, type());
      read(sample, whole.any_view(), targets);
      pass_on(whole, sink);
    }
    void stream_labels(std::int64_t sample, const VoxelSink& sink) override {
      const Tensor whole(Box::whole(data_.target_shape()), 1, DataType::kUint8);
      fill(whole.any_view().as<std::uint8_t>(), data_.target_shape(), sample, label_of);
      pass_on(whole, sink);
    }

   private:
    template <class T, class Value>
    void fill(TensorView<T> view, const Shape& s, std::int64_t sample, const Value& value) {
      const Box& box = view.span;
      for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
        for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
          for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
            for (std::int64_t c = 0; c < s.c; ++c)
              view.at(0, c, d, h, w) = value(sample, ((d * s.h + h) * s.w + w) * s.c + c);
      const std::lock_guard lock(data_.mutex_);
      data_.voxels_read_ += box.volume();
    }
    /// In pieces that end within voxels, rows and blocks.
    static void pass_on(const Tensor& whole, const VoxelSink& sink) {
      const std::span all(whole.any_view().data,
                          static_cast<std::size_t>(whole.any_view().sample_bytes()));
      for (std::size_t at = 0; at < all.size(); at += 101)
        sink(static_cast<std::int64_t>(at),
             all.subspan(at, std::min<std::size_t>(101, all.size() - at)));
    }

    const MadeUp& data_;
  };

  std::int64_t size_;
  std::string identity_;
  std::filesystem::path directory_ = "nowhere";
  mutable std::mutex mutex_;
  mutable std::int64_t voxels_read_ = 0;
};

struct Case {
  MeshShape mesh;
  Shuffle shuffle = Shuffle::kGlobal;
  bool augment = false;
  StageCodec codec = StageCodec::kNone;
  bool keep = false;
  std::int64_t runs = 1;  // on meshes of this shape, that share the stage
  bool fields = false;    // with labels, instead of counts
};

void compare_batches(const Batch& got, const Batch& expected, Findings& findings) {
  findings.expect_equal(got.count, expected.count, "samples of a batch");
  findings.expect(std::equal(got.samples.begin(), got.samples.end(), expected.samples.begin()),
                  [] { return std::string("other samples"); });
  const auto same_bytes = [&](AnyConstView a, AnyConstView b) {
    const auto bytes = static_cast<std::size_t>(expected.count * b.sample_bytes());
    return a.span == b.span && std::equal(b.data, b.data + bytes, a.data);
  };
  findings.expect(same_bytes(got.data, expected.data), [&] {
    return fmt::format("other counts in a batch of {}", expected.samples.front());
  });
  findings.expect(same_bytes(got.targets, expected.targets),
                  [] { return std::string("other targets"); });
}

/// Two epochs and two validations, staged and read; the stage's record.
StageRecord check_case(const Comm& comm, const std::filesystem::path& directory, const Case& c,
                       Findings& findings) {
  const auto run = static_cast<int>(comm.rank() / c.mesh.ranks());
  const ProcessMesh mesh(comm.split(run, comm.rank()), c.mesh);
  const Shape shape{2, 6, 6, 6};
  const StagedSample sample = staged_sample(shape, c.mesh.parts, 1);
  const auto seed = static_cast<std::uint64_t>(5 + run);
  const MadeUp train(shape, 13, "one", c.fields), validation(shape, 7, "two", c.fields);
  std::optional<StagedSamples> labels;
  if (c.fields)
    labels =
        staged_in_blocks(train.target_shape(), block_partition(train.target_shape(), c.mesh.parts));
  const SampleOrder order{c.shuffle, seed, train.size(), c.mesh.replicas, 1},
      validation_order{c.shuffle, seed, validation.size(), c.mesh.replicas, 1};
  Stager stager(
      mesh, {directory, c.codec, c.keep},
      {{"train", &train, SampleOwners::of_training(order), sample, labels},
       {"validation", &validation, SampleOwners::of_validation(validation_order), sample, labels}},
      c.runs > 1 ? &comm : nullptr);
  auto staged = stager.run([] { return false; }, [](std::int64_t) {});
  findings.expect(staged.has_value(), [] { return std::string("staging stopped"); });
  const StageRecord record = stager.record();
  const std::int64_t read = comm.sum(train.voxels_read() + validation.voxels_read());
  const std::int64_t label_volume = c.fields ? train.target_shape().volume() : 0;
  findings.expect_equal(read, record.reused ? 0 : 20 * (shape.volume() + label_volume),
                        "voxels read");
  if (c.codec == StageCodec::kNone) {
    std::int64_t kept = 0;
    for (const Box& box : sample.blocks)
      kept += 20 * StageFile::raw_bytes(box.volume(), train.format().type());
    for (const Box& box : labels ? labels->each()->blocks : std::vector<Box>())
      kept += 20 * StageFile::raw_bytes(box.volume(), DataType::kUint8);
    findings.expect(
        record.bytes_staged <= kept && record.bytes_staged > kept - 64 * 4 * comm.size(),
        [&] { return fmt::format("{} bytes staged of {}", record.bytes_staged, kept); });
  }
  const BatchSpec spec{shape,
                       sample.blocks[static_cast<std::size_t>(mesh.part())],
                       labels ? labels->each()->blocks[static_cast<std::size_t>(mesh.part())]
                       : mesh.part() == 0 ? Box::whole({kTargets, 1, 1, 1})
                                          : Box{},
                       1,
                       train.format().type(),
                       mesh.replica(),
                       train.target_shape(),
                       train.target_type()};
  StageLoader from_stage(mesh, sample, std::move((*staged)[0]), spec, labels),
      validation_from_stage(mesh, sample, std::move((*staged)[1]), spec, labels);
  DirectLoader direct(train.reader(), spec), validation_direct(validation.reader(), spec);
  const SymmetryDraw draw(5, shape);
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    const BatchSchedule schedule = order.training(epoch, epoch, c.augment ? &draw : nullptr);
    from_stage.append(schedule);
    direct.append(schedule);
    for (std::int64_t step = 0; step < schedule.steps; ++step) {
      const Batch& got = from_stage.next();
      if (step % 2 == 0) from_stage.progress();
      compare_batches(got, direct.next(), findings);
    }
    validation_from_stage.append(validation_order.validation());
    validation_direct.append(validation_order.validation());
    for (std::int64_t step = 0; step < validation_order.validation_steps(); ++step)
      compare_batches(validation_from_stage.next(), validation_direct.next(), findings);
  }
  // Ends in the middle of an epoch: messages in flight are completed.
  from_stage.append(order.training(2));
  if (c.shuffle == Shuffle::kLocal && !c.augment)
    findings.expect_equal(from_stage.received_bytes(), std::int64_t{0}, "bytes sent");
  return record;
}

std::vector<MeshShape> meshes_of(int ranks) {
  std::vector<MeshShape> meshes;
  for (std::int64_t parts = 1; parts <= ranks; ++parts)
    if (ranks % parts == 0)
      for (const PartGrid& grid : grids_of(parts)) meshes.push_back({ranks / parts, grid});
  return meshes;
}

TEST_CASE("staged batches equal directly read ones, on any mesh") {
  const SharedDirectory directory(test_world());
  for_comms("staging", {1, 2, 3, 4, 6}, [&](const Comm& comm, Findings& findings) {
    // Every mesh transformed, as only that moves pieces of blocks; the other options alternate.
    unsigned number = 0;
    for (const MeshShape& mesh : meshes_of(comm.size())) {
      const Shuffle shuffle = number % 2 == 0 ? Shuffle::kGlobal : Shuffle::kLocal;
      const StageCodec codec = number / 2 % 2 == 0 ? StageCodec::kNone : StageCodec::kDeflate;
      check_case(comm, directory.path(), {mesh, shuffle, true, codec, false}, findings);
      check_case(comm, directory.path(), {mesh, shuffle, true, codec, false, 1, true}, findings);
      if (number++ % 3 == 0)
        for (const bool fields : {false, true})
          check_case(comm, directory.path(), {mesh, shuffle, false, codec, false, 1, fields},
                     findings);
    }
    comm.barrier();
    findings.expect(std::filesystem::is_empty(directory.path()),
                    [] { return std::string("something is left in the stage's directory"); });
  });
}

TEST_CASE("staged batches on eight ranks equal directly read ones [8 ranks]") {
  const SharedDirectory directory(test_world());
  for_comms("staging", {8}, [&](const Comm& comm, Findings& findings) {
    for (const MeshShape& mesh : {MeshShape{8, {1, 1, 1}}, MeshShape{2, {2, 2, 1}},
                                  MeshShape{4, {1, 1, 2}}, MeshShape{1, {2, 2, 2}}})
      for (const bool augment : {false, true})
        check_case(comm, directory.path(),
                   {mesh, Shuffle::kGlobal, augment, StageCodec::kNone, false}, findings);
  });
}

TEST_CASE(
    "runs of one job share a stage: every sample is read once, and each node keeps one copy") {
  const SharedDirectory directory(test_world());
  for_comms("sharing a stage", {1, 2, 4, 6}, [&](const Comm& comm, Findings& findings) {
    for (const std::int64_t runs : {1, 2, 3, 4}) {
      if (comm.size() % runs != 0) continue;
      for (const MeshShape& mesh : meshes_of(static_cast<int>(comm.size() / runs)))
        for (const StageCodec codec : {StageCodec::kNone, StageCodec::kDeflate})
          check_case(comm, directory.path(),
                     {mesh, Shuffle::kGlobal, true, codec, false, runs,
                      codec == StageCodec::kNone || runs == 2},
                     findings);
    }
    comm.barrier();
    findings.expect(std::filesystem::is_empty(directory.path()),
                    [] { return std::string("something is left in the stage's directory"); });
  });
}

TEST_CASE("a kept stage is reused by the same mesh and removed by a run without --keep-stage") {
  const SharedDirectory directory(test_world());
  for_comms("keeping a stage", {1, 4}, [&](const Comm& comm, Findings& findings) {
    const MeshShape mesh{comm.size() > 2 ? 2 : 1, {1, comm.size() > 2 ? 2 : 1, 1}};
    for (const StageCodec codec : {StageCodec::kNone, StageCodec::kDeflate}) {
      const Case kept{mesh, Shuffle::kGlobal, true, codec, true, 1, codec == StageCodec::kDeflate};
      Case dropped = kept;
      dropped.keep = false;
      findings.expect(!check_case(comm, directory.path(), kept, findings).reused,
                      [] { return std::string("reused too early"); });
      findings.expect(check_case(comm, directory.path(), kept, findings).reused,
                      [] { return std::string("not reused"); });
      // One rank's manifest is missing, as if the rank had been killed before writing it.
      if (comm.rank() == 0)
        for (const auto& entry : std::filesystem::recursive_directory_iterator(directory.path()))
          if (entry.path().filename() == fmt::format("rank-{}.json", comm.size() - 1)) {
            std::filesystem::remove(entry.path());
            break;
          }
      comm.barrier();
      findings.expect(!check_case(comm, directory.path(), kept, findings).reused,
                      [] { return std::string("an incomplete stage was reused"); });
      findings.expect(check_case(comm, directory.path(), dropped, findings).reused,
                      [] { return std::string("not reused by the last"); });
      comm.barrier();
      findings.expect(std::filesystem::is_empty(directory.path()),
                      [] { return std::string("a stage is left"); });
      comm.barrier();
    }
  });
}

TEST_CASE("staging: ranks check for stops less often if samples are small") {
  constexpr std::int64_t kMiB = 1 << 20;
  CHECK(Stager::rounds_between_stops(1) == 4);
  CHECK(Stager::rounds_between_stops(16 * kMiB) == 4);
  CHECK(Stager::rounds_between_stops(32 * kMiB) == 2);
  CHECK(Stager::rounds_between_stops(64 * kMiB) == 1);
  CHECK(Stager::rounds_between_stops(1024 * kMiB) == 1);
}

TEST_CASE("staging ends on all ranks soon after one is told to stop") {
  const SharedDirectory directory(test_world());
  for_comms("stopping", {1, 2, 4}, [&](const Comm& comm, Findings& findings) {
    const Shape shape{2, 6, 6, 6};
    for (const MeshShape& shape_of_mesh :
         {MeshShape{comm.size(), {1, 1, 1}}, MeshShape{1, {1, comm.size(), 1}}})
      for (const StageCodec codec : {StageCodec::kNone, StageCodec::kDeflate})
        for (int number = 0; number < 2 * comm.size(); ++number) {
          const int stopping = number / 2;
          const bool last = number % 2 == 1;
          const ProcessMesh mesh(comm, shape_of_mesh);
          const MadeUp data(shape, 100 * comm.size(), "one");
          const SampleOrder order{Shuffle::kGlobal, 5, data.size(), mesh.shape().replicas, 1};
          Stager stager(mesh, {directory.path(), codec, false},
                        {{"train",
                          &data,
                          SampleOwners::of_training(order),
                          staged_sample(shape, shape_of_mesh.parts, 1),
                          {}}});
          // One rank is told to stop when it has read ten samples, or with the last it reads.
          const std::int64_t limit = (last ? 100 : 10) * shape.volume();
          const auto staged =
              stager.run([&] { return comm.rank() == stopping && data.voxels_read() >= limit; },
                         [](std::int64_t) {});
          findings.expect(!staged, [] { return std::string("staging continued"); });
          findings.expect(last || data.voxels_read() < 2 * limit,
                          [&] { return fmt::format("{} voxels read", data.voxels_read()); });
        }
    comm.barrier();
    findings.expect(std::filesystem::is_empty(directory.path()),
                    [] { return std::string("a stage is left"); });
  });
}

/// Stages samples with labels and searches these; a rank is told to stop when it asks for the
/// `stop_at`-th time.
struct Search {
  const ProcessMesh& mesh;
  StageOptions stage;
  int stopping = 0;

  struct Result {
    bool complete = false, reused = false;
    std::int64_t asked = 0;  // how often this rank has asked whether to stop
  };
  Result operator()(std::int64_t stop_at = 0) const {
    const Comm& comm = mesh.world();
    const PartGrid& parts = mesh.shape().parts;
    const MadeUp data({2, 6, 6, 6}, 40 * comm.size(), "one", true);
    const SampleOrder order{Shuffle::kGlobal, 5, data.size(), mesh.shape().replicas, 1};
    Stager stager(
        mesh, stage,
        {{"train", &data, SampleOwners::of_training(order), staged_sample(data.shape(), parts, 1),
          staged_in_blocks(data.target_shape(), block_partition(data.target_shape(), parts)),
          true}});
    Result result;
    const auto must_stop = [&] { return ++result.asked == stop_at && comm.rank() == stopping; };
    const auto staged = stager.run(must_stop, [](std::int64_t) {});
    result.complete =
        staged && std::ssize(staged->front().foreground) == data.size() && data.size() > 0;
    result.reused = stager.record().reused;
    return result;
  }
};

TEST_CASE("the search for foreground in a stage ends on all ranks soon after one is told to stop") {
  const SharedDirectory directory(test_world());
  for_comms("stopping a search", {1, 2, 4}, [&](const Comm& comm, Findings& findings) {
    const auto expect = [&](bool condition, const char* problem) {
      findings.expect(condition, [&] { return std::string(problem); });
    };
    for (const MeshShape& shape :
         {MeshShape{comm.size(), {1, 1, 1}}, MeshShape{1, {1, comm.size(), 1}}})
      for (const StageCodec codec : {StageCodec::kNone, StageCodec::kDeflate}) {
        const ProcessMesh mesh(comm, shape);
        Search search{mesh, {directory.path(), codec, true}};
        const Search::Result whole = search();
        expect(whole.complete && !whole.reused, "not staged");
        // What an earlier run has staged is only searched, and stays for the next run.
        for (search.stopping = 0; search.stopping < comm.size(); ++search.stopping) {
          const Search::Result stopped = search(2);
          expect(stopped.reused && !stopped.complete, "the search continued");
          expect(stopped.asked <= 3, "the search went on for long");
        }
        search.stage.keep = false;
        const Search::Result last = search();
        expect(last.complete && last.reused, "the stage is gone");
        expect(last.asked > 4, "no long search to be stopped");
        // The last question of all.
        search.stopping = comm.size() - 1;
        expect(!search(whole.asked).complete, "the end of the search continued");
        comm.barrier();
        expect(std::filesystem::is_empty(directory.path()), "a stage is left");
        comm.barrier();
      }
  });
}

}  // namespace
}  // namespace halomesh
