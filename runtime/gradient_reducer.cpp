// Sums parameter gradients over their holders: see gradient_reducer.hpp.
#include "runtime/gradient_reducer.hpp"

#include <algorithm>

#include "narrow.hpp"

namespace halomesh {
namespace {

using Parts = std::vector<std::int64_t>;

// The distinct holder sets of the whole network, arranged in rounds of disjoint sets: one split of
// the world makes the communicators of a whole round. The same on every rank.
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
                                 Parameters& parameters, Reduction reduction,
                                 std::int64_t bucket_bytes)
    : parameters_(parameters) {
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
  requests_.assign(buckets_.size(), MPI_REQUEST_NULL);
  completed_.resize(buckets_.size());
}

void GradientReducer::make_buckets(const ModelGeometry& geometry, const HolderGroup& group,
                                   std::size_t comm, std::int64_t bucket_bytes) {
  // Backward completes layers from the last to the first, so buckets grow from the end.
  bool open = false;
  for (std::size_t i = group.ranges.size(); i-- > 0;) {
    const ParameterRange& range = group.ranges[i];
    if (!open) buckets_.push_back({comm, range.offset + range.volume, 0, {}, 0, 0});
    Bucket& bucket = buckets_.back();
    bucket.offset = range.offset;
    bucket.volume += range.volume;
    bucket.layers.push_back(geometry.parameters()[range.placement].layer);
    open = bucket.volume * static_cast<std::int64_t>(sizeof(float)) < bucket_bytes;
  }
}

void GradientReducer::begin() {
  for (Bucket& bucket : buckets_) {
    bucket.missing = bucket.layers.size();
    bucket.stages_started = 0;
  }
}

void GradientReducer::completed(std::size_t layer) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    Bucket& bucket = buckets_[i];
    if (bucket.missing == 0) continue;
    bucket.missing -=
        static_cast<std::size_t>(std::count(bucket.layers.begin(), bucket.layers.end(), layer));
    if (bucket.missing != 0) continue;
    start_stage(i);
    reduced_bytes_ += bucket.volume * static_cast<std::int64_t>(sizeof(float));
  }
}

void GradientReducer::start_stage(std::size_t bucket) {
  Bucket& b = buckets_[bucket];
  sums_[bucket].start(comms_[b.comm], b.stages_started++, parameters_.diffs().data() + b.offset,
                      &requests_[bucket]);
}

// A stage starts after the same stage of the bucket before, so that all ranks of a communicator
// start what they do there in one order, whatever completes first.
void GradientReducer::start_next_stages() {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& bucket = buckets_[i];
    const int next = bucket.stages_started;
    if (next == 0 || next == comms_[bucket.comm].stages() || requests_[i] != MPI_REQUEST_NULL)
      continue;
    const bool first = i == 0 || buckets_[i - 1].comm != bucket.comm;
    if (first || buckets_[i - 1].stages_started > next) start_stage(i);
  }
}

void GradientReducer::progress() {
  int count = 0;
  mpi_check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                         completed_.data(), MPI_STATUSES_IGNORE));
  start_next_stages();
}

// Some, not all: while this rank waits for one sum, others may wait for its part in another.
void GradientReducer::finish() {
  for (int count = 0; count != MPI_UNDEFINED; start_next_stages())
    mpi_check(MPI_Waitsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                           completed_.data(), MPI_STATUSES_IGNORE));
}

}  // namespace halomesh
