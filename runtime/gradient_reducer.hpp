// Sums parameter gradients over the ranks that hold them, in buckets, while backward goes on.
// Knows slices and holders; nothing of layers' mathematics or of the optimizer.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/mpi.hpp"
#include "runtime/process_mesh.hpp"
#include "runtime/reduction.hpp"
#include "src/nn/parameters.hpp"

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
  /// Collective over mesh.world(): makes the communicators of each holder group. `parameters` must
  /// outlive this object. A bucket is closed when it holds at least `bucket_bytes`.
  GradientReducer(const ProcessMesh& mesh, const ModelGeometry& geometry, Parameters& parameters,
                  Reduction reduction = Reduction::kFlat, std::int64_t bucket_bytes = 4 << 20);

  /// Before the backward pass of a step.
  void begin();
  /// The gradients of `layer` are complete on this rank. Starts the sum of every bucket that is
  /// complete now; all holders complete their layers in the same order.
  void completed(std::size_t layer);
  /// Lets MPI make progress, and sums go on to their next stage.
  void progress();
  /// Waits until Parameters::diffs() holds the sums over all holders, in place.
  void finish();

  /// Bytes of gradients that this rank contributed to sums since construction.
  std::int64_t reduced_bytes() const { return reduced_bytes_; }

 private:
  struct Bucket {
    std::size_t comm = 0;
    std::int64_t offset = 0, volume = 0;
    std::vector<std::size_t> layers;  // one entry a parameter
    std::size_t missing = 0;
    int stages_started = 0;
  };
  void make_buckets(const ModelGeometry& geometry, const HolderGroup& group, std::size_t comm,
                    std::int64_t bucket_bytes);
  void start_stage(std::size_t bucket);
  void start_next_stages();

  Parameters& parameters_;
  std::vector<HolderComms> comms_;  // of this rank's holder groups that have more than one rank
  std::vector<Bucket> buckets_;     // of one group: in the order in which backward completes them
  std::vector<StagedSum> sums_;     // of each bucket
  std::vector<MPI_Request> requests_;
  std::vector<int> completed_;  // room for the indices of completed requests
  std::int64_t reduced_bytes_ = 0;
};

}  // namespace halomesh
