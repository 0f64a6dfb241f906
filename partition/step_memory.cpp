// SPDX-License-Identifier: Apache-2.0
// The memory of a training step: see step_memory.hpp.
#include "partition/step_memory.hpp"

#include <algorithm>
#include <utility>

namespace halomesh {
namespace {

using Kind = StepEvent::Kind;

/// Calls visit(t) for each tensor whose values the event reads or writes.
template <class Visit>
void for_each_value(const StepGraph& graph, const StepEvent& event, const Visit& visit) {
  if (event.kind == Kind::kLoss) return visit(graph.tensors.size() - 1);
  const LayerPasses& layer = graph.layers[event.layer];
  const bool forward = event.kind == Kind::kForward || event.kind == Kind::kAgain;
  const bool data = event.kind == Kind::kBackwardData;
  if (forward || (data && layer.reads_dst)) visit(event.layer + 1);
  if (data && !layer.reads_src) return;
  for (std::size_t i = 0; i < layer.inputs.size(); ++i)
    if (layer.inputs[i] > 0 &&
        (event.kind != Kind::kAgain || !layer.repeats_by_input || i == event.input))
      visit(layer.inputs[i]);
}

/// Derives the events of a step in order.
class StepOrder {
 public:
  explicit StepOrder(const StepGraph& graph)
      : graph_(graph), consumers_(graph.tensors.size()), touched_(graph.tensors.size()) {
    for (const LayerPasses& layer : graph.layers)
      for (const std::size_t t : layer.inputs) ++consumers_[t];
    left_ = consumers_;
    const std::size_t layers = graph.layers.size();
    for (std::size_t l = 0; l < layers; ++l, ++time_) add({Kind::kForward, during_ = l});
    add({Kind::kLoss});
    for (std::size_t l = graph.training ? layers : 0; l-- > 0; ++time_)
      if (graph.tensors[l + 1].diff_wanted) add_backward(l);
  }
  std::vector<StepEvent> take() { return std::move(events_); }

 private:
  void add(StepEvent event) {
    event.during = during_;
    for_each_value(graph_, event, [&](std::size_t t) { touched_[t] = time_; });
    events_.push_back(event);
  }
  void add_backward(std::size_t l) {
    during_ = l;
    const LayerPasses& layer = graph_.layers[l];
    const std::size_t inputs = layer.inputs.size();
    const std::size_t in_place = is_in_place(l) ? layer.in_place->input : inputs;
    if (layer.parameters_first) add_parameters(l);
    for (std::size_t i = 0; i < inputs; ++i)
      if (i != in_place) add_data(l, i);
    if (!layer.parameters_first) add_parameters(l);
    if (in_place < inputs) add_data(l, in_place, true);
  }
  // The gradient cannot take the output's place where another layer has already written it.
  bool is_in_place(std::size_t l) const {
    const LayerPasses& layer = graph_.layers[l];
    if (!layer.in_place || graph_.use == MemoryUse::kApart) return false;
    const std::size_t t = layer.inputs[layer.in_place->input];
    return graph_.tensors[t].diff_wanted && left_[t] == consumers_[t] &&
           std::count(layer.inputs.begin(), layer.inputs.end(), t) == 1;
  }
  void add_parameters(std::size_t l) {
    if (graph_.layers[l].has_parameters) add_reading({Kind::kBackwardParameters, l});
  }
  void add_data(std::size_t l, std::size_t input, bool in_place = false) {
    const std::size_t t = graph_.layers[l].inputs[input];
    if (!graph_.tensors[t].diff_wanted) return;
    const bool first = left_[t] == consumers_[t], last = --left_[t] == 0;
    add_reading({Kind::kBackwardData, l, input, first, last, in_place});
  }
  void add_reading(const StepEvent& event) {
    for_each_value(graph_, event, [&](std::size_t t) { need(t); });
    add(event);
  }
  // Recomputes the values of a tensor unless they are there: outputs of layers that repeat their
  // forward pass are kept only if one of the last layers read them.
  void need(std::size_t t) {
    constexpr std::size_t kKept = 2;  // layers
    if (graph_.use != MemoryUse::kRecomputed || !graph_.layers[t - 1].repeats ||
        time_ - touched_[t] <= kKept)
      return;
    const LayerPasses& layer = graph_.layers[t - 1];
    const std::size_t calls = layer.repeats_by_input ? layer.inputs.size() : 1;
    for (std::size_t i = 0; i < calls; ++i) {
      const StepEvent again{Kind::kAgain, t - 1, i, i == 0, i + 1 == calls};
      for_each_value(graph_, again, [&](std::size_t u) {
        if (u != t) need(u);
      });
      add(again);
    }
  }

  const StepGraph& graph_;
  // By tensor: consumers, and those whose gradient is still to come.
  std::vector<std::size_t> consumers_, left_;
  std::vector<std::size_t> touched_;   // by tensor: when its values were last read
  std::size_t time_ = 0, during_ = 0;  // layers passed, forward and backward
  std::vector<StepEvent> events_;
};

/// The blocks of all tensors, with the events that read or write them.
class StepBlocks {
 public:
  explicit StepBlocks(const StepGraph& graph)
      : graph_(graph),
        values_(graph.tensors.size()),
        agains_(graph.tensors.size()),
        diffs_(graph.tensors.size()) {}

  void add(const StepEvent& event, std::int64_t at) {
    if (event.kind == Kind::kAgain && event.first) begin_again(event.layer + 1, at);
    if (event.kind == Kind::kLoss) diff(graph_.tensors.size() - 1, at);
    if (event.kind == Kind::kBackwardParameters) diff(event.layer + 1, at);
    if (event.kind == Kind::kAgain) diff(event.during + 1, at);  // it may be gathered meanwhile
    if (event.kind == Kind::kBackwardData) data(event, at);
    for_each_value(graph_, event, [&](std::size_t t) { value(t, at); });
  }
  /// Keeps the output's values until event number `at`.
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
  // Touches the values of a tensor, in their second place once they have been computed again.
  void value(std::size_t t, std::int64_t at) {
    touch(agains_[t].offset < 0 ? values_[t] : agains_[t], graph_.tensors[t].bytes, at);
  }
  void begin_again(std::size_t t, std::int64_t at) {
    Place& place = agains_[t];
    if (place.offset < 0) {
      place = {blocks_.size(), 0};
      blocks_.push_back({graph_.tensors[t].bytes, {}});
    }
    blocks_[place.block].live.push_back({at, at});
  }
  void diff(std::size_t t, std::int64_t at) {
    if (graph_.training && graph_.tensors[t].diff_wanted)
      touch(diffs_[t], graph_.tensors[t].bytes, at);
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
    if (event.first || layer.adds) return;
    extras_.push_back({static_cast<std::size_t>(at), blocks_.size()});
    blocks_.push_back({graph_.tensors[src].bytes, {{at, at}}});
  }

  struct Extra {
    std::size_t event, block;
  };
  const StepGraph& graph_;
  std::vector<Place> values_, agains_, diffs_;  // by tensor
  std::vector<Extra> extras_;
  std::vector<LiveBlock> blocks_;
};

StepMemory StepBlocks::place(std::vector<StepEvent> events) {
  const auto end = static_cast<std::int64_t>(events.size()) - 1;
  if (graph_.use == MemoryUse::kApart)
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
  return {std::move(events), offsets(values_),   offsets(diffs_), offsets(agains_),
          plan.bytes,        std::move(blocks_), plan.offsets};
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
