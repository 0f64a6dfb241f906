// SPDX-License-Identifier: Apache-2.0
// The events of a step of a small network cut in two, written by hand.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "src/nn/layers/convolution.hpp"
#include "src/nn/layers/dense.hpp"
#include "src/nn/layers/elementwise.hpp"
#include "src/nn/model_on_part.hpp"

namespace halomesh {
namespace {

using Lines = std::vector<std::string>;

// Layers 0 to 3 make the tensors 1 to 4. Of 8 planes each part has 4; only the second convolution
// reads planes of the other part, one, and the dense layer adds up sums of both parts on part 0.
Model small_network() {
  Model model({1, 8, 4, 4});
  model.set_cuts(parse_cuts("space"));
  const auto convolution = [] {
    return std::make_unique<Convolution>(
        ConvolutionOptions{2, WindowOptions::cube(3, 1, PaddingKind::kSame)});
  };
  model.add("conv0", convolution());
  model.add("act1", std::make_unique<Elementwise>(ElementFunction::leaky_relu(0.5F)));
  model.add("conv2", convolution());
  model.add("fc3", std::make_unique<Dense>(3));
  return model;
}

std::string name_of(const StepExchange& exchange) {
  constexpr std::array kNames{"halo",      "halo again", "sums", "returned",
                              "broadcast", "gathered",   "state"};
  const std::string name =
      fmt::format("{} {}", kNames.at(static_cast<std::size_t>(exchange.kind)), exchange.tensor);
  return exchange.kind == StepExchange::Kind::kHalo ? fmt::format("{}.{}", name, exchange.round)
                                                    : name;
}

// Passes with the layer, and its chunk or input; exchanges with the tensor, and its round.
Lines lines_of(const std::vector<StepEvent>& events, const StepProgram& program) {
  constexpr std::array kNames{"forward", "loss",       "data",      "parameters",
                              "again",   "clear sums", "clear",     "replica sums",
                              "start",   "finish",     "completed", "poll"};
  Lines lines;
  for (const StepEvent& event : events) {
    std::string line = kNames.at(static_cast<std::size_t>(event.kind));
    switch (event.kind) {
      case StepEvent::Kind::kForward:
        line += fmt::format(" {}.{}", event.layer, event.number);
        break;
      case StepEvent::Kind::kBackwardData:
        line += fmt::format(" {}.{}", event.layer, event.input);
        break;
      case StepEvent::Kind::kStart:
      case StepEvent::Kind::kFinish:
        line += ' ' + name_of(program.exchanges[event.number]);
        break;
      case StepEvent::Kind::kLoss:
      case StepEvent::Kind::kPoll:
        break;
      default:
        line += fmt::format(" {}", event.layer);
    }
    lines.push_back(line);
  }
  return lines;
}

StepGraph graph_of(const Model& model, std::size_t part, MemoryUse use = MemoryUse::kShared,
                   bool training = true) {
  const ModelGeometry geometry = model.geometry({2, 1, 1});
  return step_graph(model, geometry, halo_rounds(model, geometry), part, 1, training, use);
}

Lines lines_of(const Model& model, std::size_t part, MemoryUse use = MemoryUse::kShared,
               bool training = true) {
  const StepProgram program = step_program(graph_of(model, part, use, training));
  return lines_of(program.events, program);
}

const Lines kForwardLines{"forward 0.0", "poll", "poll",                    //
                          "forward 1.0", "start halo 2.0", "poll", "poll",  // its chunk is sent
                                                                            // before it polls
                          "forward 2.0", "poll",  // the planes that need nothing remote
                          "finish halo 2.0", "forward 2.1", "poll", "poll",  //
                          "forward 3.0", "poll", "start sums 4", "finish sums 4", "poll", "loss"};

Lines operator+(Lines a, const Lines& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_CASE("the events of a step of two parts") {
  const Lines backward{"start broadcast 4",
                       "finish broadcast 4",
                       "parameters 3",
                       "data 3.0",
                       "completed 3",
                       "poll",
                       "data 2.0",
                       "start returned 2",
                       "parameters 2",
                       "completed 2",
                       "poll",
                       "finish returned 2",
                       "data 1.0",
                       "completed 1",
                       "poll",
                       "parameters 0",
                       "completed 0",
                       "poll"};
  const Model model = small_network();
  for (const std::size_t part : {0U, 1U}) {
    CHECK(lines_of(model, part) == kForwardLines + backward);
    CHECK(lines_of(model, part, MemoryUse::kShared, false) == kForwardLines);
  }
}

TEST_CASE("outputs that are computed again exchange their halos again") {
  const Lines backward{"start broadcast 4",
                       "finish broadcast 4",
                       "parameters 3",
                       "data 3.0",
                       "completed 3",
                       "poll",
                       "again 0",
                       "again 1",
                       "start halo again 2",
                       "finish halo again 2",
                       "parameters 2",
                       "data 2.0",
                       "start returned 2",
                       "completed 2",
                       "poll",
                       "finish returned 2",
                       "data 1.0",
                       "completed 1",
                       "poll",
                       "parameters 0",
                       "completed 0",
                       "poll"};
  CHECK(lines_of(small_network(), 0, MemoryUse::kRecomputed) == kForwardLines + backward);
}

TEST_CASE("halos that are sent with their layer follow its last pass") {
  StepGraph graph = graph_of(small_network(), 0);
  graph.send_with_layers();
  const StepProgram program = step_program(graph);
  const Lines lines = lines_of(program.events, program);
  CHECK(Lines(lines.begin() + 3, lines.begin() + 7) ==
        Lines{"forward 1.0", "poll", "start halo 2.0", "poll"});
}

TEST_CASE("frozen layers leave only what later layers need") {
  const Model model = small_network();
  const StepGraph graph = graph_of(model, 0, MemoryUse::kRecomputed);
  const StepProgram program = step_program(graph);
  const std::vector<bool> wanted = tensors_with_diff(model, model.geometry({2, 1, 1}), 2);
  CHECK(wanted == std::vector<bool>{false, false, false, true, true});
  const Lines backward{"start broadcast 4",
                       "finish broadcast 4",
                       "parameters 3",
                       "data 3.0",
                       "completed 3",
                       "poll",
                       "again 0",
                       "again 1",
                       "start halo again 2",
                       "finish halo again 2",
                       "parameters 2",
                       "completed 2",
                       "poll",
                       "completed 1",
                       "poll",
                       "completed 0",
                       "poll"};
  CHECK(lines_of(events_from(2, wanted, graph, program), program) == kForwardLines + backward);
}

}  // namespace
}  // namespace halomesh
