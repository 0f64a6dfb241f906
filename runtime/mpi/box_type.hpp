// SPDX-License-Identifier: Apache-2.0
// An MPI datatype for a box within a larger block of values, so that it can be sent without
// packing.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "box.hpp"
#include "narrow.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// The elements of `box`, of `element_bytes` (1, 2 or 4), in a block that spans `span` (both not
/// empty); use it with the address of the block's first element. Move-only; may be destroyed while
/// messages that use it are in flight.
class BoxType {
 public:
  BoxType(const Box& span, const Box& box, std::int64_t element_bytes) {
    std::array<int, 4> whole{}, part{}, start{};
    // The order of axes in a block is d, h, w, c.
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t axis = (i + 1) % 4;
      whole[i] = narrow<int>(span.extent(axis));
      part[i] = narrow<int>(box.extent(axis));
      start[i] = narrow<int>(box.lo[axis] - span.lo[axis]);
    }
    mpi_check(MPI_Type_create_subarray(4, whole.data(), part.data(), start.data(), MPI_ORDER_C,
                                       element_bytes == 1   ? MPI_UINT8_T
                                       : element_bytes == 2 ? MPI_INT16_T
                                                            : MPI_INT32_T,
                                       &type_));
    mpi_check(MPI_Type_commit(&type_));
  }
  BoxType(BoxType&& other) noexcept : type_(std::exchange(other.type_, MPI_DATATYPE_NULL)) {}
  BoxType& operator=(BoxType&&) = delete;
  BoxType(const BoxType&) = delete;
  BoxType& operator=(const BoxType&) = delete;
  ~BoxType() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (type_ != MPI_DATATYPE_NULL && finalized == 0) MPI_Type_free(&type_);
  }
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// The types of boxes in blocks of one span, created on first use and kept.
class BoxTypes {
 public:
  BoxTypes() = default;
  /// `span` must not be empty when of() is called.
  BoxTypes(const Box& span, std::int64_t element_bytes)
      : span_(span), element_bytes_(element_bytes) {}
  /// The type of a box of these extents at any position: use it with the address of the box's first
  /// element.
  MPI_Datatype of(const Box& box) {
    Box corner{span_.lo, span_.lo};
    for (std::size_t a = 0; a < 4; ++a) corner.hi[a] += box.extent(a);
    auto known = types_.find(corner.hi);
    if (known == types_.end())
      known = types_.emplace(corner.hi, BoxType(span_, corner, element_bytes_)).first;
    return known->second.get();
  }
  /// Frees the types if there are many, as for boxes of random extents. Do not call it while a
  /// message of the returned types is still to be started.
  void forget_many() {
    if (types_.size() > kMany) types_.clear();
  }

 private:
  static constexpr std::size_t kMany = 1024;

  Box span_;
  std::int64_t element_bytes_ = 0;
  std::map<std::array<std::int64_t, 4>, BoxType> types_;
};

}  // namespace halomesh
