// SPDX-License-Identifier: Apache-2.0
// Sums parameter gradients over their holders: see gradient_reducer.hpp.
#include "runtime/step/gradient_reducer.hpp"

#include <algorithm>
#include <utility>

#include "narrow.hpp"

namespace halomesh {
namespace {

using Parts = std::vector<std::int64_t>;

// The distinct holder sets of the whole network, arranged in rounds of disjoint sets: one split of
// the world creates the communicators of a whole round. The same on every rank.
std::vector<std::vector<Parts>> disjoint_rounds(const ModelGeometry& geometry) {
  std::vector<Parts> sets;
  for (const ParameterPlacement& placement : geometry.parameters())
    for (const SliceHolders& holders : placement.holders)
      if (std::find(sets.begin(), sets.end(), holders.parts) == sets.end())
        sets.push_back(holders.parts);
  std::vector<std::vector<Parts>> rounds;
  const auto disjoint = [](const Parts& a, const Parts& b) {
    return std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) == a.end();
  };
  for (const Parts& set : sets) {
    const auto round = std::find_if(rounds.begin(), rounds.end(), [&](const auto& members) {
      return std::all_of(members.begin(), members.end(),
                         [&](const Parts& other) { return disjoint(set, other); });
    });
    if (round == rounds.end())
      rounds.push_back({set});
    else
      round->push_back(set);
  }
  return rounds;
}

}  // namespace

GradientReducer::GradientReducer(const ProcessMesh& mesh, const ModelGeometry& geometry,
                                 Parameters& parameters, Reduction reduction, Trace* trace,
                                 std::int64_t bucket_bytes)
    : parameters_(parameters), trace_(trace), layers_(geometry.layers().size()) {
  for (const auto& round : disjoint_rounds(geometry)) {
    int color = -1;
    for (std::size_t i = 0; i < round.size(); ++i)
      if (std::binary_search(round[i].begin(), round[i].end(), mesh.part())) color = narrow<int>(i);
    Comm comm = mesh.world().split(color, mesh.world().rank());
    if (color < 0 || comm.size() == 1) continue;
    for (const HolderGroup& group : parameters.groups())
      if (group.parts == round[static_cast<std::size_t>(color)])
        make_buckets(geometry, group, comms_.size(), bucket_bytes);
    comms_.emplace_back(std::move(comm), mesh.replica(), reduction);
  }
  for (const Bucket& bucket : buckets_) sums_.emplace_back(comms_[bucket.comm], bucket.volume);
  for (std::size_t i = 0; i < buckets_.size(); ++i) requests_.add();
  completed_.reserve(buckets_.size());
}

GradientReducer::~GradientReducer() {
  if (unwinding()) *in_place_ = std::move(parameters_.diff_buffer());
}

void GradientReducer::make_buckets(const ModelGeometry& geometry, const HolderGroup& group,
                                   std::size_t comm, std::int64_t bucket_bytes) {
  // Backward completes layers from the last to the first, so buckets grow from the end.
  bool open = false;
  for (std::size_t i = group.ranges.size(); i-- > 0;) {
    const ParameterRange& range = group.ranges[i];
    if (!open) buckets_.push_back({comm, range.offset + range.volume, 0, {}, 0, 0, 0});
    Bucket& bucket = buckets_.back();
    bucket.offset = range.offset;
    bucket.volume += range.volume;
    bucket.layers.push_back(geometry.parameters()[range.placement].layer);
    open = bucket.volume * static_cast<std::int64_t>(sizeof(float)) < bucket_bytes;
  }
}

void GradientReducer::begin() {
  step_bytes_ = 0;
  for (Bucket& bucket : buckets_) {
    bucket.missing = bucket.layers.size();
    bucket.rounds_started = 0;
  }
}

void GradientReducer::completed(std::size_t layer) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    Bucket& bucket = buckets_[i];
    if (bucket.missing == 0) continue;
    bucket.missing -=
        static_cast<std::size_t>(std::count(bucket.layers.begin(), bucket.layers.end(), layer));
    if (bucket.missing != 0) continue;
    start_round(i);
    step_bytes_ += bucket.volume * static_cast<std::int64_t>(sizeof(float));
  }
}

void GradientReducer::reduce_all() {
  begin();
  for (std::size_t layer = layers_; layer-- > 0;) completed(layer);
  finish();
}

double GradientReducer::ring_bytes() const {
  double bytes = 0;
  for (const Bucket& bucket : buckets_) {
    const double ranks = comms_[bucket.comm].all.size();
    bytes += 2 * (ranks - 1) / ranks * static_cast<double>(bucket.volume) * sizeof(float);
  }
  return bytes;
}

void GradientReducer::start_round(std::size_t bucket) {
  const TraceScope scope(trace_, Phase::kReductionStart);
  Bucket& b = buckets_[bucket];
  if (b.rounds_started == 0) b.begin_ns = Trace::now_ns();
  sums_[bucket]->start(comms_[b.comm], b.rounds_started++, parameters_.diffs().data() + b.offset,
                       &requests_[bucket]);
}

// A round starts after the same round of the previous bucket, so that all ranks of a communicator
// start its collectives in the same order, whichever completes first.
void GradientReducer::start_next_rounds() {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& bucket = buckets_[i];
    const int next = bucket.rounds_started;
    if (next == 0 || next == comms_[bucket.comm].rounds() || requests_[i] != MPI_REQUEST_NULL)
      continue;
    const bool first = i == 0 || buckets_[i - 1].comm != bucket.comm;
    if (first || buckets_[i - 1].rounds_started > next) start_round(i);
  }
}

// False when no sum was in flight.
bool GradientReducer::take_completed(bool wait) {
  completed_.clear();
  const bool some = requests_.take_completed(wait, completed_);
  for (const int i : completed_) {
    const Bucket& bucket = buckets_[static_cast<std::size_t>(i)];
    if (bucket.rounds_started < comms_[bucket.comm].rounds()) continue;
    TimelineEvent sum;
    sum.kind = TimelineEvent::Kind::kSum;
    sum.tag = i;
    sum.bytes = bucket.volume * static_cast<std::int64_t>(sizeof(float));
    sum.begin_ns = bucket.begin_ns;
    sum.end_ns = Trace::now_ns();
    ++counts_.buckets;
    counts_.ns += sum.end_ns - sum.begin_ns;
    if (trace_ != nullptr && trace_->timeline() != nullptr) trace_->timeline()->add(sum);
  }
  return some;
}

void GradientReducer::progress() {
  take_completed(false);
  start_next_rounds();
}

// Waits for some, not for all: while this rank waits for one sum, others may wait for its
// contribution to another.
void GradientReducer::finish() {
  TraceScope scope(trace_, Phase::kReductionWait);
  scope.add_received(step_bytes_);
  counts_.bytes += step_bytes_;
  while (take_completed(true)) start_next_rounds();
}

}  // namespace halomesh
