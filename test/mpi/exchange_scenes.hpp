// SPDX-License-Identifier: Apache-2.0
// Transfer plans, drawn at random or cut like halos, and values that any rank can compute. The same
// on every rank for the same seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "error.hpp"
#include "partition/partition.hpp"
#include "partition/transfer_plan.hpp"
#include "rng.hpp"
#include "runtime/step/exchange.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

// A plan and the memory of each part that it moves between.
struct Scene {
  std::string name;
  TransferPlan plan;
  std::vector<Box> spans;
  std::int64_t batch = 1;
  Combine combine = Combine::kCopy;
};

// Draws of a test, the same on every rank.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : rng_(seed, RandomUse::kSynth) {}
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(rng_.block(next_++)[0] % static_cast<std::uint64_t>(bound));
  }

 private:
  CounterRng rng_;
  std::uint64_t next_ = 0;
};

// Cuts the tensor in cells at random planes; each cell is owned by a random part and wanted by
// others with probability 1/2. So a part receives disjoint boxes that it does not own, several from
// one peer, while the spans are whole or cut close: what any network's plan looks like.
inline Scene random_scene(Draws& draws, int parts) {
  const Shape shape{1 + draws.below(5), 1 + draws.below(9), 1 + draws.below(6), 1 + draws.below(6)};
  std::vector<Box> cells{Box::whole(shape)};
  for (std::int64_t cut = draws.below(6); cut-- > 0;) {
    const auto axis = static_cast<std::size_t>(draws.below(8));  // every other cut is along D
    const std::size_t a = axis < 4 ? axis : std::size_t{kD};
    const std::int64_t at = draws.below(Box::whole(shape).hi[a]);
    for (std::size_t i = 0, n = cells.size(); i < n; ++i)
      if (cells[i].lo[a] < at && at < cells[i].hi[a]) {
        Box upper = cells[i];
        upper.lo[a] = cells[i].hi[a] = at;
        cells.push_back(upper);
      }
  }
  Scene scene;
  scene.batch = 1 + draws.below(3);
  scene.combine = draws.below(2) == 0 ? Combine::kCopy : Combine::kAdd;
  scene.spans.resize(static_cast<std::size_t>(parts));
  std::vector<Transfer> transfers;
  for (const Box& cell : cells) {
    const std::int64_t owner = draws.below(parts);
    for (std::int64_t part = 0; part < parts; ++part) {
      if (part != owner && draws.below(2) == 0) continue;
      Box& span = scene.spans[static_cast<std::size_t>(part)];
      span = hull(span, cell);
      if (part != owner) transfers.push_back({owner, part, cell});
    }
  }
  if (draws.below(2) == 0) std::fill(scene.spans.begin(), scene.spans.end(), Box::whole(shape));
  scene.plan = TransferPlan(std::move(transfers));
  if (scene.combine == Combine::kAdd) scene.plan = scene.plan.reversed();
  scene.name = fmt::format("random plan on {}", shape);
  return scene;
}

// The halos of a window of reach `before` + 1 + `after` on a tensor cut in blocks, as small as to
// make halos wider than a neighbour's block and parts without a plane.
inline Scene halo_scene(Draws& draws, const PartGrid& grid) {
  const Shape shape{1 + draws.below(4), 1 + draws.below(10), 1 + draws.below(7),
                    1 + draws.below(7)};
  Scene scene;
  scene.batch = 1 + draws.below(3);
  scene.combine = draws.below(2) == 0 ? Combine::kCopy : Combine::kAdd;
  const Partition owned = block_partition(shape, grid);
  std::vector<Box> needed = owned;
  const std::int64_t before = draws.below(4), after = draws.below(4);
  for (std::size_t part = 0; part < needed.size(); ++part) {
    Box& box = needed[part];
    if (!box.empty())
      for (const std::size_t a : {kD, kH, kW}) {
        box.lo[a] -= before;
        box.hi[a] += after;
      }
    box = intersect(box, Box::whole(shape));
    scene.spans.push_back(hull(owned[part], box));
  }
  scene.plan = plan_transfers(owned, needed);
  if (scene.combine == Combine::kAdd) scene.plan = scene.plan.reversed();
  scene.name = fmt::format("halo {}+{} on {} cut {}", before, after, shape, to_string(grid));
  return scene;
}

// All fp32 values with 24 random bits in [-1, 1): sums of them round, so their order shows.
inline float value_of(std::int64_t scene, std::int64_t cycle, std::int64_t part, std::int64_t i) {
  const CounterRng rng(7, RandomUse::kSynth, static_cast<std::uint32_t>(scene * 64 + part),
                       static_cast<std::uint32_t>(cycle));
  return 2.0F * rng.uniform(static_cast<std::uint64_t>(i)) - 1.0F;
}

inline void fill_part(View view, std::int64_t scene, std::int64_t cycle, std::int64_t part) {
  for (std::int64_t i = 0; i < view.batch * view.sample_volume(); ++i)
    view.data[i] = value_of(scene, cycle, part, i);
}

// Messages of one box with and without rows that lie densely in the sender's memory.
struct Coverage {
  std::int64_t in_place = 0, packed = 0, many_boxes = 0, scenes = 0;

  void count(const Scene& scene) {
    ++scenes;
    const auto& transfers = scene.plan.transfers();
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      const auto same_peers = [&](const Transfer& t) {
        return t.src == transfers[i].src && t.dst == transfers[i].dst;
      };
      if (std::count_if(transfers.begin(), transfers.end(), same_peers) > 1) {
        ++many_boxes;
        continue;
      }
      const View sender{nullptr, scene.spans[static_cast<std::size_t>(transfers[i].src)], 1};
      ++(scene.batch == 1 && sender.is_dense(transfers[i].box) ? in_place : packed);
    }
  }
};

}  // namespace halomesh
