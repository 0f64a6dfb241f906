// SPDX-License-Identifier: Apache-2.0
// The choice of --recompute auto, for the ranks of this run.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/step/part_memory.hpp"
#include "runtime/step/recompute_choice.hpp"
#include "src/apps/train/network_on_mesh.hpp"

namespace halomesh {

/// Predicts the memory of each rank and compares it with the memory that its node, its control
/// group and its own limits have left now. `setting` says how the network is trained; the ranks per
/// node and MemoryUse are filled in. If the node has more ranks of this job (`ranks_on_node`) than
/// of this run, the other runs get their share. Collective over the network's mesh; throws Error as
/// memory_of_part() does.
RecomputeChoice choose_recompute(const NetworkOnMesh& network, MemorySetting setting,
                                 int ranks_on_node);

/// Throws Error, with what is needed and what is left, unless this process's own limits (ulimit -d
/// and -v) leave the memory that the rest of the run takes. Call it when the network has its
/// parameters. Local.
void require_memory_of_run(const NetworkOnMesh& network, const MemorySetting& setting);

/// The JSON object {"on", "needed_bytes", "recomputed_bytes", "available_bytes", "ranks"}.
nlohmann::ordered_json to_json(const RecomputeChoice& choice);

}  // namespace halomesh
