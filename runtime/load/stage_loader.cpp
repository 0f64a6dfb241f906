// SPDX-License-Identifier: Apache-2.0
// Batches from staged data: see stage_loader.hpp.
#include "runtime/load/stage_loader.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "error.hpp"
#include "narrow.hpp"
#include "partition/samples/tiles.hpp"
#include "src/nn/transform.hpp"

namespace halomesh {
namespace {

/// The maximum number of counts of a slab to inflate, and the minimum number of slabs of a block.
constexpr std::int64_t kSlabCounts = 256 * 1024, kSlabs = 16;

}  // namespace

StageLoader::StageLoader(const ProcessMesh& mesh, StagedSample sample, StagedSplit split,
                         const BatchSpec& spec)
    : mesh_(mesh),
      comm_(mesh.world().dup()),
      sample_(std::move(sample)),
      split_(std::move(split)),
      spec_(spec) {
  require(spec.box == box(), text("the stage holds blocks {}, batches need {}", box(), spec.box));
  for (Buffer& buffer : *buffers_) {
    buffer.data = Tensor(spec.box, spec.local_batch, spec.type);
    buffer.targets = Tensor(spec.targets, spec.local_batch);
    buffer.samples.resize(static_cast<std::size_t>(spec.local_batch));
  }
  // The parts of a kept block that are sent at a time: all of it unless it is compressed.
  for (const Box& kept : sample_.blocks)
    slabs_.push_back(slabs_of(
        kept, compressed() ? std::min(kSlabCounts, kept.volume() / kSlabs) : kept.volume()));
  sent_types_ = BoxTypes(box());
  // In units of counts, of which two make a number of fp32.
  Box memory = box();
  memory.hi[kC] += memory.extent(kC) * (size_of(spec.type) / 2 - 1);
  received_types_ = BoxTypes(memory);
}

StageLoader::~StageLoader() {
  try {  // other ranks wait for this rank's messages, unless they end as well
    if (!unwinding()) advance(true);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no one is left to report it to
  }
  ring_->close();
}

void StageLoader::append(const BatchSchedule& schedule) {
  require(schedule.local_batch == spec_.local_batch,
          text("batches of {} for a loader of {}", schedule.local_batch, spec_.local_batch));
  if (schedule.steps <= 0) return;
  schedules_.push_back(schedule);
  steps_left_ += schedule.steps;
  if (phase_ == Phase::kIdle) begin();
}

const Batch& StageLoader::next() {
  if (steps_left_ <= 0) throw Error("a batch was requested after the last step");
  const double start = MPI_Wtime();
  advance(true);
  const Batch& batch = (*buffers_)[static_cast<std::size_t>((begun_ - 1) % 2)].batch;
  phase_ = Phase::kIdle;
  --steps_left_;
  if (steps_left_ > 0) begin();
  wait_seconds_ += MPI_Wtime() - start;
  return batch;
}

void StageLoader::progress() { advance(false); }

/// The transfers of a symmetry, derived at first use.
const StageLoader::SendRecvList& StageLoader::list_of(const Symmetry& s) {
  const std::size_t number = (s.flip[0] ? 4U : 0U) + (s.flip[1] ? 2U : 0U) + (s.flip[2] ? 1U : 0U) +
                             8U * (3U * s.permutation[0] + s.permutation[1]);
  std::optional<SendRecvList>& known = lists_.at(number);
  if (known) return *known;
  SendRecvList& made = known.emplace();
  const TransferPlan plan = plan_redistribution(sample_, s);
  for (const Transfer& t : plan.transfers()) {
    if (t.dst == mesh_.part()) made.incoming.push_back(t);
    if (t.src == mesh_.part()) made.outgoing.push_back(t);
  }
  return made;
}

/// Calls visit(box) for each message in which a box of a slab travels.
template <class Visit>
void StageLoader::for_each_message(const Box& box, const Symmetry& symmetry, Visit visit) const {
  if (tiled(symmetry))
    for_each_tile(box, visit);
  else if (!box.empty())
    visit(box);
}

AnyView StageLoader::block_at(std::int64_t place) const {
  const AnyView all = (*buffers_)[static_cast<std::size_t>((begun_ - 1) % 2)].data.any_view();
  return {all.data + place * all.sample_bytes(), all.type, all.span, 1};
}

/// Starts the next step of the schedule in the buffer that is free.
void StageLoader::begin() {
  const BatchSchedule& schedule = schedules_.front();
  Buffer& buffer = (*buffers_)[static_cast<std::size_t>(begun_++ % 2)];
  local_.clear();
  to_send_.clear();
  uses_.clear();
  arrivals_.clear();
  receives_.clear();
  sends_.clear();
  for (std::int64_t replica = 0; replica < schedule.replicas; ++replica) {
    std::int64_t place = 0;
    for (const SampleUse& use : schedule.taken(step_, replica)) {
      BlockUse block{split_->owners.of(use.sample).slot, to_send_.size(), 0, local_.size(), 0};
      if (replica == mesh_.replica()) take(use, place, buffer);
      give(use, place++, replica);
      block.send_end = to_send_.size();
      block.local_end = local_.size();
      if (block.send < block.send_end || block.local < block.local_end) uses_.push_back(block);
    }
  }
  // Reserve memory now: how many messages arrive at once depends on timing.
  arrived_.reserve(2 * receives_.size());
  placing_.reserve(receives_.size());
  const auto count = schedule.taken(step_, mesh_.replica()).size();
  const AnyView data = buffer.data.any_view();
  const View targets = buffer.targets.view();
  buffer.batch = {static_cast<std::int64_t>(count),
                  {data.data, data.type, data.span, static_cast<std::int64_t>(count)},
                  ConstView{targets.data, targets.span, static_cast<std::int64_t>(count)},
                  std::span(buffer.samples).first(count)};
  if (++step_ == schedule.steps) {
    schedules_.pop_front();
    step_ = 0;
  }
  if (!compressed())
    for (const BlockUse& use : uses_)
      send(use, {split_->file.in_place(use.slot), box(), 1}, sends_);
  phase_ = Phase::kMaking;
  task_.start([this] { timed("gather", begun_ - 1, [this] { gather(); }); });
}

/// Records which boxes of a sample this rank has itself, and posts receives for the rest.
void StageLoader::take(const SampleUse& use, std::int64_t place, Buffer& buffer) {
  buffer.samples[static_cast<std::size_t>(place)] = use.sample;
  const View targets = buffer.targets.view();
  copy_scalars(split_->targets_of(use.sample),
               View{targets.data + place * targets.sample_volume(), targets.span, 1});
  const SampleOwners::Owner owner = split_->owners.of(use.sample);
  for (const Transfer& t : list_of(use.symmetry).incoming) {
    if (owner.replica == mesh_.replica() && t.src == mesh_.part())
      local_.push_back({place, t.box, use.symmetry});
    else
      receive(t, narrow<int>(mesh_.shape().rank_of(owner.replica, t.src)),
              {place, t.box, use.symmetry});
  }
}

/// Posts the receives of a box, each into the memory of its image.
void StageLoader::receive(const Transfer& transfer, int from, const Piece& whole) {
  const AnyView block = block_at(whole.place);
  for (const Box& slab : slabs_[static_cast<std::size_t>(transfer.src)])
    for_each_message(intersect(slab, whole.box), whole.symmetry, [&](const Box& piece) {
      const Box image = whole.symmetry.mapped(piece, sample_.shape);
      mpi_check(MPI_Irecv(block.begin_of(0, image), 1, received_types_.of(image), from,
                          narrow<int>(whole.place), comm_.handle(), receives_.add()));
      arrivals_.push_back({whole.place, piece, whole.symmetry});
      received_bytes_ += 2 * piece.volume();
    });
}

/// Records what this rank must send of a sample that `replica` takes.
void StageLoader::give(const SampleUse& use, std::int64_t place, std::int64_t replica) {
  if (split_->owners.of(use.sample).replica != mesh_.replica()) return;
  for (const Transfer& t : list_of(use.symmetry).outgoing)
    if (replica != mesh_.replica() || t.dst != mesh_.part())
      to_send_.push_back(
          {place, t.box, use.symmetry, narrow<int>(mesh_.shape().rank_of(replica, t.dst))});
}

/// Sends the requested boxes of a slab of a kept block, in the order of receive().
void StageLoader::send(const BlockUse& use, TensorView<const std::int16_t> slab,
                       Requests& requests) {
  for (std::size_t i = use.send; i < use.send_end; ++i) {
    const Send& d = to_send_[i];
    for_each_message(intersect(slab.span, d.box), d.symmetry, [&](const Box& piece) {
      mpi_check(MPI_Isend(slab.begin_of(0, piece), 1, sent_types_.of(piece), d.rank,
                          narrow<int>(d.place), comm_.handle(), requests.add()));
    });
  }
}

/// Sends slabs that have been inflated, and frees those that have been sent.
void StageLoader::send_filled() {
  while (const auto filled = ring_->filled()) {
    const SlabRing::Slab& slab = (*ring_)[*filled];
    send(uses_[slab.use], {slab.counts.data(), own_slabs()[slab.number], 1}, slab_sends_[*filled]);
    sending_[*filled] = true;
  }
  for (std::size_t i = 0; i < SlabRing::kSlabs; ++i) {
    if (!sending_[i] || !slab_sends_[i].test_all()) continue;
    slab_sends_[i].clear();
    sending_[i] = false;
    ring_->give_back(i);
  }
}

/// On the background thread.
void StageLoader::gather() {
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    const BlockUse& o = uses_[i];
    split_->file.verify(o.slot);
    if (compressed()) {
      inflate(i);
      continue;
    }
    for (std::size_t k = o.local; k < o.local_end; ++k)
      transform(TensorView<const std::int16_t>{split_->file.in_place(o.slot), box(), 1},
                local_[k].box, local_[k].symmetry, sample_.shape, block_at(local_[k].place));
  }
}

/// On the background thread: passes a block, slab by slab, to its users.
void StageLoader::inflate(std::size_t use) {
  const BlockUse& o = uses_[use];
  ring_->reserve(own_slabs().front().volume());
  codec_.begin(split_->file.stored(o.slot), box().volume());
  for (std::size_t l = 0; l < own_slabs().size(); ++l) {
    const auto taken = ring_->take();
    if (!taken) return;
    SlabRing::Slab& slab = (*ring_)[*taken];
    slab.use = use;
    slab.number = l;
    codec_.next(slab.counts.span().first(static_cast<std::size_t>(own_slabs()[l].volume())));
    for (std::size_t k = o.local; k < o.local_end; ++k)
      transform(TensorView<const std::int16_t>{slab.counts.data(), own_slabs()[l], 1},
                intersect(own_slabs()[l], local_[k].box), local_[k].symmetry, sample_.shape,
                block_at(local_[k].place));
    if (o.send < o.send_end)
      ring_->hand_on(*taken);
    else
      ring_->give_back(*taken);
  }
}

/// Has the thread, which is idle, transform what has arrived.
void StageLoader::place() {
  placing_.clear();
  for (const int index : arrived_)
    if (tiled(arrivals_[static_cast<std::size_t>(index)].symmetry)) placing_.push_back(index);
  arrived_.clear();
  if (placing_.empty()) return;
  if (tile_.size() == 0)
    tile_ = AlignedBuffer<std::int16_t>(std::max(kTileCounts, 256 * box().extent(kC)));
  task_.start([this] {
    timed("place", begun_ - 1, [this] {
      for (const int index : placing_) {
        const Piece& a = arrivals_[static_cast<std::size_t>(index)];
        transform_in_place(block_at(a.place), a.box, a.symmetry, sample_.shape, tile_.span());
      }
    });
  });
}

/// Continues to prepare the next step, without waiting unless `wait` is set.
void StageLoader::advance(bool wait) {
  if (phase_ != Phase::kMaking) return;
  if (wait) {
    finish();
    return;
  }
  receives_.take_completed(false, arrived_);
  sends_.test_all();
  send_filled();
  if (!task_.done()) return;
  task_.wait();
  place();
}

void StageLoader::finish() {
  if (compressed())
    while (!task_.done_within(std::chrono::microseconds(100))) {
      send_filled();
      receives_.take_completed(false, arrived_);
    }
  task_.wait();
  send_filled();
  while (receives_.take_completed(true, arrived_)) {
    if (!task_.done()) continue;
    task_.wait();
    place();
  }
  task_.wait();
  place();
  task_.wait();
  sends_.wait_all();
  for (Requests& requests : slab_sends_) requests.wait_all();
  send_filled();
  phase_ = Phase::kReady;
}

}  // namespace halomesh
