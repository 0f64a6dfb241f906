// SPDX-License-Identifier: Apache-2.0
// The memory of a step: literal orders and places of small networks; and, for any network, every
// pass finds what it reads where the pass that made it has put it.
#include "partition/step_memory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "error.hpp"
#include "rng.hpp"

namespace halomesh {
namespace {

using Kind = StepEvent::Kind;
using Ranges = std::vector<EventRange>;

LiveBlock block(std::int64_t bytes, Ranges live) { return {bytes, std::move(live)}; }

TEST_CASE("blocks go into the smallest gap, the largest block first") {
  CHECK(place_blocks({}).bytes == 0);
  // The second largest lies behind the largest, with which it lives; the third above the largest
  // when that is gone; the last between that and the second.
  const std::vector<LiveBlock> blocks{block(64, {{2, 2}}), block(640, {{0, 1}}),
                                      block(320, {{1, 2}}), block(128, {{2, 2}}),
                                      block(0, {{0, 2}})};
  const ArenaPlan plan = place_blocks(blocks);
  CHECK(plan.offsets == std::vector<std::int64_t>{128, 0, 640, 0, 0});
  CHECK(plan.bytes == 960);
  CHECK(most_live_bytes(blocks) == 960);
  CHECK(place_blocks(std::vector{block(1, {{0, 0}}), block(65, {{0, 0}})}).offsets ==
        std::vector<std::int64_t>{128, 0});
}

TEST_CASE("a block between two others takes the gap that fits best") {
  const std::vector<LiveBlock> blocks{block(256, {{0, 0}}), block(192, {{0, 2}}),
                                      block(128, {{0, 0}}), block(100, {{0, 2}}),
                                      block(64, {{2, 2}}),  block(10, {{1, 2}})};
  const ArenaPlan plan = place_blocks(blocks);
  CHECK(plan.offsets == std::vector<std::int64_t>{0, 256, 448, 576, 448, 512});
  CHECK(plan.bytes == 704);
}

TEST_CASE("blocks live several times keep their place") {
  const std::vector<LiveBlock> blocks{block(64, {{0, 1}, {4, 5}}), block(64, {{2, 3}}),
                                      block(64, {{5, 6}})};
  CHECK(place_blocks(blocks).offsets == std::vector<std::int64_t>{0, 0, 64});
  CHECK(live_together(blocks[0], blocks[2]));
  CHECK_FALSE(live_together(blocks[0], blocks[1]));
}

StepEvent forward(std::size_t layer) {
  return {Kind::kForward, layer, 0, false, false, false, -1, layer};
}
StepEvent parameters(std::size_t layer) {
  return {Kind::kBackwardParameters, layer, 0, false, false, false, -1, layer};
}
StepEvent data(std::size_t layer, std::size_t input, bool first, bool last, bool in_place = false,
               std::int64_t extra = -1) {
  return {Kind::kBackwardData, layer, input, first, last, in_place, extra, layer};
}
// The end of a layer's passes, forward and backward.
StepEvent poll(std::size_t layer) {
  return {Kind::kPoll, layer, 0, false, false, false, -1, layer};
}
StepEvent completed(std::size_t layer) {
  return {Kind::kCompleted, layer, 0, false, false, false, -1, layer};
}
StepEvent loss(std::size_t last) { return {Kind::kLoss, 0, 0, false, false, false, -1, last}; }
StepEvent again(std::size_t layer, std::size_t during, std::size_t input = 0, bool first = true,
                bool last = true) {
  return {Kind::kAgain, layer, input, first, last, false, -1, during};
}

// A convolution, an activation, a convolution.
StepGraph chain() {
  StepGraph graph;
  graph.tensors = {{64, false}, {64, true}, {64, true}, {64, true}};
  graph.layers.resize(3);
  for (std::size_t l = 0; l < 3; ++l) graph.layers[l].inputs = {l};
  graph.layers[0].has_parameters = graph.layers[2].has_parameters = true;
  graph.layers[1].reads_dst = true;
  graph.layers[1].in_place = {0, 0};
  return graph;
}

TEST_CASE("a chain of layers: events, ranges and places") {
  const StepMemory memory = plan_step_memory(chain());
  CHECK(memory.program.events ==
        std::vector<StepEvent>{forward(0), poll(0), forward(1), poll(1), forward(2), poll(2),
                               loss(2),                                                       //
                               data(2, 0, true, true), parameters(2), completed(2), poll(2),  //
                               data(1, 0, true, true, true), completed(1), poll(1),           //
                               parameters(0), completed(0), poll(0)});
  const std::vector<Ranges> live{{{0, 2}},    // what the activation reads; not backward
                                 {{2, 11}},   // its result, which it reads backward
                                 {{4, 16}},   // the output
                                 {{6, 8}},    // its gradient
                                 {{7, 14}}};  // those of the activation's output and input
  REQUIRE(memory.blocks.size() == live.size());
  for (std::size_t b = 0; b < live.size(); ++b) CHECK(memory.blocks[b].live == live[b]);
  CHECK(memory.value == std::vector<std::int64_t>{-1, 0, 64, 0});
  CHECK(memory.diff == std::vector<std::int64_t>{-1, 192, 192, 128});
  CHECK(memory.bytes == 256);
}

TEST_CASE("gradients of parameters first: the input makes room for its gradient") {
  StepGraph graph = chain();
  graph.layers[1].reads_dst = false;
  graph.layers[2].parameters_first = true;
  const StepMemory memory = plan_step_memory(graph);
  CHECK(memory.program.events[7] == parameters(2));
  CHECK(memory.program.events[8] == data(2, 0, true, true));
  CHECK(memory.diff[2] == memory.value[2]);
  graph.layers[2].reads_src = true;
  CHECK(plan_step_memory(graph).diff[2] != memory.value[2]);
}

TEST_CASE("without training only the forward passes; without reuse no byte twice") {
  StepGraph graph = chain();
  graph.training = false;
  const StepMemory evaluation = plan_step_memory(graph);
  CHECK(evaluation.program.events.size() == 7);
  CHECK(evaluation.value == std::vector<std::int64_t>{-1, 0, 64, 0});
  CHECK(evaluation.diff == std::vector<std::int64_t>{-1, -1, -1, -1});
  graph = chain();
  graph.use = MemoryUse::kApart;
  CHECK(plan_step_memory(graph).bytes == 6 * 64);
}

// Tensor 1 is read by layers 1 and 2, whose outputs layer 3 adds.
StepGraph fork() {
  StepGraph graph;
  graph.tensors = {{64, false}, {64, true}, {64, true}, {64, true}, {64, true}};
  graph.layers.resize(4);
  graph.layers[0] = {.inputs = {0}, .has_parameters = true};
  graph.layers[1] = {.inputs = {1}, .reads_src = true, .in_place = {{0, 0}}};
  graph.layers[2] = {.inputs = {1}, .has_parameters = true};
  graph.layers[3] = {.inputs = {2, 3}, .in_place = {{0, 0}}};
  return graph;
}

TEST_CASE("a gradient of two consumers: the second is added, and not in place") {
  const StepMemory memory = plan_step_memory(fork());
  const std::int64_t extra = memory.program.events.at(17).extra;
  CHECK(std::vector<StepEvent>(memory.program.events.begin() + 9, memory.program.events.end()) ==
        std::vector<StepEvent>{data(3, 1, true, true), data(3, 0, true, true, true), completed(3),
                               poll(3),                                                        //
                               data(2, 0, true, false), parameters(2), completed(2), poll(2),  //
                               data(1, 0, false, true, false, extra), completed(1), poll(1),   //
                               parameters(0), completed(0), poll(0)});
  CHECK(memory.diff[4] == memory.diff[2]);
  CHECK(extra >= 0);
  CHECK(extra != memory.diff[1]);
  CHECK(extra != memory.diff[2]);
  StepGraph graph = fork();
  graph.layers[1].adds = true;
  CHECK(plan_step_memory(graph).program.events.at(17).extra == -1);
}

// Two levels: layer 0 is a convolution; its rectified output (tensor 2) is read by a convolution
// and, far on, by a concatenation (tensor 6), which a convolution reads; 5 makes what comes before
// it.
StepGraph levels() {
  StepGraph graph;
  for (std::size_t t = 0; t < 9; ++t) graph.tensors.push_back({t == 2 || t == 6 ? 640 : 64, t > 0});
  graph.layers.resize(8);
  for (std::size_t l = 0; l < 8; ++l)
    graph.layers[l] = {.inputs = {l}, .has_parameters = true, .parameters_first = true};
  graph.layers[1] = {.inputs = {1}, .reads_src = true, .repeats = true};
  graph.layers[5] = {.inputs = {5, 2}, .repeats = true, .repeats_by_input = true};
  return graph;
}

TEST_CASE("outputs that are made again are not kept between their readers") {
  StepGraph graph = levels();
  graph.use = MemoryUse::kRecomputed;
  const StepMemory memory = plan_step_memory(graph);
  const std::vector<StepEvent> expected{
      parameters(7),
      data(7, 0, true, true),  // tensor 7, of a convolution
      completed(7),
      poll(7),
      again(5, 6, 0, true, false),  // reads tensor 5, which is kept
      again(1, 6),                  // tensor 2, for the second input
      again(5, 6, 1, false, true),
      parameters(6),
      data(6, 0, true, true)};
  const auto begin = memory.program.events.begin() + 17;
  REQUIRE(memory.program.events.size() > 26);
  CHECK(std::vector<StepEvent>(begin, begin + 9) == expected);
  // Tensor 2 again for layer 2, as it was not kept since.
  CHECK(std::count(memory.program.events.begin(), memory.program.events.end(), again(1, 2)) == 1);
  graph.use = MemoryUse::kShared;
  CHECK(memory.bytes < plan_step_memory(graph).bytes);
}

// A memory of marks: each pass finds what it reads, and its own marks replace what was there.
class Marks {
 public:
  explicit Marks(const StepMemory& memory) : memory_(memory) {}
  void write(std::int64_t at, std::int64_t bytes, const std::string& mark) {
    REQUIRE(at >= 0);
    REQUIRE(at + bytes <= memory_.bytes);
    for (std::int64_t i = at; i < at + bytes; i += 64) lines_[i] = mark;
  }
  void read(std::int64_t at, std::int64_t bytes, const std::string& mark) {
    for (std::int64_t i = at; i < at + bytes; i += 64) wrong_ += lines_[i] != mark, ++read_;
  }
  std::int64_t wrong() const { return wrong_; }
  std::int64_t number_read() const { return read_; }

 private:
  const StepMemory& memory_;
  std::map<std::int64_t, std::string> lines_;
  std::int64_t wrong_ = 0, read_ = 0;
};

// Plays the events of a step as their kinds say, with marks for numbers.
std::int64_t play(const StepGraph& graph, const StepMemory& memory) {
  Marks marks(memory);
  std::vector<std::int64_t> values = memory.value;  // where they are now
  const auto name = [](const char* what, std::size_t t) { return what + std::to_string(t); };
  const auto size = [&](std::size_t t) { return graph.tensors[t].bytes; };
  const auto read_value = [&](std::size_t t) {
    if (t > 0) marks.read(values[t], size(t), name("value", t));
  };
  const auto read_diff = [&](std::size_t t) {
    marks.read(memory.diff[t], size(t), name("diff", t));
  };
  const std::size_t output = graph.tensors.size() - 1;
  for (const StepEvent& event : memory.program.events) {
    const std::size_t dst = event.layer + 1;
    if (event.kind == Kind::kLoss) {
      read_value(output);
      if (graph.training && graph.tensors[output].diff_wanted)
        marks.write(memory.diff[output], size(output), name("diff", output));
      continue;
    }
    const LayerPasses& layer = graph.layers[event.layer];
    if (event.kind == Kind::kAgain) {
      values[dst] = memory.again[dst];
      marks.write(values[dst], size(dst), event.last ? name("value", dst) : "piece");
      for (std::size_t i = 0; i < layer.inputs.size(); ++i)
        if (!layer.repeats_by_input || i == event.input) read_value(layer.inputs[i]);
      continue;
    }
    if (event.kind == Kind::kForward) {
      marks.write(memory.value[dst], size(dst), name("value", dst));
      for (const std::size_t t : layer.inputs) read_value(t);  // until all of dst is written
      continue;
    }
    if (event.kind == Kind::kClearDiff) {  // nobody else writes it
      marks.write(memory.diff[dst], size(dst), name("diff", dst));
      continue;
    }
    if (event.kind == Kind::kCompleted || event.kind == Kind::kPoll) continue;
    read_diff(dst);
    if (event.kind == Kind::kBackwardParameters || layer.reads_src)
      for (const std::size_t t : layer.inputs) read_value(t);
    if (event.kind == Kind::kBackwardParameters) continue;
    if (layer.reads_dst) read_value(dst);
    const std::size_t t = layer.inputs[event.input];
    if (!event.first) read_diff(t);
    if (event.extra >= 0) marks.write(event.extra, size(t), "extra");
    if (!event.first) read_diff(t);
    marks.write(memory.diff[t], size(t), name("diff", t));
    if (!event.in_place) read_diff(dst);
  }
  read_value(output);
  CHECK(marks.number_read() > 0);
  return marks.wrong();
}

StepGraph any_network(std::uint32_t number) {
  std::uint64_t index = 0;
  const CounterRng rng(3, RandomUse::kSynth, number);
  const auto draw = [&](std::uint32_t n) { return rng.block(index++)[0] % n; };
  StepGraph graph;
  graph.training = draw(8) > 0;
  if (draw(2) == 0) graph.use = MemoryUse::kRecomputed;
  graph.tensors = {{64, false}};
  const std::size_t layers = 2 + draw(12);
  for (std::size_t l = 0; l < layers; ++l) {
    LayerPasses layer;
    layer.inputs = {l < 2 ? l : l - draw(3)};
    if (l > 0 && draw(3) == 0) layer.inputs.push_back(draw(static_cast<std::uint32_t>(l + 1)));
    layer.has_parameters = draw(2) == 0;
    layer.reads_src = draw(3) == 0;
    layer.reads_dst = draw(3) == 0;
    layer.parameters_first = draw(2) == 0;
    layer.adds = draw(3) == 0;
    layer.repeats = draw(2) == 0;
    layer.repeats_by_input = draw(2) == 0;
    bool wanted = layer.has_parameters;
    for (const std::size_t t : layer.inputs) wanted = wanted || graph.tensors[t].diff_wanted;
    std::int64_t lines = 1 + draw(6);
    const std::size_t input = draw(static_cast<std::uint32_t>(layer.inputs.size()));
    if (draw(2) == 0) {
      const std::int64_t lead = draw(2);
      lines = graph.tensors[layer.inputs[input]].bytes / 64 + lead;
      layer.in_place = {input, 64 * lead};
    }
    graph.tensors.push_back({64 * lines, wanted});
    graph.layers.push_back(layer);
  }
  return graph;
}

TEST_CASE("in every network each pass finds what it reads") {
  std::int64_t shared = 0, apart = 0, repeated = 0;
  for (std::uint32_t number = 0; number < 500; ++number) {
    StepGraph graph = any_network(number);
    const StepMemory memory = plan_step_memory(graph);
    CHECK(play(graph, memory) == 0);
    CHECK(memory.bytes >= most_live_bytes(memory.blocks));
    CHECK(memory.bytes <= most_live_bytes(memory.blocks) * 3 / 2);
    shared += memory.bytes;
    for (const StepEvent& event : memory.program.events) repeated += event.kind == Kind::kAgain;
    graph.use = MemoryUse::kApart;
    apart += plan_step_memory(graph).bytes;
  }
  CHECK(shared < apart * 2 / 3);
  CHECK(repeated > 500);
}

}  // namespace
}  // namespace halomesh
