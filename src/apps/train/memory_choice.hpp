// SPDX-License-Identifier: Apache-2.0
// --recompute auto, for the ranks of this run.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/step/part_memory.hpp"
#include "runtime/step/recompute_choice.hpp"
#include "src/apps/train/network_on_mesh.hpp"

namespace halomesh {

/// Predicts the memory of each rank and compares it with what its node, its control group and its
/// own limits have left now. `setting` says how the network is trained; the ranks per node and
/// MemoryUse are filled in. Other runs on the node, where it has more ranks of this job
/// (`ranks_on_node`) than of this run, get their share. Collective over the network's mesh; throws
/// Error as memory_of_part() does.
RecomputeChoice choose_recompute(const NetworkOnMesh& network, MemorySetting setting,
                                 int ranks_on_node);

/// {"on", "needed_bytes", "recomputed_bytes", "available_bytes", "ranks"}.
nlohmann::ordered_json to_json(const RecomputeChoice& choice);

}  // namespace halomesh
