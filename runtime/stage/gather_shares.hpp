// SPDX-License-Identifier: Apache-2.0
// Completes a stage that several runs of a job have made together, each a share of it.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/mpi/mpi.hpp"
#include "runtime/stage/stage_file.hpp"

namespace halomesh {

/// The twins on this rank's node that can open each other's files: all of them or, as in separate
/// containers, this rank alone. `file` is one of this rank's, to try. In the order of `twins`;
/// collective over it.
Comm sharers_of_files(const Comm& twins, const Descriptor& file);

/// A rank's blocks after the exchange of shares.
struct GatheredShares {
  StageFile file;                 ///< all slots, to be read
  std::int64_t copied_bytes = 0;  ///< what this rank has received from others and stored
};

/// Collective over `twins`, the ranks that keep the same blocks, one of each run, also where these
/// are empty. `values` are those of the block of each slot. Rank t passes `mine`, finished, with
/// slots block_range(slots, twins.size(), t), numbered from 0.
///
///     twins 0 and 1 on one node, 2 on another     slots 0 1 2 3 4 5
///     staged by twin                                    0 0 1 1 2 2
///     node of twins 0 and 1                             opens both files; twin 0 copies 4 and 5
///     node of twin 2                                    twin 2 copies 0 to 3
///
/// `near` are the twins that can open each other's files. The first of them copies what others have
/// staged to `copies`, an empty file, which may have no name. An error is thrown on the rank where
/// it occurs; the others wait until it ends the job.
GatheredShares gather_shares(const Comm& twins, const Comm& near, std::vector<std::int64_t> values,
                             const StageFile& mine, Descriptor copies);

}  // namespace halomesh
