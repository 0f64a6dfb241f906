// SPDX-License-Identifier: Apache-2.0
// Completes a stage that several runs of a job have made together, each a share of it.
#pragma once

#include <cstdint>

#include "runtime/mpi/mpi.hpp"
#include "runtime/stage/stage_file.hpp"

namespace halomesh {

/// A rank's blocks after the exchange of shares.
struct GatheredShares {
  StageFile file;                 ///< all slots, to be read
  std::int64_t copied_bytes = 0;  ///< what this rank has received from other nodes and stored
};

/// Collective over `twins`, the ranks that keep the same blocks, one of each run. Rank t passes
/// `mine`, finished, with slots block_range(slots, twins.size(), t), numbered from 0.
///
///     twins 0 and 1 on one node, 2 on another     slots 0 1 2 3 4 5
///     staged by twin                                    0 0 1 1 2 2
///     node of twins 0 and 1                             opens both files; twin 0 copies 4 and 5
///     node of twin 2                                    twin 2 copies 0 to 3
///
/// `node` are the twins on this rank's node, in the order of `twins`. They open each other's files,
/// and the first of them copies what other nodes have staged to `copies`, an empty file, which may
/// have no name. Where they cannot open the files, as in separate containers, each copies for
/// itself. What writing throws is thrown on this rank only.
GatheredShares gather_shares(const Comm& twins, const Comm& node, std::int64_t slots,
                             const StageFile& mine, Descriptor copies);

}  // namespace halomesh
