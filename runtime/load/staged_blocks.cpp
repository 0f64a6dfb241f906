// SPDX-License-Identifier: Apache-2.0
// Blocks of one tensor from the ranks that keep them: see staged_blocks.hpp.
#include "runtime/load/staged_blocks.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "error.hpp"
#include "narrow.hpp"
#include "partition/samples/crops.hpp"
#include "partition/samples/sliding_windows.hpp"
#include "partition/samples/tiles.hpp"
#include "src/nn/loss.hpp"
#include "src/nn/transform.hpp"

namespace halomesh {
namespace {

/// The maximum number of bytes of a slab to inflate, and the minimum number of slabs of a block.
constexpr std::int64_t kSlabBytes = 512 * 1024, kSlabs = 16;

}  // namespace

StagedBlocks::StagedBlocks(const ProcessMesh& mesh, const Comm& comm, const SampleOwners& owners,
                           StagedSamples samples, StageFile file, Delivery delivery)
    : mesh_(mesh),
      comm_(comm),
      owners_(owners),
      samples_(std::move(samples)),
      file_(std::move(file)),
      delivery_(std::move(delivery)) {
  const DataType stored = file_->type();
  require(delivery_.type == stored ||
              (stored == DataType::kInt16 && delivery_.type == DataType::kFloat32),
          text("the stage holds values of {}, batches need {}", name_of(stored),
               name_of(delivery_.type)),
          "use a network for such data, or other data");
  // Sizes count stored values; two int16 counts take the space of one fp32 value.
  const std::int64_t size = size_of(stored);
  Box memory = box();
  memory.hi[kC] += memory.extent(kC) * (size_of(delivery_.type) / size - 1);
  received_types_ = BoxTypes(memory, size);
}

const StagedSample& StagedBlocks::sample_of(const SampleUse& use) {
  if (const StagedSample* const each = samples_.each()) return *each;
  sample_ = samples_.of(use.sample);
  return sample_;
}

/// The number of values in a slab that is inflated or sent at a time.
std::int64_t StagedBlocks::values_of_slab(const Box& kept) const {
  return std::min(kSlabBytes / size_of(file_->type()), kept.volume() / kSlabs);
}

template <class Visit>
void StagedBlocks::for_each_sent_slab(const Box& kept, Visit visit) const {
  if (!compressed())
    visit(kept);
  else
    for_each_slab(kept, values_of_slab(kept), visit);
}

/// The MPI type of a piece of a kept block, or of a slab of that block.
MPI_Datatype StagedBlocks::sent_type(const Box& kept, const Box& piece) {
  if (kept != sent_span_) {
    sent_span_ = kept;
    sent_types_ = BoxTypes(kept, size_of(file_->type()));
  }
  return sent_types_.of(piece);
}

int StagedBlocks::tag_of(std::int64_t place) const {
  return narrow<int>(delivery_.first_tag + delivery_.tag_step * place);
}

Spatial StagedBlocks::origin_of(const SampleUse& use) const {
  if (!delivery_.crops) return {};
  return use.origin.value_or(
      centred_origin(samples_.shape(use.sample).spatial(), delivery_.crops->shape.spatial()));
}

/// The transfers of a symmetry, derived at first use; those of a crop are valid until the next
/// call.
const StagedBlocks::SendRecvList& StagedBlocks::list_of(const SampleUse& use,
                                                        const StagedSample& sample) {
  const Symmetry& s = use.symmetry;
  if (delivery_.crops) {
    const Spatial origin = origin_of(use);
    crop_list_ = {crop_transfers_to(mesh_.part(), sample, *delivery_.crops, origin, s),
                  crop_transfers_from(mesh_.part(), sample, *delivery_.crops, origin, s)};
    return crop_list_;
  }
  const std::size_t number = (s.flip[0] ? 4U : 0U) + (s.flip[1] ? 2U : 0U) + (s.flip[2] ? 1U : 0U) +
                             8U * (3U * s.permutation[0] + s.permutation[1]);
  std::optional<SendRecvList>& known = lists_.at(number);
  if (known) return *known;
  SendRecvList& made = known.emplace();
  const TransferPlan plan = plan_redistribution(sample, s);
  for (const Transfer& t : plan.transfers()) {
    if (t.dst == mesh_.part()) made.incoming.push_back(t);
    if (t.src == mesh_.part()) made.outgoing.push_back(t);
  }
  return made;
}

/// Calls visit(box) for each message in which a box of a slab travels.
template <class Visit>
void StagedBlocks::for_each_message(const Box& box, const Symmetry& symmetry, Visit visit) const {
  if (tiled(symmetry))
    for_each_tile(box, visit);
  else if (!box.empty())
    visit(box);
}

/// Fills the voxels of a block that lie outside its sample.
void StagedBlocks::pad(const SampleUse& use, std::int64_t place) const {
  if (!delivery_.crops || box().empty()) return;
  const Box source = use.symmetry.source_of(box(), delivery_.crops->shape);
  if (Box::whole(samples_.shape(use.sample)).contains(shifted(source, origin_of(use)))) return;
  const AnyView block = block_at(place);
  if (block.type == DataType::kUint8) {
    std::memset(block.data, kOutsideLabel, static_cast<std::size_t>(block.sample_bytes()));
  } else {
    auto* const values = block.as<float>().data;
    std::fill(values, values + block.span.volume(), delivery_.padding);
  }
}

/// Runs on the loader's thread: copies the overlap of a slab of a kept block with a piece to its
/// image.
void StagedBlocks::copy(AnyConstView slab, const Piece& piece) const {
  const Box box = intersect(slab.span, piece.box);
  const Spatial& origin = origin_at(piece.place);
  slab.span = shifted_back(slab.span, origin);
  transform(slab, shifted_back(box, origin), piece.symmetry, used_shape(), block_at(piece.place));
}

void StagedBlocks::begin(const BatchSchedule& schedule, std::int64_t step, AnyView batch) {
  batch_ = batch;
  sent_types_.forget_many();
  received_types_.forget_many();
  origins_.clear();
  local_.clear();
  to_send_.clear();
  uses_.clear();
  arrivals_.clear();
  receives_.clear();
  sends_.clear();
  for (std::int64_t replica = 0; replica < schedule.replicas; ++replica) {
    std::int64_t place = 0;
    for (const SampleUse& use : schedule.taken(step, replica)) {
      const StagedSample& sample = sample_of(use);
      BlockUse block{owners_.of(use.sample).slot,
                     sample.blocks[static_cast<std::size_t>(mesh_.part())],
                     to_send_.size(),
                     0,
                     local_.size(),
                     0};
      if (replica == mesh_.replica()) {
        origins_.push_back(origin_of(use));
        pad(use, place);
        take(use, sample, place);
      }
      give(use, sample, place++, replica);
      block.send_end = to_send_.size();
      block.local_end = local_.size();
      if (block.send < block.send_end || block.local < block.local_end) uses_.push_back(block);
    }
  }
  // Memory is reserved now, because the number of messages that arrive at once depends on timing.
  arrived_.reserve(2 * receives_.size());
  placing_.reserve(receives_.size());
  if (!compressed())
    for (const BlockUse& use : uses_) send(use, stored_block(use), sends_);
}

/// Records which boxes of a sample this rank has itself, and posts receives for all others.
void StagedBlocks::take(const SampleUse& use, const StagedSample& sample, std::int64_t place) {
  const SampleOwners::Owner owner = owners_.of(use.sample);
  for (const Transfer& t : list_of(use, sample).incoming) {
    const Piece piece{place, t.box, use.symmetry};
    if (owner.replica == mesh_.replica() && t.src == mesh_.part())
      local_.push_back(piece);
    else
      receive(sample.blocks[static_cast<std::size_t>(t.src)],
              narrow<int>(mesh_.shape().rank_of(owner.replica, t.src)), piece);
  }
}

/// Posts receives for a box of a block that another rank keeps, each into the memory of its image.
void StagedBlocks::receive(const Box& kept, int from, const Piece& whole) {
  const AnyView block = block_at(whole.place);
  for_each_sent_slab(kept, [&](const Box& slab) {
    for_each_message(intersect(slab, whole.box), whole.symmetry, [&](const Box& piece) {
      const Box image =
          whole.symmetry.mapped(shifted_back(piece, origin_at(whole.place)), used_shape());
      mpi_check(MPI_Irecv(block.begin_of(0, image), 1, received_types_.of(image), from,
                          tag_of(whole.place), comm_.handle(), receives_.add()));
      arrivals_.push_back({whole.place, piece, whole.symmetry});
      received_bytes_ += size_of(file_->type()) * piece.volume();
    });
  });
}

/// Records the boxes of a sample that this rank must send to `replica`.
void StagedBlocks::give(const SampleUse& use, const StagedSample& sample, std::int64_t place,
                        std::int64_t replica) {
  if (owners_.of(use.sample).replica != mesh_.replica()) return;
  for (const Transfer& t : list_of(use, sample).outgoing)
    if (replica != mesh_.replica() || t.dst != mesh_.part())
      to_send_.push_back(
          {place, t.box, use.symmetry, narrow<int>(mesh_.shape().rank_of(replica, t.dst))});
}

/// Sends the requested boxes of a slab of a kept block, in the order of receive().
void StagedBlocks::send(const BlockUse& use, AnyConstView slab, Requests& requests) {
  for (std::size_t i = use.send; i < use.send_end; ++i) {
    const Send& d = to_send_[i];
    for_each_message(intersect(slab.span, d.box), d.symmetry, [&](const Box& piece) {
      mpi_check(MPI_Isend(slab.begin_of(0, piece), 1, sent_type(use.kept, piece), d.rank,
                          tag_of(d.place), comm_.handle(), requests.add()));
    });
  }
}

void StagedBlocks::send_filled() {
  while (const auto filled = ring_->filled()) {
    const SlabRing::Slab& slab = (*ring_)[*filled];
    send(uses_[slab.use], {slab.values.data(), file_->type(), slab.box, 1}, slab_sends_[*filled]);
    sending_[*filled] = true;
  }
  for (std::size_t i = 0; i < SlabRing::kSlabs; ++i) {
    if (!sending_[i] || !slab_sends_[i].test_all()) continue;
    slab_sends_[i].clear();
    sending_[i] = false;
    ring_->give_back(i);
  }
}

void StagedBlocks::gather() {
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    const BlockUse& o = uses_[i];
    file_->verify(o.slot);
    if (compressed()) {
      inflate(i);
      continue;
    }
    for (std::size_t k = o.local; k < o.local_end; ++k) copy(stored_block(o), local_[k]);
  }
}

/// Runs on the loader's thread: inflates a block and passes it on, slab by slab.
void StagedBlocks::inflate(std::size_t use) {
  const BlockUse& o = uses_[use];
  const std::int64_t size = size_of(file_->type());
  codec_.begin(file_->stored(o.slot), o.kept.volume(), size);
  bool closed = false;
  for_each_slab(o.kept, values_of_slab(o.kept), [&](const Box& box) {
    if (closed) return;
    const auto taken = ring_->take();
    closed = !taken;
    if (closed) return;
    SlabRing::Slab& slab = (*ring_)[*taken];
    slab.use = use;
    slab.box = box;
    const std::span<std::byte> values = slab.room(size * box.volume());
    codec_.next(values);
    for (std::size_t k = o.local; k < o.local_end; ++k)
      copy({values.data(), file_->type(), box, 1}, local_[k]);
    if (o.send < o.send_end)
      ring_->hand_on(*taken);
    else
      ring_->give_back(*taken);
  });
}

void StagedBlocks::progress() {
  receives_.take_completed(false, arrived_);
  sends_.test_all();
  send_filled();
}

/// True if place() has work to do.
bool StagedBlocks::choose_arrived() {
  placing_.clear();
  for (const int index : arrived_)
    if (tiled(arrivals_[static_cast<std::size_t>(index)].symmetry)) placing_.push_back(index);
  arrived_.clear();
  if (!placing_.empty() && tile_.size() == 0)
    tile_ = AlignedBuffer<std::byte>(size_of(file_->type()) *
                                     std::max(kTileCounts, 256 * box().extent(kC)));
  return !placing_.empty();
}

void StagedBlocks::place() {
  for (const int index : placing_) {
    const Piece& a = arrivals_[static_cast<std::size_t>(index)];
    transform_in_place(block_at(a.place), file_->type(), shifted_back(a.box, origin_at(a.place)),
                       a.symmetry, used_shape(), tile_.span());
  }
  placing_.clear();
}

void StagedBlocks::await_receives(const std::function<void()>& on_arrival) {
  while (receives_.take_completed(true, arrived_)) on_arrival();
}

void StagedBlocks::finish_sends() {
  sends_.wait_all();
  for (Requests& requests : slab_sends_) requests.wait_all();
  send_filled();
}

}  // namespace halomesh
