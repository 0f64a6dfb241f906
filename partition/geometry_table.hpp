// SPDX-License-Identifier: Apache-2.0
// A table of the memory and messages of each part of a network on a mesh. Sizes assume 4-byte
// floats; the caller gives the numbers of operations.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "partition/model_geometry.hpp"

namespace halomesh {

/// The memory and traffic of one part for one sample, in bytes.
struct PartLoad {
  std::int64_t input_halo_bytes = 0;  ///< arrives with the input block; never sent by a part
  std::int64_t received_bytes = 0;    ///< forward: halos and gathered boxes from other parts
  std::int64_t sent_bytes = 0;        ///< forward: halos and gathered boxes to other parts
  std::int64_t partial_sums_received_bytes = 0, partial_sums_sent_bytes = 0;  ///< forward
  std::int64_t messages = 0;      ///< received in forward; one per tensor and neighbour
  std::int64_t input_bytes = 0;   ///< size of the input block, halo included
  std::int64_t tensor_bytes = 0;  ///< size of the spans of all other tensors, values only
  std::int64_t parameters = 0;    ///< floats held
  double flops = 0;               ///< forward, where given

  /// Bytes of other parts' blocks that this part needs in a forward pass, without partial sums.
  std::int64_t halo_bytes() const { return input_halo_bytes + received_bytes; }
};

/// Loads of all parts of a geometry, which must outlive this object.
class GeometryTable {
 public:
  /// `layer_flops`: floating-point operations of each layer for one sample's whole forward pass,
  /// divided among the parts by the volume that they compute; may be empty.
  explicit GeometryTable(const ModelGeometry& geometry,
                         const std::vector<std::int64_t>& layer_flops = {});

  const std::vector<PartLoad>& loads() const { return loads_; }
  /// The part with the largest halo; ties go to the part with neighbours on most sides, then to the
  /// first.
  std::int64_t busiest_part() const;
  /// The largest flops of a part / their mean; 1 is perfect balance, 0 means that no flops were
  /// given.
  double imbalance() const;

  /// The table of one part, and totals and extremes over all parts. Bytes are for one sample.
  /// Throws UsageError when there is no such part.
  void print(std::ostream& out, std::int64_t part) const;

 private:
  void add_local(std::size_t part, const std::vector<std::int64_t>& layer_flops);
  void add_transfers();
  void print_cuts(std::ostream& out) const;
  void print_tensors(std::ostream& out, std::size_t part) const;
  void print_parameters(std::ostream& out, std::size_t part) const;
  void print_totals(std::ostream& out, std::size_t part) const;
  void print_extremes(std::ostream& out) const;

  const ModelGeometry& geometry_;
  std::vector<PartLoad> loads_;
};

}  // namespace halomesh
