// Batches out of what the ranks have staged: see stage_loader.hpp.
#include "runtime/stage_loader.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "error.hpp"
#include "narrow.hpp"
#include "partition/tiles.hpp"
#include "src/nn/turn.hpp"

namespace halomesh {
namespace {

/// Counts of a layer that is inflated, at most, and layers of a block, at least.
constexpr std::int64_t kLayerCounts = 256 * 1024, kLayers = 16;

}  // namespace

StageLoader::StageLoader(const ProcessMesh& mesh, KeptSample sample, StagedSplit split,
                         const BatchSpec& spec)
    : mesh_(mesh),
      comm_(mesh.world().dup()),
      sample_(std::move(sample)),
      split_(std::move(split)),
      spec_(spec) {
  require(spec.box == box(), cat("a stage of blocks ", box(), " for batches of ", spec.box));
  for (Buffer& buffer : buffers_) {
    buffer.data = Tensor(spec.box, spec.local_batch, spec.type);
    buffer.targets.resize(static_cast<std::size_t>(spec.local_batch * spec.targets));
    buffer.samples.resize(static_cast<std::size_t>(spec.local_batch));
  }
  layers_ = layers(box());
  sent_types_ = BoxTypes(box());
  // In units of counts, of which two make a number of fp32.
  Box memory = box();
  memory.hi[kC] += memory.extent(kC) * (size_of(spec.type) / 2 - 1);
  received_types_ = BoxTypes(memory);
}

StageLoader::~StageLoader() {
  try {  // others wait for what this rank has to send, unless they end as well: see ~Comm()
    if (std::uncaught_exceptions() == 0) advance(true);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): nobody is left to hear of it
  }
  ring_.close();
}

void StageLoader::append(const Course& course) {
  require(course.local_batch == spec_.local_batch,
          cat("batches of ", course.local_batch, " for a loader of ", spec_.local_batch));
  if (course.steps <= 0) return;
  courses_.push_back(course);
  steps_left_ += course.steps;
  if (phase_ == Phase::kIdle) begin();
}

const Batch& StageLoader::next() {
  if (steps_left_ <= 0) throw Error("a batch was asked for when no step was left");
  const double start = MPI_Wtime();
  advance(true);
  const Batch& batch = buffers_[static_cast<std::size_t>((begun_ - 1) % 2)].batch;
  phase_ = Phase::kIdle;
  --steps_left_;
  if (steps_left_ > 0) begin();
  wait_seconds_ += MPI_Wtime() - start;
  return batch;
}

void StageLoader::progress() { advance(false); }

/// The route of a symmetry, derived when it is first met.
const StageLoader::Route& StageLoader::route(const Symmetry& s) {
  const std::size_t number = (s.flip[0] ? 4U : 0U) + (s.flip[1] ? 2U : 0U) + (s.flip[2] ? 1U : 0U) +
                             8U * (3U * s.permutation[0] + s.permutation[1]);
  std::optional<Route>& known = routes_.at(number);
  if (known) return *known;
  Route& made = known.emplace();
  const TransferPlan plan = plan_delivery(sample_, s);
  for (const Transfer& t : plan.transfers()) {
    if (t.dst == mesh_.part()) made.incoming.push_back(t);
    if (t.src == mesh_.part()) made.outgoing.push_back(t);
  }
  return made;
}

/// What of a kept block is sent at a time: all of it unless it is to be inflated.
std::vector<Box> StageLoader::layers(const Box& kept) const {
  const std::int64_t volume = kept.volume();
  return layers_of(kept, compressed() ? std::min(kLayerCounts, volume / kLayers) : volume);
}

/// The messages in which a box of a layer travels.
std::vector<Box> StageLoader::pieces_of(const Box& box, const Symmetry& symmetry) const {
  if (box.empty()) return {};
  return tiled(symmetry) ? tiles_of(box) : std::vector<Box>{box};
}

AnyView StageLoader::block_at(std::int64_t place) const {
  const AnyView all = buffers_[static_cast<std::size_t>((begun_ - 1) % 2)].data.any_view();
  return {all.data + place * all.sample_bytes(), all.type, all.span, 1};
}

/// Starts the next step of the course in the buffer that is free.
void StageLoader::begin() {
  const Course& course = courses_.front();
  Buffer& buffer = buffers_[static_cast<std::size_t>(begun_++ % 2)];
  local_.clear();
  departures_.clear();
  openings_.clear();
  arrivals_.clear();
  receives_.clear();
  sends_.clear();
  for (std::int64_t replica = 0; replica < course.replicas; ++replica) {
    std::int64_t place = 0;
    for (const SampleUse& use : course.taken(step_, replica)) {
      Opening opening{split_.homes.of(use.sample).slot, departures_.size(), 0, local_.size(), 0};
      if (replica == mesh_.replica()) take(use, place, buffer);
      give(use, place++, replica);
      opening.departures_end = departures_.size();
      opening.local_end = local_.size();
      if (opening.departure < opening.departures_end || opening.local < opening.local_end)
        openings_.push_back(opening);
    }
  }
  const auto count = course.taken(step_, mesh_.replica()).size();
  const AnyView data = buffer.data.any_view();
  buffer.batch = {static_cast<std::int64_t>(count),
                  {data.data, data.type, data.span, static_cast<std::int64_t>(count)},
                  std::span(buffer.targets).first(count * static_cast<std::size_t>(spec_.targets)),
                  std::span(buffer.samples).first(count)};
  if (++step_ == course.steps) {
    courses_.pop_front();
    step_ = 0;
  }
  if (!compressed())
    for (const Opening& o : openings_) send(o, {split_.file.in_place(o.slot), box(), 1}, sends_);
  phase_ = Phase::kMaking;
  task_.start([this] { gather(); });
}

/// Notes what is at hand of a sample for this replica, and posts receives for the rest.
void StageLoader::take(const SampleUse& use, std::int64_t place, Buffer& buffer) {
  buffer.samples[static_cast<std::size_t>(place)] = use.sample;
  std::copy_n(split_.targets.begin() + use.sample * spec_.targets, spec_.targets,
              buffer.targets.begin() + place * spec_.targets);
  const SampleHomes::Home home = split_.homes.of(use.sample);
  for (const Transfer& t : route(use.symmetry).incoming) {
    if (home.replica == mesh_.replica() && t.src == mesh_.part())
      local_.push_back({place, t.box, use.symmetry});
    else
      receive(t, narrow<int>(mesh_.shape().rank_of(home.replica, t.src)),
              {place, t.box, use.symmetry});
  }
}

/// Posts the receives of a box, each into the memory of the image of what it brings.
void StageLoader::receive(const Transfer& transfer, int from, const Piece& whole) {
  const AnyView block = block_at(whole.place);
  for (const Box& layer : layers(sample_.kept[static_cast<std::size_t>(transfer.src)]))
    for (const Box& piece : pieces_of(intersect(layer, whole.box), whole.symmetry)) {
      const Box image = whole.symmetry.image_of(piece, sample_.shape);
      mpi_check(MPI_Irecv(block.begin_of(0, image), 1, received_types_.of(image), from,
                          narrow<int>(whole.place), comm_.handle(), receives_.add()));
      arrivals_.push_back({whole.place, piece, whole.symmetry});
      received_bytes_ += 2 * piece.volume();
    }
}

/// Notes what this rank has to send of a sample that `replica` takes.
void StageLoader::give(const SampleUse& use, std::int64_t place, std::int64_t replica) {
  if (split_.homes.of(use.sample).replica != mesh_.replica()) return;
  for (const Transfer& t : route(use.symmetry).outgoing)
    if (replica != mesh_.replica() || t.dst != mesh_.part())
      departures_.push_back(
          {place, t.box, use.symmetry, narrow<int>(mesh_.shape().rank_of(replica, t.dst))});
}

/// Sends what is wanted of a layer of a kept block, in the order of receive().
void StageLoader::send(const Opening& opening, TensorView<const std::int16_t> layer,
                       Requests& requests) {
  for (std::size_t i = opening.departure; i < opening.departures_end; ++i) {
    const Departure& d = departures_[i];
    for (const Box& piece : pieces_of(intersect(layer.span, d.box), d.symmetry))
      mpi_check(MPI_Isend(layer.begin_of(0, piece), 1, sent_types_.of(piece), d.rank,
                          narrow<int>(d.place), comm_.handle(), requests.add()));
  }
}

/// Sends layers that have been inflated, and frees those that have gone.
void StageLoader::send_filled() {
  while (const auto filled = ring_.filled()) {
    const SlabRing::Slab& slab = ring_[*filled];
    send(openings_[slab.opening], {slab.counts.data(), layers_[slab.layer], 1},
         slab_sends_[*filled]);
    sending_[*filled] = true;
  }
  for (std::size_t i = 0; i < SlabRing::kSlabs; ++i) {
    if (!sending_[i] || !slab_sends_[i].test_all()) continue;
    slab_sends_[i].clear();
    sending_[i] = false;
    ring_.give_back(i);
  }
}

/// On the thread of its own.
void StageLoader::gather() {
  for (std::size_t i = 0; i < openings_.size(); ++i) {
    const Opening& o = openings_[i];
    split_.file.verify(o.slot);
    if (compressed()) {
      inflate(i);
      continue;
    }
    for (std::size_t k = o.local; k < o.local_end; ++k)
      turn({split_.file.in_place(o.slot), box(), 1}, local_[k].box, local_[k].symmetry,
           sample_.shape, block_at(local_[k].place));
  }
}

/// On the thread of its own: a block, layer by layer, to where it is wanted.
void StageLoader::inflate(std::size_t opening) {
  const Opening& o = openings_[opening];
  ring_.reserve(layers_.front().volume());
  codec_.begin(split_.file.stored(o.slot), box().volume());
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const auto taken = ring_.take();
    if (!taken) return;
    SlabRing::Slab& slab = ring_[*taken];
    slab.opening = opening;
    slab.layer = l;
    codec_.next(slab.counts.span().first(static_cast<std::size_t>(layers_[l].volume())));
    for (std::size_t k = o.local; k < o.local_end; ++k)
      turn({slab.counts.data(), layers_[l], 1}, intersect(layers_[l], local_[k].box),
           local_[k].symmetry, sample_.shape, block_at(local_[k].place));
    if (o.departure < o.departures_end)
      ring_.hand_on(*taken);
    else
      ring_.give_back(*taken);
  }
}

/// Has the thread, which is idle, turn what has arrived.
void StageLoader::place() {
  placing_.clear();
  for (const int index : arrived_)
    if (tiled(arrivals_[static_cast<std::size_t>(index)].symmetry)) placing_.push_back(index);
  arrived_.clear();
  if (placing_.empty()) return;
  if (tile_.size() == 0)
    tile_ = AlignedBuffer<std::int16_t>(std::max(kTileCounts, 256 * box().extent(kC)));
  task_.start([this] {
    for (const int index : placing_) {
      const Piece& a = arrivals_[static_cast<std::size_t>(index)];
      turn_in_place(block_at(a.place), a.box, a.symmetry, sample_.shape, tile_.span());
    }
  });
}

/// Goes on with the step in the making, as far as that needs no waiting unless it may `wait`.
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
