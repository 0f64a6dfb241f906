// SPDX-License-Identifier: Apache-2.0
// The choice of --recompute auto: see memory_choice.hpp.
#include "src/apps/train/memory_choice.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/posix/free_space.hpp"
#include "runtime/posix/memory_limits.hpp"
#include "runtime/posix/memory_needs.hpp"
#include "runtime/posix/process_memory.hpp"
#include "src/apps/options/model_options.hpp"

namespace halomesh {
namespace {

/// The stacks of threads that start later: two loaders, and the one that shows that a directory is
/// in use.
std::int64_t later_stacks() { return 3 * thread_stack_bytes(); }

/// The memory available now; of the node, the share of `ranks` among its `ranks_on_node`.
MemoryRoom memory_room(int ranks, int ranks_on_node) {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  const MemoryLimits limits = memory_limits();
  const std::int64_t own =
      std::min(limits.address_bytes.value_or(kAny), limits.process_bytes.value_or(kAny));
  return {free_memory().bytes / std::max(ranks, ranks_on_node) * ranks,
          std::max<std::int64_t>(own - later_stacks(), 0)};
}

/// The memory of a process of the run, beyond that which it has now.
std::int64_t further_bytes(const NetworkOnMesh& network, const MemorySetting& setting) {
  Model model = make_model(network.spec);
  const PartMemory memory =
      memory_of_part(model, network.geometry, network.mesh.part(), network.loss.get(), setting);
  return std::max<std::int64_t>(memory.total() - resident_memory_bytes(), 0);
}

}  // namespace

RecomputeChoice choose_recompute(const NetworkOnMesh& network, MemorySetting setting,
                                 int ranks_on_node) {
  const Comm& world = network.mesh.world();
  const MemoryRoom room = memory_room(world.node().size(), ranks_on_node);
  setting.ranks_per_node = network.mesh.ranks_per_node();
  const auto needed = [&](MemoryUse use) {
    setting.use = use;
    return further_bytes(network, setting);
  };
  return choose_recompute(world, {needed(MemoryUse::kShared), needed(MemoryUse::kRecomputed)},
                          room);
}

void require_memory_of_run(const NetworkOnMesh& network, const MemorySetting& setting) {
  const MemoryLimits limits = memory_limits();
  if (!limits.address_bytes && !limits.process_bytes) return;
  require_memory(setting.trains ? "training" : "the network",
                 further_bytes(network, setting) + later_stacks());
}

nlohmann::ordered_json to_json(const RecomputeChoice& choice) {
  return {{"on", choice.recomputes},
          {"needed_bytes", choice.need.kept},
          {"recomputed_bytes", choice.need.recomputed},
          {"available_bytes", choice.available},
          {"ranks", choice.ranks}};
}

}  // namespace halomesh
