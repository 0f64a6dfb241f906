// Batches out of what the ranks have staged: see stage_loader.hpp.
#include "runtime/stage_loader.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "error.hpp"
#include "narrow.hpp"
#include "src/nn/turn.hpp"

namespace halomesh {

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
  if (split_.file.codec() == StageCodec::kDeflate)
    room_ = AlignedBuffer<std::int16_t>(box().volume());
}

StageLoader::~StageLoader() {
  if (std::uncaught_exceptions() > 0) return;  // as in ~Comm()
  try {
    advance(true);  // others wait for what this rank has to send
  } catch (const std::exception&) {
    phase_ = Phase::kIdle;  // nobody is left to hear of it
  }
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
    if (t.src != mesh_.part()) continue;
    made.outgoing.push_back(t);
    made.outgoing_types.emplace_back(box(), t.box);
  }
  return made;
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
  arrived_.clear();
  departures_.clear();
  receives_.clear();
  sends_.clear();
  inflated_used_ = 0;
  for (std::int64_t replica = 0; replica < course.replicas; ++replica) {
    std::int64_t place = 0;
    for (const SampleUse& use : course.taken(step_, replica)) {
      if (replica == mesh_.replica()) take(use, place, buffer);
      give(use, place++, replica);
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
  if (split_.file.codec() == StageCodec::kNone) send();
  phase_ = Phase::kGathering;
  task_.start([this] { gather(); });
}

/// Notes what is at hand of a sample for this replica, and posts receives for the rest.
void StageLoader::take(const SampleUse& use, std::int64_t place, Buffer& buffer) {
  buffer.samples[static_cast<std::size_t>(place)] = use.sample;
  std::copy_n(split_.targets.begin() + use.sample * spec_.targets, spec_.targets,
              buffer.targets.begin() + place * spec_.targets);
  const SampleHomes::Home home = split_.homes.of(use.sample);
  std::int64_t offset = place * box().volume();
  for (const Transfer& t : route(use.symmetry).incoming) {
    if (home.replica == mesh_.replica() && t.src == mesh_.part()) {
      local_.push_back({home.slot, place, t.box, use.symmetry});
      continue;
    }
    std::int16_t* to = nullptr;
    if (use.symmetry.is_identity() && spec_.type == DataType::kInt16) {
      to = block_at(place).as<std::int16_t>().data;
    } else {
      if (arrivals_.size() == 0)
        arrivals_ = AlignedBuffer<std::int16_t>(spec_.local_batch * box().volume());
      to = arrivals_.data() + offset;
      arrived_.push_back({place, offset, t.box, use.symmetry});
      offset += t.box.volume();
    }
    const int from = narrow<int>(mesh_.shape().rank_of(home.replica, t.src));
    mpi_check(MPI_Irecv(to, narrow<int>(t.box.volume()), MPI_INT16_T, from, narrow<int>(place),
                        comm_.handle(), receives_.add()));
    received_bytes_ += 2 * t.box.volume();
  }
}

/// Notes what this rank has to send of a sample that `replica` takes.
void StageLoader::give(const SampleUse& use, std::int64_t place, std::int64_t replica) {
  const SampleHomes::Home home = split_.homes.of(use.sample);
  if (home.replica != mesh_.replica()) return;
  const Route& its = route(use.symmetry);
  bool needed = false;
  for (std::size_t i = 0; i < its.outgoing.size(); ++i) {
    const Transfer& t = its.outgoing[i];
    if (replica == mesh_.replica() && t.dst == mesh_.part()) continue;
    departures_.push_back(
        {home.slot, place, &t, its.outgoing_types[i].get(), replica, inflated_used_});
    needed = true;
  }
  if (needed && split_.file.codec() == StageCodec::kDeflate) ++inflated_used_;
}

void StageLoader::send() {
  const bool raw = split_.file.codec() == StageCodec::kNone;
  for (const Departure& d : departures_) {
    const std::int16_t* const counts =
        raw ? split_.file.in_place(d.slot) : inflated_[d.inflated].data();
    const int to = narrow<int>(mesh_.shape().rank_of(d.replica, d.transfer->dst));
    mpi_check(MPI_Isend(counts, 1, d.type, to, narrow<int>(d.place), comm_.handle(), sends_.add()));
  }
}

/// On the thread of its own.
void StageLoader::gather() {
  while (inflated_.size() < inflated_used_) inflated_.emplace_back(box().volume());
  std::int64_t done = -1;  // departures of one slot follow each other
  for (const Departure& d : departures_) {
    if (d.slot == done) continue;
    if (split_.file.codec() == StageCodec::kNone)
      split_.file.verify(d.slot);
    else
      split_.file.read(d.slot, inflated_[d.inflated].span());
    done = d.slot;
  }
  for (const LocalPiece& piece : local_)
    turn(kept(split_.file.read(piece.slot, room_.span()).data()), piece.box, piece.symmetry,
         sample_.shape, block_at(piece.place));
}

/// On the thread of its own.
void StageLoader::place_arrivals() {
  for (const ArrivedPiece& piece : arrived_)
    turn({arrivals_.data() + piece.offset, piece.box, 1}, piece.box, piece.symmetry, sample_.shape,
         block_at(piece.place));
}

/// Goes through the phases of the step in the making, as far as that needs no waiting unless it
/// may `wait`.
void StageLoader::advance(bool wait) {
  if (phase_ == Phase::kGathering) {
    receives_.test_all();  // what does not wait for this rank's thread moves on
    if (!wait && !task_.done()) return;
    task_.wait();
    if (split_.file.codec() == StageCodec::kDeflate) send();
    phase_ = Phase::kTravelling;
  }
  if (phase_ == Phase::kTravelling) {
    if (!wait && !receives_.test_all()) return;
    receives_.wait_all();
    phase_ = Phase::kPlacing;
    if (!arrived_.empty()) task_.start([this] { place_arrivals(); });
  }
  if (phase_ == Phase::kPlacing) {
    if (!wait && !task_.done()) return;
    task_.wait();
    phase_ = Phase::kReady;
  }
  if (wait) sends_.wait_all();
}

}  // namespace halomesh
