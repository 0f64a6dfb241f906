// SPDX-License-Identifier: Apache-2.0
// A table of what each part of a network on a mesh holds, receives and sends.
// Sizes assume 4-byte floats; the caller gives the numbers of operations.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "partition/model_geometry.hpp"

namespace halomesh {

/// What one part holds and moves for one sample, in bytes.
struct PartLoad {
  std::int64_t input_halo_bytes = 0;  ///< arrives with the input block; never sent by a part
  std::int64_t received_bytes = 0;    ///< forward: halos and gathered boxes from other parts
  std::int64_t sent_bytes = 0;        ///< forward: the same, to other parts
  std::int64_t partial_sums_received_bytes = 0, partial_sums_sent_bytes = 0;  ///< forward
  std::int64_t messages = 0;      ///< received in forward; one per tensor and neighbour
  std::int64_t input_bytes = 0;   ///< of the input block, halo included
  std::int64_t tensor_bytes = 0;  ///< of the spans of all other tensors, values only
  std::int64_t parameters = 0;    ///< floats held
  double flops = 0;               ///< forward, where given

  /// Bytes of other parts' blocks that this part needs in a forward pass, without partial sums.
  std::int64_t halo_bytes() const { return input_halo_bytes + received_bytes; }
};

/// Loads of all parts of a geometry, which must outlive this object.
class GeometryTable {
 public:
  /// `layer_flops`: floating-point operations of each layer for one sample's whole forward pass,
  /// divided among the parts by the volume that they compute; may be empty. `optimizer_states`:
  /// arrays of the size of the parameters that the optimizer keeps.
  explicit GeometryTable(const ModelGeometry& geometry,
                         const std::vector<std::int64_t>& layer_flops = {},
                         std::int64_t optimizer_states = 1);

  const std::vector<PartLoad>& loads() const { return loads_; }
  /// Memory of a part in training with `batch` local samples: two input blocks (one in use, one
  /// being read), values and gradients of all other tensors, parameters with gradients and
  /// the optimizer's states. Exchange buffers and layers' scratch come on top.
  std::int64_t memory_bytes(std::int64_t part, std::int64_t batch) const;
  /// The part with the largest halo; ties go to the part with neighbours on most sides, then to the
  /// first.
  std::int64_t busiest_part() const;
  /// Largest flops of a part / mean over parts; 1 is perfect balance, 0 when no flops were given.
  double imbalance() const;

  /// The table of one part, and totals and extremes over all parts. Bytes are for one sample,
  /// except memory, which is for `batch` samples. Throws UsageError when there is no such part.
  void print(std::ostream& out, std::int64_t part, std::int64_t batch) const;

 private:
  void add_local(std::size_t part, const std::vector<std::int64_t>& layer_flops);
  void add_transfers();
  void print_cuts(std::ostream& out) const;
  void print_tensors(std::ostream& out, std::size_t part) const;
  void print_parameters(std::ostream& out, std::size_t part) const;
  void print_totals(std::ostream& out, std::size_t part, std::int64_t batch) const;
  void print_extremes(std::ostream& out, std::int64_t batch) const;

  const ModelGeometry& geometry_;
  std::int64_t optimizer_states_;
  std::vector<PartLoad> loads_;
};

}  // namespace halomesh
