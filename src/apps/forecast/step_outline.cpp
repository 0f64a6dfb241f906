// SPDX-License-Identifier: Apache-2.0
// The outline of a step: see step_outline.hpp.
#include "src/apps/forecast/step_outline.hpp"

#include <algorithm>

#include "runtime/step/exchange.hpp"
#include "src/nn/kernel_case.hpp"
#include "src/nn/model_on_part.hpp"

namespace halomesh {
namespace {

std::size_t as_part(std::int64_t part) { return static_cast<std::size_t>(part); }

class Outliner {
 public:
  Outliner(const Model& model, const ModelGeometry& geometry, std::int64_t batch)
      : model_(model),
        geometry_(geometry),
        batch_(batch),
        types_(model.types()),
        with_diff_(tensors_with_diff(model, geometry)),
        parts_(as_part(geometry.grid().count())) {}

  StepOutline run(MemoryUse use, bool early_sends) {
    StepOutline outline;
    const HaloRounds rounds = halo_rounds(model_, geometry_);
    for (std::size_t part = 0; part < parts_; ++part) {
      StepGraph graph = step_graph(model_, geometry_, rounds, part, batch_, true, use);
      if (!early_sends) graph.send_with_layers();
      const StepProgram program = step_program(graph);
      for (std::size_t e = outline.exchanges.size(); e < program.exchanges.size(); ++e)
        outline.exchanges.push_back(of_exchange(program.exchanges[e], rounds));
      outline.events.emplace_back();
      for (const StepEvent& event : program.events)
        outline.events.back().push_back(of_event(event, graph, part));
    }
    for (std::size_t l = 0; l < model_.layers().size(); ++l)
      outline.kernels.push_back({kernels_of(l, KernelPass::kForward),
                                 kernels_of(l, KernelPass::kBackwardData),
                                 kernels_of(l, KernelPass::kBackwardParameters)});
    return outline;
  }

 private:
  ExchangeOutline of_exchange(const StepExchange& exchange, const HaloRounds& rounds) const {
    using Kind = StepExchange::Kind;
    const TensorGeometry& g = geometry_.tensors()[exchange.tensor];
    const Box whole = Box::whole(g.shape);
    const DataType type =
        exchange.kind == Kind::kGatherState ? DataType::kUint8 : types_[exchange.tensor];
    ExchangeOutline outline;
    outline.gathered = exchange.kind == Kind::kPartialSums ||
                       exchange.kind == Kind::kBroadcastDiff || g.partial_sums ||
                       std::find(g.needed.begin(), g.needed.end(), whole) != g.needed.end();
    outline.sent.resize(parts_);
    outline.received.resize(parts_);
    const auto buffered = [&](const PartMessage& message, std::int64_t part) {
      return !fits_in_place(message, AnyConstView(nullptr, type, g.span[as_part(part)], batch_));
    };
    const bool adds = combine_of(exchange, geometry_) == Combine::kAdd;
    for (const PartMessage& message : messages_of(plan_of(exchange, geometry_, rounds))) {
      const auto bytes = static_cast<double>(message.volume() * batch_ * size_of(type));
      outline.sent[as_part(message.src)].push_back(outline.messages.size());
      outline.received[as_part(message.dst)].push_back(outline.messages.size());
      outline.messages.push_back({message.src, message.dst, bytes});
      outline.packed.push_back(buffered(message, message.src) ? bytes : 0);
      outline.unpacked.push_back(adds || buffered(message, message.dst) ? bytes : 0);
    }
    return outline;
  }

  TimedEvent of_event(const StepEvent& event, const StepGraph& graph, std::size_t part) const {
    using Kind = StepEvent::Kind;
    TimedEvent timed{event};
    const std::size_t l = event.layer;
    const LayerPlacement& placement = geometry_.layers()[l];
    const LayerPasses& layer = graph.layers[l];
    const Box& produced = placement.boxes[part].dst_produced;
    const double computes = layer.chunks.empty() ? 0 : 1;  // nothing on an idle part
    const auto share_of = [&](const Box& box) {
      return static_cast<double>(box.volume()) / static_cast<double>(produced.volume());
    };
    if (event.kind == Kind::kBackwardData) {
      const auto diffs = std::count_if(layer.inputs.begin(), layer.inputs.end(),
                                       [&](std::size_t t) { return with_diff_[t]; });
      timed.share = computes / static_cast<double>(diffs);
      timed.bytes = static_cast<double>(graph.tensors[layer.inputs[event.input]].bytes);
    } else if (event.kind == Kind::kClearDiff) {
      timed.bytes = static_cast<double>(graph.tensors[l + 1].bytes);
    } else if (event.kind == Kind::kClearSums) {
      const Box& owned = geometry_.tensors()[l + 1].owned[part];
      timed.bytes = static_cast<double>(batch_ * owned.volume() * size_of(types_[l + 1]));
    } else if (event.kind == Kind::kBackwardParameters) {
      timed.share = computes;
    } else if (event.kind == Kind::kForward && !layer.chunks.empty()) {
      timed.share = share_of(layer.chunks[event.number].dst);
    } else if (event.kind == Kind::kAgain && !layer.chunks.empty()) {
      timed.share = event.first && event.last
                        ? 1
                        : share_of(block_of_input(placement, produced, event.input));
    }
    return timed;
  }

  std::vector<KernelCase> kernels_of(std::size_t l, KernelPass pass) const {
    const ModelLayer& entry = model_.layers()[l];
    const LayerPlacement& placement = geometry_.layers()[l];
    std::vector<DataType> src_types;
    for (const std::size_t i : entry.inputs) src_types.push_back(types_[i]);
    std::vector<KernelCase> cases;
    for (const LayerBoxes& boxes : placement.boxes)
      cases.push_back(
          kernel_case(*entry.layer, pass, placement.src_shapes, boxes, src_types, batch_, 1));
    return cases;
  }

  const Model& model_;
  const ModelGeometry& geometry_;
  std::int64_t batch_;
  std::vector<DataType> types_;
  std::vector<bool> with_diff_;
  std::size_t parts_;
};

}  // namespace

StepOutline step_outline(const Model& model, const ModelGeometry& geometry, std::int64_t batch,
                         MemoryUse use, bool early_sends) {
  return Outliner(model, geometry, batch).run(use, early_sends);
}

}  // namespace halomesh
