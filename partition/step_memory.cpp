// SPDX-License-Identifier: Apache-2.0
// The memory of a training step: see step_memory.hpp.
#include "partition/step_memory.hpp"

#include <algorithm>
#include <utility>

namespace halomesh {
namespace {

using Kind = StepEvent::Kind;

/// Finds the events of a step in order.
class StepOrder {
 public:
  explicit StepOrder(const StepGraph& graph) : graph_(graph), consumers_(graph.tensors.size()) {
    for (const LayerPasses& layer : graph.layers)
      for (const std::size_t t : layer.inputs) ++consumers_[t];
    left_ = consumers_;
    for (std::size_t l = 0; l < graph.layers.size(); ++l) events_.push_back({Kind::kForward, l});
    events_.push_back({Kind::kLoss});
    for (std::size_t l = graph.training ? graph.layers.size() : 0; l-- > 0;)
      if (graph.tensors[l + 1].diff_wanted) add_backward(l);
  }
  std::vector<StepEvent> take() { return std::move(events_); }

 private:
  void add_backward(std::size_t l) {
    const LayerPasses& layer = graph_.layers[l];
    const std::size_t inputs = layer.inputs.size();
    const std::size_t in_place = is_in_place(l) ? layer.in_place->input : inputs;
    if (layer.parameters_first) add_parameters(l);
    for (std::size_t i = 0; i < inputs; ++i)
      if (i != in_place) add_data(l, i);
    if (!layer.parameters_first) add_parameters(l);
    if (in_place < inputs) add_data(l, in_place, true);
  }
  // Not where another layer has already written the input's gradient.
  bool is_in_place(std::size_t l) const {
    const LayerPasses& layer = graph_.layers[l];
    if (!layer.in_place || !graph_.reuse) return false;
    const std::size_t t = layer.inputs[layer.in_place->input];
    return graph_.tensors[t].diff_wanted && left_[t] == consumers_[t] &&
           std::count(layer.inputs.begin(), layer.inputs.end(), t) == 1;
  }
  void add_parameters(std::size_t l) {
    if (graph_.layers[l].has_parameters) events_.push_back({Kind::kBackwardParameters, l});
  }
  void add_data(std::size_t l, std::size_t input, bool in_place = false) {
    const std::size_t t = graph_.layers[l].inputs[input];
    if (!graph_.tensors[t].diff_wanted) return;
    const bool first = left_[t] == consumers_[t], last = --left_[t] == 0;
    events_.push_back({Kind::kBackwardData, l, input, first, last, in_place});
  }

  const StepGraph& graph_;
  std::vector<std::size_t> consumers_, left_;  // by tensor; whose gradient is still to come
  std::vector<StepEvent> events_;
};

/// The blocks of all tensors, with the events that read or write them.
class StepBlocks {
 public:
  explicit StepBlocks(const StepGraph& graph)
      : graph_(graph), values_(graph.tensors.size()), diffs_(graph.tensors.size()) {}

  void add(const StepEvent& event, std::int64_t at) {
    const auto outputs = graph_.tensors.size() - 1;
    switch (event.kind) {
      case Kind::kForward:
        value(event.layer + 1, at);
        return inputs(event.layer, at);
      case Kind::kLoss:
        value(outputs, at);
        return diff(outputs, at);
      case Kind::kBackwardData: return data(event, at);
      case Kind::kBackwardParameters:
        diff(event.layer + 1, at);
        return inputs(event.layer, at);
    }
  }
  /// The output's values are there until event number `at`.
  void keep_output(std::int64_t at) { value(values_.size() - 1, at); }
  StepMemory place(std::vector<StepEvent> events);

 private:
  struct Place {
    std::size_t block = 0;
    std::int64_t offset = -1;  // in the block; -1: not placed
  };
  void touch(Place& place, std::int64_t bytes, std::int64_t at) {
    if (place.offset < 0) {
      place = {blocks_.size(), 0};
      blocks_.push_back({bytes, {}});
    }
    blocks_[place.block].touch(at);
  }
  void value(std::size_t t, std::int64_t at) {
    if (t > 0) touch(values_[t], graph_.tensors[t].bytes, at);
  }
  void diff(std::size_t t, std::int64_t at) {
    if (graph_.training && graph_.tensors[t].diff_wanted)
      touch(diffs_[t], graph_.tensors[t].bytes, at);
  }
  void inputs(std::size_t l, std::int64_t at) {
    for (const std::size_t t : graph_.layers[l].inputs) value(t, at);
  }
  void data(const StepEvent& event, std::int64_t at) {
    const LayerPasses& layer = graph_.layers[event.layer];
    const std::size_t src = layer.inputs[event.input];
    diff(event.layer + 1, at);
    if (event.in_place) {
      diffs_[src] = diffs_[event.layer + 1];
      diffs_[src].offset += layer.in_place->offset;
    }
    diff(src, at);
    if (layer.reads_src) inputs(event.layer, at);
    if (layer.reads_dst) value(event.layer + 1, at);
    if (event.first || layer.adds) return;
    extras_.push_back({static_cast<std::size_t>(at), blocks_.size()});
    blocks_.push_back({graph_.tensors[src].bytes, {{at, at}}});
  }

  struct Extra {
    std::size_t event, block;
  };
  const StepGraph& graph_;
  std::vector<Place> values_, diffs_;  // by tensor
  std::vector<Extra> extras_;
  std::vector<LiveBlock> blocks_;
};

StepMemory StepBlocks::place(std::vector<StepEvent> events) {
  const auto end = static_cast<std::int64_t>(events.size()) - 1;
  if (!graph_.reuse)
    for (LiveBlock& block : blocks_) block.live = {{0, end}};
  const ArenaPlan plan = place_blocks(blocks_);
  const auto offsets = [&](const std::vector<Place>& places) {
    std::vector<std::int64_t> all;
    all.reserve(places.size());
    for (const Place& p : places)
      all.push_back(p.offset < 0 ? -1 : plan.offsets[p.block] + p.offset);
    return all;
  };
  for (const Extra& extra : extras_) events[extra.event].extra = plan.offsets[extra.block];
  return {std::move(events), offsets(values_), offsets(diffs_), plan.bytes, std::move(blocks_),
          plan.offsets};
}

}  // namespace

std::vector<StepEvent> step_events(const StepGraph& graph) { return StepOrder(graph).take(); }

StepMemory plan_step_memory(const StepGraph& graph) {
  std::vector<StepEvent> events = step_events(graph);
  StepBlocks blocks(graph);
  for (std::size_t e = 0; e < events.size(); ++e)
    blocks.add(events[e], static_cast<std::int64_t>(e));
  blocks.keep_output(static_cast<std::int64_t>(events.size()) - 1);
  return blocks.place(std::move(events));
}

}  // namespace halomesh
