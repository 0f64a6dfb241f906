// SPDX-License-Identifier: Apache-2.0
// Sums parameter gradients over the ranks that hold them, in buckets, while backward continues.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/log/step_counts.hpp"
#include "runtime/mpi/in_flight.hpp"
#include "runtime/mpi/mpi.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/step/holder_set.hpp"
#include "runtime/step/point_sum.hpp"
#include "runtime/step/reduction.hpp"
#include "src/nn/gradient_buckets.hpp"
#include "src/nn/parameters.hpp"
#include "trace.hpp"

namespace halomesh {

/// Which ranks sum which slice, for 2 replicas of parts {0, 1}; conv is held by all, each slice of
/// fc1 by one part, fc2 by part 0:
///
///   rank             0         1         2         3
///   (replica, part)  (0,0)     (0,1)     (1,0)     (1,1)
///   conv             a         b         c         d        -> a+b+c+d everywhere
///   fc1              e         f         g         h        -> e+g on 0 and 2, f+h on 1 and 3
///   fc2              i         -         k         -        -> i+k on 0 and 2
class GradientReducer {
 public:
  static constexpr std::int64_t kBucketBytes = 4 << 20;

  /// Messages go over mesh.world(), which must outlive this object, as must `parameters`. Local,
  /// except that Reduction::kFlat creates communicators and is collective over mesh.world(). A
  /// bucket is closed when it holds at least `bucket_bytes`. `trace` (may be null) records
  /// Phase::kReductionStart and kReductionWait, the latter with the bytes of the step; its timeline
  /// records the sum of each bucket. With `payload` kBfloat16, which kFlat cannot send, gradients
  /// travel as PointSum rounds them; a rank keeps its rounding losses in the state
  /// kGradientResidual of `parameters` and adds them to its next gradient. Throws UsageError for
  /// kFlat, Error without that state.
  ///
  /// Where Parameters::exact() keeps sums, kFlat alone sums these over the ranks, and they are then
  /// rounded to diffs(): the result does not depend on ranks or passes.
  GradientReducer(const ProcessMesh& mesh, const ModelGeometry& geometry, Parameters& parameters,
                  Reduction reduction = Reduction::kAuto, Trace* trace = nullptr,
                  std::int64_t bucket_bytes = kBucketBytes, DataType payload = DataType::kFloat32);

  /// Bytes that a rank of `part` keeps for messages of sums other than kFlat. Local.
  static std::int64_t buffer_bytes(const MeshShape& mesh, int ranks_per_node, std::int64_t part,
                                   const ModelGeometry& geometry,
                                   Reduction reduction = Reduction::kAuto,
                                   std::int64_t bucket_bytes = kBucketBytes,
                                   DataType payload = DataType::kFloat32);

  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;
  ~GradientReducer();

  /// For steps of several backward passes. After `more` = true, finish() only adds the gradients of
  /// the pass to those of earlier passes; after false (the default), it sums over ranks the
  /// gradients of all passes. The first call with `more` allocates memory for earlier gradients.
  void expect_more(bool more);

  /// Call it before each backward pass.
  void begin();
  /// Reports that the gradients of `layer` are complete on this rank, and starts the sum of every
  /// bucket that is complete now. Holders may complete layers in any order, except with
  /// Reduction::kFlat, which needs one order.
  void completed(std::size_t layer);
  /// Lets MPI make progress and sends the next messages of sums.
  void progress();
  /// Waits until Parameters::diffs() holds the sums over all holders, in place. After a pass that
  /// is not the last one it does not wait, and diffs() are meaningless. Throws Error if an exact
  /// sum has a term that is too large for it.
  void finish();

  /// Sums Parameters::diffs() as a whole step does, without any compute. Collective.
  void reduce_all();

  /// Restricts sums to the parameters that Parameters::freeze() has left to train. Allocates
  /// memory. Local; not during a pass; with the same frozen layers on all ranks.
  void leave_out_frozen();

  /// Moves the rounding losses of all holders of each slice to the first holder, so that its
  /// checkpoint contains all of them. Adds in fp32. Does nothing unless the payload is kBfloat16.
  /// Collective over mesh.world(); not during a pass.
  void gather_residuals();
  /// Clears the residuals of all holders but the first, after every rank has loaded the state.
  /// Local.
  void clear_copied_residuals();

  /// Bytes that a ring all-reduce moves in and out of this rank in a step: 2 (n - 1) / n of each
  /// bucket over n ranks, whatever algorithm the MPI library chooses.
  double ring_bytes() const;
  /// One sum of a step on this rank.
  struct Sum {
    std::int64_t bytes = 0;
    int ranks = 0;
    const char* way = "";  ///< name_of() its SumAlgorithm or Reduction::kFlat
  };
  std::vector<Sum> sums() const;
  /// Bytes of gradients that this rank has contributed to sums since construction.
  std::int64_t reduced_bytes() const { return counts_.bytes; }
  /// Counts of gradient sums since construction. The end of a sum is seen only by progress() and
  /// finish().
  const ReductionCounts& counts() const { return counts_; }

 private:
  struct Bucket : GradientBucket {
    std::size_t set = 0;
    int tag = 0;  // differs from the tags of other buckets that two ranks share
    std::size_t missing = 0;
    const char* way = "";
    std::int64_t begin_ns = 0;  // start of the current sum
  };
  void make_sums();
  std::size_t set_of(const HolderGroup& group);
  void add_sum(std::size_t bucket);
  SumChoice choice_of(const Bucket& bucket) const;
  void start(std::size_t bucket);
  void add_earlier(std::int64_t offset, std::int64_t volume);
  void keep_pass();
  void end(std::size_t bucket);
  InFlight<PointSum> sum_of(std::size_t bucket, DataType payload) const;
  std::int64_t bytes_of(const Bucket& bucket) const {
    return bucket.volume * (exact() ? 2 * size_of(DataType::kFloat64) : size_of(payload_));
  }
  bool exact() const { return !parameters_.exact().empty(); }
  void take_exact_sums();
  bool take_completed(bool wait);
  // With kFlat, each sum is one request of MPI.
  bool flat() const { return !comms_.empty(); }
  std::size_t requests_of_a_sum() const { return flat() ? 1 : PointSum::kRequests; }

  const ProcessMesh& mesh_;
  const ModelGeometry& geometry_;
  Parameters& parameters_;
  Trace* trace_;
  std::size_t layers_;
  Reduction reduction_;
  std::int64_t bucket_bytes_;
  DataType payload_;
  std::span<float> residual_;     // a state of Parameters; empty where gradients are not rounded
  AlignedBuffer<float> earlier_;  // the sum of the step's earlier passes
  bool more_ = false, has_earlier_ = false;
  std::vector<HolderSet> sets_;  // this rank's holder groups of more than one rank
  struct SummedGroup {
    const HolderGroup* group;
    std::size_t set;
  };
  std::vector<SummedGroup> summed_;        // the groups of these sets
  std::vector<const HolderGroup*> alone_;  // the groups that only this rank holds
  std::vector<Comm> comms_;                // one for each set, for Reduction::kFlat alone
  std::vector<Bucket> buckets_;  // in the order in which backward completes them, group by group
  InFlight<AlignedBuffer<float>> in_place_;  // takes over the memory of sums when unwinding
  InFlight<AlignedBuffer<double>> exact_in_place_;
  std::vector<InFlight<PointSum>> sums_;  // one for each bucket; none for Reduction::kFlat
  Requests requests_;                     // the requests of all buckets, in order
  std::vector<int> completed_;            // memory for the indices of completed requests
  std::size_t active_ = 0;                // sums in flight
  ReductionCounts counts_;
  std::int64_t step_bytes_ = 0;
};

}  // namespace halomesh
