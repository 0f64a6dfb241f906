// SPDX-License-Identifier: Apache-2.0
// The choice of --recompute auto: see memory_choice.hpp.
#include "src/apps/train/memory_choice.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/posix/free_space.hpp"
#include "runtime/posix/memory_limits.hpp"
#include "runtime/posix/process_memory.hpp"
#include "src/apps/options/model_options.hpp"

namespace halomesh {
namespace {

/// Address space for the threads of the two loaders, of training and of evaluation, which start
/// later: glibc reserves up to 128 MiB at the first allocation of a thread, and keeps half.
constexpr std::int64_t kLoaderAddressBytes = 2 * (std::int64_t{128} << 20);

/// The memory available now; of the node, the share of `ranks` among its `ranks_on_node`.
MemoryRoom memory_room(int ranks, int ranks_on_node) {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  const MemoryLimits limits = memory_limits();
  const std::int64_t addresses = limits.address_bytes.value_or(kAny) - kLoaderAddressBytes;
  return {free_memory().bytes / std::max(ranks, ranks_on_node) * ranks,
          std::clamp<std::int64_t>(addresses, 0, limits.process_bytes.value_or(kAny))};
}

}  // namespace

RecomputeChoice choose_recompute(const NetworkOnMesh& network, MemorySetting setting,
                                 int ranks_on_node) {
  const Comm& world = network.mesh.world();
  const MemoryRoom room = memory_room(world.node().size(), ranks_on_node);
  const std::int64_t taken = resident_memory_bytes();
  setting.ranks_per_node = network.mesh.ranks_per_node();
  const auto needed = [&](MemoryUse use) {
    setting.use = use;
    Model model = make_model(network.spec);
    const PartMemory memory =
        memory_of_part(model, network.geometry, network.mesh.part(), network.loss.get(), setting);
    return std::max<std::int64_t>(memory.total() - taken, 0);
  };
  return choose_recompute(world, {needed(MemoryUse::kShared), needed(MemoryUse::kRecomputed)},
                          room);
}

nlohmann::ordered_json to_json(const RecomputeChoice& choice) {
  return {{"on", choice.recomputes},
          {"needed_bytes", choice.need.kept},
          {"recomputed_bytes", choice.need.recomputed},
          {"available_bytes", choice.available},
          {"ranks", choice.ranks}};
}

}  // namespace halomesh
