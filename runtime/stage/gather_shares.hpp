// SPDX-License-Identifier: Apache-2.0
// Completes a stage of which several runs of a job have each made a share.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/mpi/mpi.hpp"
#include "runtime/stage/stage_file.hpp"

namespace halomesh {

/// The twins on this rank's node that can open each other's files: all of them or, as in separate
/// containers, this rank alone. Tries with `file`, one of this rank's. In the order of `twins`;
/// collective over it.
Comm sharers_of_files(const Comm& twins, const Descriptor& file);

/// A rank's blocks after the exchange of shares.
struct GatheredShares {
  StageFile file;                 ///< all slots, ready to be read
  std::int64_t copied_bytes = 0;  ///< received from other ranks and stored
};

/// Collective over `twins`, the ranks that keep the same blocks, one of each run, even if the
/// blocks are empty. `values` are the numbers of values in each slot's block. Rank t passes `mine`,
/// finished, with slots block_range(slots, twins.size(), t), numbered from 0.
///
///     twins 0 and 1 on one node, 2 on another     slots 0 1 2 3 4 5
///     staged by twin                                    0 0 1 1 2 2
///     node of twins 0 and 1                             opens both files; twin 0 copies 4 and 5
///     node of twin 2                                    twin 2 copies 0 to 3
///
/// `near` are the twins that can open each other's files. The first of them copies the others'
/// slots to `copies`, an empty file, which may have no name. An error is thrown on the rank where
/// it occurs; the others wait until it ends the job.
GatheredShares gather_shares(const Comm& twins, const Comm& near, std::vector<std::int64_t> values,
                             const StageFile& mine, Descriptor copies);

}  // namespace halomesh
