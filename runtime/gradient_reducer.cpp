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
                                 Parameters& parameters, std::int64_t bucket_bytes)
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
    comms_.push_back(std::move(comm));
  }
  requests_.assign(buckets_.size(), MPI_REQUEST_NULL);
}

void GradientReducer::make_buckets(const ModelGeometry& geometry, const HolderGroup& group,
                                   std::size_t comm, std::int64_t bucket_bytes) {
  // Backward completes layers from the last to the first, so buckets grow from the end.
  bool open = false;
  for (std::size_t i = group.ranges.size(); i-- > 0;) {
    const ParameterRange& range = group.ranges[i];
    if (!open) buckets_.push_back({comm, range.offset + range.volume, 0, {}, 0});
    Bucket& bucket = buckets_.back();
    bucket.offset = range.offset;
    bucket.volume += range.volume;
    bucket.layers.push_back(geometry.parameters()[range.placement].layer);
    open = bucket.volume * static_cast<std::int64_t>(sizeof(float)) < bucket_bytes;
  }
}

void GradientReducer::begin() {
  for (Bucket& bucket : buckets_) bucket.missing = bucket.layers.size();
}

void GradientReducer::completed(std::size_t layer) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    Bucket& bucket = buckets_[i];
    if (bucket.missing == 0) continue;
    bucket.missing -=
        static_cast<std::size_t>(std::count(bucket.layers.begin(), bucket.layers.end(), layer));
    if (bucket.missing != 0) continue;
    mpi_check(MPI_Iallreduce(MPI_IN_PLACE, parameters_.diffs().data() + bucket.offset,
                             narrow<int>(bucket.volume), MPI_FLOAT, MPI_SUM,
                             comms_[bucket.comm].handle(), &requests_[i]));
    reduced_bytes_ += bucket.volume * static_cast<std::int64_t>(sizeof(float));
  }
}

void GradientReducer::progress() {
  int done = 0;
  mpi_check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done,
                        MPI_STATUSES_IGNORE));
}

void GradientReducer::finish() {
  mpi_check(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE));
}

}  // namespace halomesh
