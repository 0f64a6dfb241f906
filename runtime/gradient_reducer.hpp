// Sums parameter gradients over the ranks that hold them, in buckets, while backward goes on.
// Knows slices and holders; nothing of layers' mathematics or of the optimizer.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/mpi.hpp"
#include "runtime/process_mesh.hpp"
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
  /// Collective over mesh.world(): makes one communicator a holder group. `parameters` must outlive
  /// this object. A bucket is closed when it holds at least `bucket_bytes`.
  GradientReducer(const ProcessMesh& mesh, const ModelGeometry& geometry, Parameters& parameters,
                  std::int64_t bucket_bytes = 4 << 20);

  /// Before the backward pass of a step.
  void begin();
  /// The gradients of `layer` are complete on this rank. Starts the sum of every bucket that is
  /// complete now; all holders complete their layers in the same order.
  void completed(std::size_t layer);
  /// Lets MPI make progress.
  void progress();
  /// Waits until Parameters::diffs() holds the sums over all holders, in place.
  void finish();

  /// Bytes that this rank contributed to sums since construction.
  std::int64_t reduced_bytes() const { return reduced_bytes_; }

 private:
  struct Bucket {
    std::size_t comm = 0;
    std::int64_t offset = 0, volume = 0;
    std::vector<std::size_t> layers;  // one entry a parameter
    std::size_t missing = 0;
  };
  void make_buckets(const ModelGeometry& geometry, const HolderGroup& group, std::size_t comm,
                    std::int64_t bucket_bytes);

  Parameters& parameters_;
  std::vector<Comm> comms_;  // of this rank's holder groups that have more than one rank
  std::vector<Bucket> buckets_;
  std::vector<MPI_Request> requests_;
  std::int64_t reduced_bytes_ = 0;
};

}  // namespace halomesh
