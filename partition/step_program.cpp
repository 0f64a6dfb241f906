// SPDX-License-Identifier: Apache-2.0
// The events of a step: see step_program.hpp.
#include "partition/step_program.hpp"

#include <algorithm>
#include <utility>

namespace halomesh {
namespace {

using Kind = StepEvent::Kind;
using Exchanged = StepExchange::Kind;

/// Derives the events of a step in order.
class StepOrder {
 public:
  explicit StepOrder(const StepGraph& graph)
      : graph_(graph),
        consumers_(graph.tensors.size()),
        touched_(graph.tensors.size()),
        states_(graph.exchanges.size()) {
    for (const LayerPasses& layer : graph.layers)
      for (const std::size_t t : layer.inputs) ++consumers_[t];
    left_ = consumers_;
    const std::size_t layers = graph.layers.size();
    for (std::size_t l = 0; l < layers; ++l, ++time_) add_forward(l);
    add({Kind::kLoss});
    for (std::size_t l = graph.training ? layers : 0; l-- > 0; ++time_) {
      during_ = l;
      if (graph.tensors[l + 1].diff_wanted) add_backward(l);
      add({Kind::kCompleted, l});
      add({Kind::kPoll, l});
    }
  }

  // Leaves out exchanges that no event starts: outputs that are never computed again.
  StepProgram take() {
    StepProgram program{std::move(events_), {}};
    std::vector<std::size_t> numbers(states_.size());
    for (std::size_t e = 0; e < states_.size(); ++e) {
      numbers[e] = program.exchanges.size();
      if (states_[e].started) program.exchanges.push_back(graph_.exchanges[e]);
    }
    for (StepEvent& event : program.events)
      if (event.kind == Kind::kStart || event.kind == Kind::kFinish)
        event.number = numbers[event.number];
    return program;
  }

 private:
  void add(StepEvent event) {
    event.during = during_;
    for_each_value(graph_, event, [&](std::size_t t) { touched_[t] = time_; });
    events_.push_back(event);
  }
  void add_forward(std::size_t l) {
    during_ = l;
    const LayerPasses& layer = graph_.layers[l];
    if (graph_.tensors[l + 1].clears_sums) add({Kind::kClearSums, l});
    start_rounds(l + 1, 0);  // these send nothing, but receive early
    // An idle part has one pass as well, which computes nothing.
    const std::size_t chunks = std::max<std::size_t>(layer.chunks.size(), 1);
    std::size_t awaited = 0;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      const bool idle = layer.chunks.empty();
      if (!idle && layer.chunks[chunk].needs_remote) finish_halos(layer.inputs, ++awaited);
      StepEvent pass{Kind::kForward, l};
      pass.number = chunk;
      add(pass);
      start_rounds(l + 1, chunk + 1);
      if (!idle) add({Kind::kPoll, l});
    }
    finish_halos(layer.inputs, kAfterLayer);
    if (layer.sums_replicas) add({Kind::kReplicaSums, l});
    start(Exchanged::kPartialSums, l + 1);
    finish(Exchanged::kPartialSums, l + 1);
    start_rounds(l + 1, kAfterLayer);
    add({Kind::kPoll, l});
  }
  void add_backward(std::size_t l) {
    const LayerPasses& layer = graph_.layers[l];
    if (consumers_[l + 1] == 0 && l + 1 < graph_.layers.size()) add({Kind::kClearDiff, l});
    finish(Exchanged::kReturnDiff, l + 1);
    start(Exchanged::kBroadcastDiff, l + 1);
    finish(Exchanged::kBroadcastDiff, l + 1);
    if (layer.sums_replicas) add({Kind::kReplicaSums, l});
    // Parts that gather gradients compute those of parameters first, which need none of the data in
    // transit.
    start(Exchanged::kGatherDiff, l + 1);
    start(Exchanged::kGatherState, l + 1);
    const std::size_t inputs = layer.inputs.size();
    const std::size_t in_place = is_in_place(l) ? layer.in_place->input : inputs;
    if (layer.parameters_first) add_parameters(l);
    for (std::size_t i = 0; i < inputs; ++i)
      if (i != in_place) add_data(l, i);
    if (!layer.parameters_first) add_parameters(l);
    if (in_place < inputs) add_data(l, in_place, true);
    finish_gathers(l);  // unless an input has a gradient
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
    if (!graph_.layers[l].has_parameters) return;
    const StepEvent event{Kind::kBackwardParameters, l};
    need_values(event);
    add(event);
  }
  void add_data(std::size_t l, std::size_t input, bool in_place = false) {
    const LayerPasses& layer = graph_.layers[l];
    const std::size_t t = layer.inputs[input];
    if (!graph_.tensors[t].diff_wanted) return;
    StepEvent event{Kind::kBackwardData, l, input};
    event.first = left_[t] == consumers_[t];
    event.last = --left_[t] == 0;
    event.in_place = in_place;
    event.clears_diff = event.first && graph_.tensors[t].clears_diff;
    if (!event.first && !layer.adds) event.extra = 0;  // until the memory is planned
    need_values(event);
    finish_gathers(l);
    add(event);
    if (event.last) start(Exchanged::kReturnDiff, t);
  }
  void need_values(const StepEvent& event) {
    for_each_value(graph_, event, [&](std::size_t t) { need(t); });
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
    start(Exchanged::kHaloAgain, t);
    finish(Exchanged::kHaloAgain, t);
  }

  // Starts the rounds of a halo that leave after so many chunks.
  void start_rounds(std::size_t t, std::size_t computed) {
    const auto& before = graph_.tensors[t].chunks_before_sends;
    for (std::size_t k = 0; k < before.size(); ++k)
      if (before[k] == computed) start(Exchanged::kHalo, t, k);
  }
  // Finishes the first `rounds` rounds of the halos of these tensors.
  void finish_halos(const std::vector<std::size_t>& tensors, std::size_t rounds) {
    for (const std::size_t t : tensors)
      for (std::size_t k = 0; k < std::min(rounds, graph_.tensors[t].chunks_before_sends.size());
           ++k)
        finish(Exchanged::kHalo, t, k);
  }
  void finish_gathers(std::size_t l) {
    finish(Exchanged::kGatherDiff, l + 1);
    finish(Exchanged::kGatherState, l + 1);
  }
  // Nothing happens where there is no such exchange, or if it is not in flight.
  void start(Exchanged kind, std::size_t t, std::size_t round = 0) {
    const std::size_t e = find({kind, t, round});
    if (e == states_.size()) return;
    states_[e] = {true, true};
    add_exchange(Kind::kStart, e);
  }
  void finish(Exchanged kind, std::size_t t, std::size_t round = 0) {
    const std::size_t e = find({kind, t, round});
    if (e == states_.size() || !std::exchange(states_[e].in_flight, false)) return;
    add_exchange(Kind::kFinish, e);
  }
  void add_exchange(Kind kind, std::size_t number) {
    StepEvent event{kind, during_};
    event.number = number;
    add(event);
  }
  std::size_t find(const StepExchange& exchange) const {
    const auto of_tensor =
        std::equal_range(graph_.exchanges.begin(), graph_.exchanges.end(), exchange,
                         [](const auto& a, const auto& b) { return a.tensor < b.tensor; });
    const auto at = std::find(of_tensor.first, of_tensor.second, exchange);
    return at == of_tensor.second ? states_.size()
                                  : static_cast<std::size_t>(at - graph_.exchanges.begin());
  }

  struct State {
    bool started = false, in_flight = false;
  };
  const StepGraph& graph_;
  // By tensor: consumers, and those whose gradient is still to come.
  std::vector<std::size_t> consumers_, left_;
  std::vector<std::size_t> touched_;   // by tensor: when its values were last read
  std::vector<State> states_;          // by exchange
  std::size_t time_ = 0, during_ = 0;  // layers passed, forward and backward
  std::vector<StepEvent> events_;
};

}  // namespace

void StepGraph::send_with_layers() {
  for (StepTensor& tensor : tensors)
    std::fill(tensor.chunks_before_sends.begin(), tensor.chunks_before_sends.end(), kAfterLayer);
}

StepProgram step_program(const StepGraph& graph) { return StepOrder(graph).take(); }

std::vector<StepEvent> events_from(std::size_t first, const std::vector<bool>& wanted,
                                   const StepGraph& graph, const StepProgram& program) {
  const auto loss = std::find_if(program.events.begin(), program.events.end(),
                                 [](const StepEvent& event) { return event.kind == Kind::kLoss; });
  std::vector<StepEvent> events(program.events.begin(), loss);
  const auto is_left = [&](const StepEvent& event) {
    if (event.kind == Kind::kLoss || event.kind == Kind::kCompleted || event.kind == Kind::kPoll)
      return true;
    // The layers that are left may read outputs that are computed again during earlier ones' turns.
    if (event.kind == Kind::kAgain) return event.during >= first;
    if (event.kind == Kind::kBackwardData)
      return wanted[graph.layers[event.layer].inputs[event.input]];
    if (event.kind == Kind::kStart || event.kind == Kind::kFinish) {
      const StepExchange& exchange = program.exchanges[event.number];
      if (exchange.kind == Exchanged::kHaloAgain) return event.during >= first;
      return wanted[exchange.tensor];
    }
    return wanted[event.during + 1];
  };
  std::copy_if(loss, program.events.end(), std::back_inserter(events), is_left);
  return events;
}

}  // namespace halomesh
