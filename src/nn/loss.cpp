// SPDX-License-Identifier: Apache-2.0
// The common part of losses: see loss.hpp.
#include "src/nn/loss.hpp"

#include "error.hpp"

namespace halomesh {

void Loss::scale_targets(const std::vector<ChannelScale>& /*scales*/) {
  throw Error("targets of this loss cannot be scaled", "leave out --scale-targets");
}

void Loss::expect_padding() {
  throw Error("samples cannot be padded for a loss that has no label for each voxel",
              "use samples of the network's extents");
}

}  // namespace halomesh
