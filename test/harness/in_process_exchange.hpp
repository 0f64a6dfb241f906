// SPDX-License-Identifier: Apache-2.0
// Runs a TransferPlan in one process by copying boxes between the parts' views, with the packing
// code of the real exchange. Must not depend on MPI.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "partition/transfer_plan.hpp"
#include "src/nn/pack.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// Executes `plan` between views of any type, one per part. Every call returns the number of moved
/// elements.
class InProcessExchange {
 public:
  explicit InProcessExchange(TransferPlan plan)
      : plan_(std::move(plan)), reversed_(plan_.reversed()) {}

  /// Copies along the plan: fills the halos of `views` from the owners.
  template <class AView>
  std::int64_t copy(const std::vector<AView>& views) const {
    return run(plan_, {views.begin(), views.end()}, &unpack_copy);
  }

  /// Adds along the reversed plan, the adjoint of copy(): the owners collect the values of the
  /// halos.
  template <class AView>
  std::int64_t add_back(const std::vector<AView>& views) const {
    return run(reversed_, {views.begin(), views.end()}, &unpack_add);
  }

 private:
  using Unpack = std::int64_t (*)(const std::byte*, const Box&, AnyView);

  // All boxes are packed before any is unpacked, as for messages in flight.
  static std::int64_t run(const TransferPlan& plan, const std::vector<AnyView>& views,
                          Unpack unpack) {
    std::vector<AlignedBuffer<std::byte>> messages;
    for (const Transfer& t : plan.transfers()) {
      const AnyView src = views[static_cast<std::size_t>(t.src)];
      messages.emplace_back(src.batch * t.box.volume() * size_of(src.type));
      pack(src, t.box, messages.back().data());
    }
    std::int64_t moved = 0;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const Transfer& t = plan.transfers()[i];
      moved += unpack(messages[i].data(), t.box, views[static_cast<std::size_t>(t.dst)]);
    }
    return moved;
  }

  TransferPlan plan_, reversed_;
};

}  // namespace halomesh
