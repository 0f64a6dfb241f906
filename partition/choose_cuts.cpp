// SPDX-License-Identifier: Apache-2.0
// The choice of each layer's cut: see choose_cuts.hpp.
#include "partition/choose_cuts.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "error.hpp"
#include "joined.hpp"
#include "narrow.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kFloatBytes = 4, kBothWays = 2;

// One cut that a layer may get. Boxes are indexed by sampled part.
struct Option {
  TensorCut cut;
  std::vector<Box> owned;
  std::vector<std::vector<Box>> needed;  // by input
  std::int64_t slice_bytes = 0, summed = 0;
};

// Up to 64 parts that represent all: see choose_cuts().
std::vector<std::int64_t> sample_of(const PartGrid& grid) {
  const auto along = [](std::int64_t count) {
    return std::set<std::int64_t>{0, std::min<std::int64_t>(1, count - 1), count / 2, count - 1};
  };
  const auto rows = along(grid.h), columns = along(grid.w);
  std::vector<std::int64_t> parts;
  for (const std::int64_t d : along(grid.d))
    for (const std::int64_t h : rows)
      for (const std::int64_t w : columns) parts.push_back((d * grid.h + h) * grid.w + w);
  return parts;
}

bool reads_network_input(const GraphNode& node) {
  return std::find(node.inputs.begin(), node.inputs.end(), 0) != node.inputs.end();
}

class Search {
 public:
  Search(const std::vector<GraphNode>& nodes, const std::vector<Shape>& shapes,
         const PartGrid& grid, const CutSetting& setting)
      : nodes_(nodes), shapes_(shapes), grid_(grid), parts_(sample_of(grid)) {
    for (std::size_t l = 0; l < nodes.size(); ++l) {
      options_.emplace_back();
      for (const TensorCut& cut : allowed(l, setting)) options_[l].push_back(option(l, cut));
    }
    if (setting.kind == CutSetting::Kind::kList) check_names(setting);
  }

  std::vector<LayerChoice> run() const {
    const std::vector<std::size_t> chosen = is_chain() ? best_path() : one_by_one();
    std::vector<LayerChoice> choices;
    for (std::size_t l = 0; l < nodes_.size(); ++l) choices.push_back(describe(l, chosen));
    return choices;
  }

 private:
  const GraphNode& node(std::size_t l) const { return nodes_[l]; }
  const Shape& dst(std::size_t l) const { return shapes_[l + 1]; }
  std::vector<Shape> src(std::size_t l) const {
    std::vector<Shape> shapes;
    for (const std::size_t t : node(l).inputs) shapes.push_back(shapes_[t]);
    return shapes;
  }
  bool may_split(std::size_t l) const {
    return node(l).layer->splits_over_channels() && !reads_network_input(node(l));
  }
  bool fits(std::size_t l, const TensorCut& cut) const {
    return cut.groups == 1 || (may_split(l) && dst(l).c >= cut.groups * kChannelVector);
  }

  // The finest blocks of whole cells for which the grid can be made coarser.
  TensorCut of_cells(std::size_t l) const {
    const Spatial cells = node(l).layer->whole_gradients()->gradient_cells(src(l)),
                  parts{grid_.d, grid_.h, grid_.w};
    Spatial blocks{};
    for (std::size_t a = 0; a < 3; ++a) {
      blocks[a] = std::gcd(cells[a], parts[a]);
      if (reads_network_input(node(l)) && blocks[a] != parts[a])
        throw UsageError(
            fmt::format("--reproducible: {} has {}x{}x{} cells, which the parts {} do not divide",
                        node(l).name, cells[0], cells[1], cells[2], to_string(grid_)),
            "cut each axis into a number of parts that divides that of its cells");
    }
    return {{blocks[0], blocks[1], blocks[2]}, 1};
  }

  std::vector<TensorCut> allowed(std::size_t l, const CutSetting& setting) const {
    if (setting.kind == CutSetting::Kind::kCells && node(l).layer->whole_gradients() != nullptr)
      return {of_cells(l)};
    std::vector<TensorCut> cuts = all_cuts(grid_);
    const TensorCut in_space = cuts.front();
    const auto entry = std::find_if(setting.list.begin(), setting.list.end(),
                                    [&](const auto& e) { return e.layer == node(l).name; });
    const auto unwanted = [&](const TensorCut& cut) {
      if (!fits(l, cut)) return true;
      switch (setting.kind) {
        case CutSetting::Kind::kAuto:
          return false;
        case CutSetting::Kind::kChannels:
          return cut.groups > 1 && cut.space.count() > 1;
        case CutSetting::Kind::kList:
          if (entry != setting.list.end())
            return cut.space.count() != entry->blocks || cut.groups != entry->groups;
          break;
        case CutSetting::Kind::kCells:
        case CutSetting::Kind::kSpace:
          break;
      }
      return !(cut == in_space);
    };
    cuts.erase(std::remove_if(cuts.begin(), cuts.end(), unwanted), cuts.end());
    if (cuts.empty()) refuse(l, *entry);
    return cuts;
  }

  // For example "conv4 on 2x2x2 parts: 8x1, 4x2, 2x4, 1x8".
  std::string possible(std::size_t l) const {
    std::vector<std::string> texts;
    for (const TensorCut& cut : all_cuts(grid_))
      if (const std::string text = to_string(cut);
          fits(l, cut) && (texts.empty() || texts.back() != text))
        texts.push_back(text);
    return fmt::format("possible for {} on {} parts: {}", node(l).name, to_string(grid_),
                       joined(texts, ", "));
  }

  [[noreturn]] void refuse(std::size_t l, const CutSetting::Entry& entry) const {
    const std::int64_t parts = grid_.count();
    std::string why = fmt::format("its {} channels are fewer than {} for each of {} groups",
                                  dst(l).c, kChannelVector, entry.groups);
    if (entry.blocks * entry.groups != parts)
      why = fmt::format("{} blocks, but the grid {} has {} parts", entry.blocks * entry.groups,
                        to_string(grid_), parts);
    else if (reads_network_input(node(l)))
      why = "it reads the network's input, which is cut in space only";
    else if (!may_split(l))
      why = "this kind of layer is not cut by channels";
    throw UsageError(
        fmt::format("--cuts {}:{}x{}: {}", entry.layer, entry.blocks, entry.groups, why),
        possible(l));
  }

  void check_names(const CutSetting& setting) const {
    std::vector<std::string> names;
    for (std::size_t l = 0; l < nodes_.size(); ++l)
      if (may_split(l)) names.push_back(node(l).name);
    for (const CutSetting::Entry& entry : setting.list)
      if (std::none_of(nodes_.begin(), nodes_.end(),
                       [&](const GraphNode& n) { return n.name == entry.layer; }))
        throw UsageError(fmt::format("--cuts {}: the network has no such layer", entry.layer),
                         "layers that can be cut by channels: " + joined(names, ", "));
  }

  Option option(std::size_t l, const TensorCut& cut) const {
    const std::vector<Shape> inputs = src(l);
    Option o{cut, {}, std::vector<std::vector<Box>>(inputs.size()), 0, 0};
    Box widest;
    for (const std::int64_t part : parts_) {
      const Box& box = o.owned.emplace_back(cut_box(dst(l), grid_, cut, part));
      if (box.extent(kC) > widest.extent(kC)) widest = box;
      for (std::size_t i = 0; i < inputs.size(); ++i)
        o.needed[i].push_back(box.empty() ? Box{} : node(l).layer->needs(box, i, inputs));
    }
    // Each part uses the input that it owns and shares nothing.
    if (node(l).layer->splits_over_input()) return o;
    const LayerBoxes boxes = boxes_of(*node(l).layer, inputs, {}, widest);
    for (std::size_t p = 0; p < node(l).layer->parameters(inputs).size(); ++p)
      o.slice_bytes += node(l).layer->parameter_slice(p, boxes, inputs).volume() * kFloatBytes;
    const std::int64_t sharing = cut.space.count();
    o.summed = 2 * o.slice_bytes * (sharing - 1) / sharing;
    return o;
  }

  // `produced` are the options of the layers that `l` reads, in the order of its inputs; null for
  // the network's input.
  std::int64_t exchanged(std::size_t l, const Option& o,
                         const std::vector<const Option*>& produced) const {
    if (node(l).layer->splits_over_input()) return 0;
    std::int64_t most = 0;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      std::int64_t volume = 0;
      for (std::size_t i = 0; i < produced.size(); ++i)
        if (produced[i] != nullptr)
          volume +=
              o.needed[i][p].volume() - intersect(o.needed[i][p], produced[i]->owned[p]).volume();
      most = std::max(most, volume);
    }
    return kBothWays * kFloatBytes * most;
  }

  double seconds(const Option& o, std::int64_t exchanged_bytes) const {
    double sum = 0;
    if (exchanged_bytes > 0)
      sum = kBothWays * network_.between_nodes.latency_s +
            static_cast<double>(exchanged_bytes) * network_.between_nodes.s_per_byte;
    if (o.summed == 0) return sum;
    const SumPlace place{narrow<int>(o.cut.space.count()), 1};
    const auto bytes = static_cast<double>(o.slice_bytes);
    return sum + sum_seconds(fastest_sum(place, bytes, network_), place, bytes, network_);
  }

  std::vector<const Option*> producers(std::size_t l,
                                       const std::vector<std::size_t>& chosen) const {
    std::vector<const Option*> produced;
    for (const std::size_t t : node(l).inputs)
      produced.push_back(t == 0 ? nullptr : &options_[t - 1][chosen[t - 1]]);
    return produced;
  }

  bool is_chain() const {
    for (std::size_t l = 0; l < nodes_.size(); ++l)
      if (node(l).inputs != std::vector<std::size_t>{l}) return false;
    return true;
  }

  // Viterbi: the cheapest way to each option of a layer extends one to an option of the layer
  // before.
  std::vector<std::size_t> best_path() const {
    std::vector<std::vector<std::size_t>> from(nodes_.size());
    std::vector<double> costs;
    for (std::size_t l = 0; l < nodes_.size(); ++l) {
      std::vector<double> next;
      for (const Option& o : options_[l]) {
        double least = std::numeric_limits<double>::infinity();
        std::size_t best = 0;
        for (std::size_t k = 0; k < (l == 0 ? 1 : costs.size()); ++k) {
          const double cost = l == 0
                                  ? seconds(o, exchanged(l, o, {nullptr}))
                                  : costs[k] + seconds(o, exchanged(l, o, {&options_[l - 1][k]}));
          if (cost >= least) continue;
          least = cost;
          best = k;
        }
        next.push_back(least);
        from[l].push_back(best);
      }
      costs = std::move(next);
    }
    std::vector<std::size_t> chosen(nodes_.size());
    if (chosen.empty()) return chosen;
    chosen.back() =
        static_cast<std::size_t>(std::min_element(costs.begin(), costs.end()) - costs.begin());
    for (std::size_t l = chosen.size() - 1; l > 0; --l) chosen[l - 1] = from[l][chosen[l]];
    return chosen;
  }

  std::vector<std::size_t> one_by_one() const {
    std::vector<std::size_t> chosen;
    for (std::size_t l = 0; l < nodes_.size(); ++l) {
      const std::vector<const Option*> produced = producers(l, chosen);
      double least = std::numeric_limits<double>::infinity();
      std::size_t best = 0;
      for (std::size_t k = 0; k < options_[l].size(); ++k) {
        const Option& o = options_[l][k];
        const double cost = seconds(o, exchanged(l, o, produced));
        if (cost >= least) continue;
        least = cost;
        best = k;
      }
      chosen.push_back(best);
    }
    return chosen;
  }

  LayerChoice describe(std::size_t l, const std::vector<std::size_t>& chosen) const {
    const std::vector<const Option*> produced = producers(l, chosen);
    const auto bytes = [&](const Option& o) {
      return CutBytes{exchanged(l, o, produced), o.summed};
    };
    const Option& o = options_[l][chosen[l]];
    LayerChoice choice{o.cut, bytes(o), may_split(l), {}, {}};
    if (!choice.may_split) return choice;
    const std::vector<TensorCut> cuts = all_cuts(grid_);
    choice.in_space = bytes(option(l, cuts.front()));
    if (fits(l, cuts.back())) choice.by_channels = bytes(option(l, cuts.back()));
    return choice;
  }

  const std::vector<GraphNode>& nodes_;
  const std::vector<Shape>& shapes_;
  PartGrid grid_;
  NetworkCost network_ = cut_network();
  std::vector<std::int64_t> parts_;
  std::vector<std::vector<Option>> options_;  // by layer
};

}  // namespace

NetworkCost cut_network() {
  NetworkCost network;
  network.between_nodes = {3e-6, 1 / 6.35e9};
  return network;
}

std::vector<LayerChoice> choose_cuts(const std::vector<GraphNode>& nodes,
                                     const std::vector<Shape>& shapes, const PartGrid& grid,
                                     const CutSetting& setting) {
  return Search(nodes, shapes, grid, setting).run();
}

}  // namespace halomesh
