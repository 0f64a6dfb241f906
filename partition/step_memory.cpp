// SPDX-License-Identifier: Apache-2.0
// The memory of a training step: see step_memory.hpp.
#include "partition/step_memory.hpp"

#include <algorithm>
#include <utility>

namespace halomesh {
namespace {

using Kind = StepEvent::Kind;

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
  StepMemory place(StepProgram program);

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
    if (event.extra < 0) return;
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

StepMemory StepBlocks::place(StepProgram program) {
  const auto end = static_cast<std::int64_t>(program.events.size()) - 1;
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
  for (const Extra& extra : extras_) program.events[extra.event].extra = plan.offsets[extra.block];
  return {std::move(program), offsets(values_),   offsets(diffs_), offsets(agains_),
          plan.bytes,         std::move(blocks_), plan.offsets};
}

}  // namespace

StepMemory plan_step_memory(const StepGraph& graph) {
  StepProgram program = step_program(graph);
  StepBlocks blocks(graph);
  const auto events = static_cast<std::int64_t>(program.events.size());
  for (std::int64_t e = 0; e < events; ++e)
    blocks.add(program.events[static_cast<std::size_t>(e)], e);
  blocks.keep_output(events - 1);
  return blocks.place(std::move(program));
}

}  // namespace halomesh
