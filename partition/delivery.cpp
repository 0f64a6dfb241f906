// Which pieces of a kept sample make up each part's block: see delivery.hpp.
#include "partition/delivery.hpp"

#include <utility>

#include "error.hpp"

namespace halomesh {

TransferPlan plan_delivery(const KeptSample& sample, const Symmetry& symmetry) {
  require(symmetry.keeps(sample.shape),
          cat("a symmetry that turns ", sample.shape, " into ", symmetry.image_of(sample.shape)));
  std::vector<Transfer> transfers;
  for (std::size_t dst = 0; dst < sample.kept.size(); ++dst) {
    const Box source = symmetry.source_of(sample.kept[dst], sample.shape);
    if (source.empty()) continue;
    const auto part = static_cast<std::int64_t>(dst);
    if (sample.kept[dst].contains(source)) {
      transfers.push_back({part, part, source});
      continue;
    }
    for (std::size_t src = 0; src < sample.owned.size(); ++src)
      if (const Box piece = intersect(sample.owned[src], source); !piece.empty())
        transfers.push_back({static_cast<std::int64_t>(src), part, piece});
  }
  return TransferPlan(std::move(transfers));
}

}  // namespace halomesh
