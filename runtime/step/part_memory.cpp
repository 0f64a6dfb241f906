// SPDX-License-Identifier: Apache-2.0
// The memory of a process: see part_memory.hpp.
#include "runtime/step/part_memory.hpp"

#include <algorithm>
#include <vector>

#include "narrow.hpp"
#include "runtime/step/exchange.hpp"
#include "runtime/step/gradient_reducer.hpp"
#include "src/nn/counted_memory.hpp"
#include "src/nn/model_on_part.hpp"

namespace halomesh {
namespace {

// Bytes of the buffers of a step's exchanges, whose layers have been prepared.
std::int64_t exchange_bytes(const Model& model, const ModelGeometry& geometry,
                            const HaloRounds& rounds, std::int64_t part, std::int64_t batch,
                            const StepProgram& step) {
  const std::vector<DataType> types = model.types();
  std::int64_t bytes = 0;
  for (const StepExchange& exchange : step.exchanges) {
    const std::size_t t = exchange.tensor;
    AnyConstView view(nullptr, types[t], geometry.tensors()[t].span[static_cast<std::size_t>(part)],
                      batch);
    if (exchange.kind == StepExchange::Kind::kGatherState)
      view = model.layers()[t - 1].layer->backward_state();
    bytes += Exchange::buffer_bytes(plan_of(exchange, geometry, rounds, part), narrow<int>(part),
                                    combine_of(exchange, geometry), view);
  }
  return bytes;
}

}  // namespace

PartMemory memory_of_part(Model& model, const ModelGeometry& geometry, std::int64_t part,
                          const Loss* loss, const MemorySetting& setting) {
  const auto at = static_cast<std::size_t>(part);
  PartMemory memory;
  const HaloRounds rounds = halo_rounds(model, geometry, part);
  const StepGraph graph =
      step_graph(model, geometry, rounds, at, setting.batch, setting.trains, setting.use);
  const StepMemory step = plan_step_memory(graph);
  memory.tensors = step.bytes;

  const TensorGeometry &input = geometry.tensors().front(), &output = geometry.tensors().back();
  std::int64_t sample = input.span[at].volume() * size_of(model.input_type());
  if (loss != nullptr && !output.owned[at].empty())
    sample += loss->target_box(output.owned[at]).volume() * size_of(loss->target_type());
  memory.input = 2 * setting.splits * setting.batch * sample;

  const CountedMemory counted(setting.threads);
  Parameters parameters(geometry, part, {});
  memory.parameters = counted.bytes();
  memory.optimizer = setting.optimizer_states * parameters.size() * std::int64_t{sizeof(float)};
  if (setting.trains)
    memory.sums = GradientReducer::buffer_bytes(setting.mesh, setting.ranks_per_node, part,
                                                geometry, Reduction::kAuto,
                                                GradientReducer::kBucketBytes, setting.payload);
  const Scratch scratch;
  for (std::size_t l = 0; l < model.layers().size(); ++l) {
    if (graph.layers[l].chunks.empty()) continue;
    LayerContext context = layer_context(model, geometry, l, at, setting.batch, setting.trains);
    context.scratch = scratch;
    model.layers()[l].layer->prepare(context, parameters.views(l));
  }
  memory.exchanges = exchange_bytes(model, geometry, rounds, part, setting.batch, step.program);
  memory.scratch = std::ssize(scratch.memory());
  memory.layers = counted.bytes() - memory.parameters - memory.scratch;
  return memory;
}

std::int64_t largest_part(const Model& model, const ModelGeometry& geometry,
                          const MemorySetting& setting) {
  const std::vector<DataType> types = model.types();
  std::int64_t largest = 0, most = -1;
  for (std::int64_t part = 0; part < geometry.grid().count(); ++part) {
    std::int64_t bytes = (2 + setting.optimizer_states) * geometry.parameter_count(part) *
                         std::int64_t{sizeof(float)};
    for (std::size_t t = 0; t < types.size(); ++t)
      bytes += setting.batch * size_of(types[t]) *
               geometry.tensors()[t].span[static_cast<std::size_t>(part)].volume();
    if (bytes > most) {
      most = bytes;
      largest = part;
    }
  }
  return largest;
}

}  // namespace halomesh
