// SPDX-License-Identifier: Apache-2.0
// Sums parameter gradients over their holders: see gradient_reducer.hpp.
#include "runtime/step/gradient_reducer.hpp"

#include <algorithm>
#include <utility>

#include "error.hpp"
#include "narrow.hpp"
#include "src/nn/add.hpp"

namespace halomesh {
namespace {

/// The first tag of sums on the mesh's world communicator.
constexpr int kFirstTag = 1000;

/// Numbers the slices of all parameters alike on all holders of a slice.
int number_of(const ModelGeometry& geometry, std::size_t placement, std::int64_t part) {
  std::ptrdiff_t number = 0;
  for (std::size_t p = 0; p < placement; ++p)
    number += std::ssize(geometry.parameters()[p].holders);
  const auto& holders = geometry.parameters()[placement].holders;
  const auto mine = std::find_if(holders.begin(), holders.end(), [&](const SliceHolders& h) {
    return std::binary_search(h.parts.begin(), h.parts.end(), part);
  });
  return narrow<int>(number + (mine - holders.begin()));
}

int greatest_tag(const Comm& comm) {
  int* value = nullptr;
  int found = 0;
  mpi_check(MPI_Comm_get_attr(comm.handle(), MPI_TAG_UB, static_cast<void*>(&value), &found));
  return found != 0 ? *value : 32767;  // the smallest maximum tag that the MPI standard guarantees
}

}  // namespace

GradientReducer::GradientReducer(const ProcessMesh& mesh, const ModelGeometry& geometry,
                                 Parameters& parameters, Reduction reduction, Trace* trace,
                                 std::int64_t bucket_bytes, DataType payload)
    : mesh_(mesh),
      geometry_(geometry),
      parameters_(parameters),
      trace_(trace),
      layers_(geometry.layers().size()),
      reduction_(reduction),
      bucket_bytes_(bucket_bytes),
      payload_(payload) {
  if (payload == DataType::kBfloat16) {
    if (reduction == Reduction::kFlat)
      throw UsageError("MPI's own sums cannot send gradients as bf16",
                       "use --gradient-payload fp32, or another --reduction than flat");
    residual_ = parameters.state(kGradientResidual);
    require(std::ssize(residual_) == parameters.size(),
            "gradients are to travel as bf16, but the parameters have no state for what they lose");
  }
  require(!exact() || (reduction == Reduction::kFlat && payload == DataType::kFloat32),
          "exact sums of gradients are summed by MPI alone, and as they are");
  for (const HolderGroup& group : parameters.groups()) {
    if (mesh.shape().replicas * std::ssize(group.parts) == 1)
      alone_.push_back(&group);
    else
      summed_.push_back({&group, set_of(group)});
  }
  if (reduction == Reduction::kFlat) comms_ = comms_of(mesh, geometry, sets_);
  make_sums();
  for (std::size_t i = 0; i < buckets_.size() * requests_of_a_sum(); ++i) requests_.add();
  completed_.reserve(requests_.size());
}

// Returns an existing set if it has the group's holders: groups of trained parameters and of moving
// averages may share them.
std::size_t GradientReducer::set_of(const HolderGroup& group) {
  const auto found = std::find_if(sets_.begin(), sets_.end(),
                                  [&](const HolderSet& set) { return set.parts == group.parts; });
  if (found != sets_.end()) return static_cast<std::size_t>(found - sets_.begin());
  sets_.emplace_back(mesh_.shape(), mesh_.ranks_per_node(), group.parts);
  return sets_.size() - 1;
}

void GradientReducer::make_sums() {
  buckets_.clear();
  sums_.clear();
  for (const auto& [group, set] : summed_)
    for (GradientBucket& bucket : gradient_buckets(geometry_, *group, bucket_bytes_)) {
      const int tag = kFirstTag + number_of(geometry_, bucket.placement, mesh_.part());
      buckets_.push_back({std::move(bucket), set, tag});
    }
  for (std::size_t i = 0; i < buckets_.size(); ++i) add_sum(i);
}

// This needs at most as many requests as before.
void GradientReducer::leave_out_frozen() { make_sums(); }

SumChoice GradientReducer::choice_of(const Bucket& bucket) const {
  return sets_[bucket.set].choose(reduction_, static_cast<double>(bytes_of(bucket)), mesh_.torus());
}

InFlight<PointSum> GradientReducer::sum_of(std::size_t bucket, DataType payload) const {
  const Bucket& b = buckets_[bucket];
  const HolderSet& set = sets_[b.set];
  // Buckets in flight together begin with different axes of a torus.
  const auto rounds = sum_schedule(choice_of(b), set.holder(mesh_.replica(), mesh_.part()),
                                   b.volume, narrow<int>(bucket));
  return InFlight<PointSum>(
      mesh_.world(), b.tag, rounds, [&set](int holder) { return set.world_rank(holder); }, payload);
}

void GradientReducer::add_sum(std::size_t bucket) {
  Bucket& b = buckets_[bucket];
  if (flat()) {
    b.way = name_of(reduction_);
    return;
  }
  require(b.tag <= greatest_tag(mesh_.world()),
          fmt::format("sums of gradients need the tag {} of messages, but MPI has tags only up to "
                      "{}",
                      b.tag, greatest_tag(mesh_.world())),
          "use --reduction flat");
  b.way = name_of(choice_of(b).algorithm);
  sums_.push_back(sum_of(bucket, payload_));
}

GradientReducer::~GradientReducer() {
  if (unwinding()) {
    *in_place_ = std::move(parameters_.diff_buffer());
    *exact_in_place_ = std::move(parameters_.exact_buffer());
    return;
  }
  try {  // other ranks wait for the remaining rounds
    while (active_ > 0 && take_completed(true)) {
    }
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): main() ends the waiting ranks
  }
}

std::int64_t GradientReducer::buffer_bytes(const MeshShape& mesh, int ranks_per_node,
                                           std::int64_t part, const ModelGeometry& geometry,
                                           Reduction reduction, std::int64_t bucket_bytes,
                                           DataType payload) {
  std::int64_t bytes = 0;
  int number = 0;
  for (const HolderGroup& group : holder_groups(geometry, part)) {
    if (mesh.replicas * std::ssize(group.parts) == 1) continue;
    const HolderSet set(mesh, ranks_per_node, group.parts);
    for (const GradientBucket& bucket : gradient_buckets(geometry, group, bucket_bytes)) {
      const SumChoice choice =
          set.choose(reduction, static_cast<double>(bucket.volume * size_of(payload)), {});
      bytes += PointSum::buffer_bytes(
          sum_schedule(choice, set.holder(0, part), bucket.volume, number++), payload);
    }
  }
  return bytes;
}

void GradientReducer::expect_more(bool more) {
  more_ = more;
  if (more && !exact() && earlier_.size() == 0) earlier_ = AlignedBuffer<float>(parameters_.size());
}

// Adds the gradients of earlier passes to those of the last one.
void GradientReducer::add_earlier(std::int64_t offset, std::int64_t volume) {
  if (!has_earlier_) return;
  add_values(parameters_.diffs().data() + offset, earlier_.data() + offset, volume);
}

void GradientReducer::keep_pass() {
  if (exact()) return;  // layers add to the exact sums themselves
  const std::span<const float> diffs = parameters_.diffs();
  if (has_earlier_)
    add_values(earlier_.data(), diffs.data(), parameters_.size());
  else
    std::copy(diffs.begin(), diffs.end(), earlier_.data());
  has_earlier_ = true;
}

void GradientReducer::begin() {
  step_bytes_ = 0;
  for (Bucket& bucket : buckets_) bucket.missing = bucket.layers.size();
}

void GradientReducer::completed(std::size_t layer) {
  if (more_) return;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    Bucket& bucket = buckets_[i];
    if (bucket.missing == 0) continue;
    bucket.missing -=
        static_cast<std::size_t>(std::count(bucket.layers.begin(), bucket.layers.end(), layer));
    if (bucket.missing != 0) continue;
    start(i);
    step_bytes_ += bytes_of(bucket);
  }
}

void GradientReducer::reduce_all() {
  begin();
  for (std::size_t layer = layers_; layer-- > 0;) completed(layer);
  finish();
}

void GradientReducer::gather_residuals() {
  if (residual_.empty()) return;
  // All sums run at once, as in a step, because ranks order their buckets differently.
  std::vector<InFlight<PointSum>> sums;
  std::size_t active = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    sums.push_back(sum_of(i, DataType::kFloat32));
    if (!sums[i]->start(residual_.data() + buckets_[i].offset, &requests_[i * requests_of_a_sum()]))
      ++active;
  }
  const auto each = static_cast<int>(requests_of_a_sum());
  while (active > 0) {
    completed_.clear();
    requests_.take_completed(true, completed_);
    for (const int i : completed_)
      if (sums[static_cast<std::size_t>(i / each)]->completed(i % each)) --active;
  }
  clear_copied_residuals();
}

void GradientReducer::clear_copied_residuals() {
  if (residual_.empty()) return;
  for (const Bucket& b : buckets_)
    if (sets_[b.set].holder(mesh_.replica(), mesh_.part()) != 0)
      std::fill_n(residual_.data() + b.offset, b.volume, 0.0f);
}

double GradientReducer::ring_bytes() const {
  double bytes = 0;
  for (const Bucket& bucket : buckets_) {
    const double ranks = sets_[bucket.set].size();
    bytes += 2 * (ranks - 1) / ranks * static_cast<double>(bytes_of(bucket));
  }
  return bytes;
}

std::vector<GradientReducer::Sum> GradientReducer::sums() const {
  std::vector<Sum> sums;
  for (const Bucket& b : buckets_) sums.push_back({bytes_of(b), sets_[b.set].size(), b.way});
  return sums;
}

void GradientReducer::start(std::size_t bucket) {
  const TraceScope scope(trace_, Phase::kReductionStart);
  Bucket& b = buckets_[bucket];
  b.begin_ns = Trace::now_ns();
  ++active_;
  add_earlier(b.offset, b.volume);
  float* const values = parameters_.diffs().data() + b.offset;
  float* const lost = residual_.empty() ? nullptr : residual_.data() + b.offset;
  if (lost != nullptr) {
    add_values(values, lost, b.volume);
    std::fill_n(lost, b.volume, 0.0f);
  }
  MPI_Request* const requests = &requests_[bucket * requests_of_a_sum()];
  if (exact())
    mpi_check(MPI_Iallreduce(MPI_IN_PLACE, parameters_.exact().data() + 2 * b.offset,
                             narrow<int>(2 * b.volume), MPI_DOUBLE, MPI_SUM, comms_[b.set].handle(),
                             requests));
  else if (flat())
    mpi_check(MPI_Iallreduce(MPI_IN_PLACE, values, narrow<int>(b.volume), MPI_FLOAT, MPI_SUM,
                             comms_[b.set].handle(), requests));
  else if (sums_[bucket]->start(values, requests, lost))
    end(bucket);
}

void GradientReducer::end(std::size_t bucket) {
  TimelineEvent sum;
  sum.kind = TimelineEvent::Kind::kSum;
  sum.tag = narrow<int>(bucket);
  sum.bytes = bytes_of(buckets_[bucket]);
  sum.begin_ns = buckets_[bucket].begin_ns;
  sum.end_ns = Trace::now_ns();
  --active_;
  ++counts_.buckets;
  counts_.ns += sum.end_ns - sum.begin_ns;
  if (trace_ != nullptr && trace_->timeline() != nullptr) trace_->timeline()->add(sum);
}

// Returns false if nothing had completed.
bool GradientReducer::take_completed(bool wait) {
  completed_.clear();
  requests_.take_completed(wait, completed_);
  const auto each = static_cast<int>(requests_of_a_sum());
  for (const int i : completed_) {
    const auto bucket = static_cast<std::size_t>(i / each);
    if (flat() || sums_[bucket]->completed(i % each)) end(bucket);
  }
  return !completed_.empty();
}

// Repeats until nothing more has arrived: messages of the next round may already be there.
void GradientReducer::progress() {
  while (active_ > 0 && take_completed(false)) {
  }
}

// Waits for any sums, not for all: while this rank waits for one sum, others may wait for its
// contribution to another.
void GradientReducer::finish() {
  if (more_) return keep_pass();
  for (const HolderGroup* group : alone_) add_earlier(group->offset, group->volume);
  has_earlier_ = false;
  TraceScope scope(trace_, Phase::kReductionWait);
  scope.add_received(step_bytes_);
  counts_.bytes += step_bytes_;
  while (active_ > 0) take_completed(true);
  if (exact()) take_exact_sums();
}

void GradientReducer::take_exact_sums() {
  for (const HolderGroup& group : parameters_.groups())
    for (const ParameterRange& range : group.ranges) {
      if (take_sums(parameters_.exact(range), range.volume,
                    parameters_.diffs().data() + range.offset))
        continue;
      const ParameterPlacement& placement = geometry_.parameters()[range.placement];
      throw Error(
          fmt::format("the gradient of the {} of {} is not finite, or has a term above {:g}",
                      placement.geometry.name, placement.layer_name, halomesh::exact::kLargestTerm),
          "lower --lr or lengthen the warm-up, or train without --reproducible, whose sums "
          "have no room for more");
    }
}

}  // namespace halomesh
