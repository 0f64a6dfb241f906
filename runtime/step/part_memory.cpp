// SPDX-License-Identifier: Apache-2.0
// The memory of a process: see part_memory.hpp.
#include "runtime/step/part_memory.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "narrow.hpp"
#include "runtime/step/exchange.hpp"
#include "runtime/step/gradient_reducer.hpp"
#include "src/nn/counted_memory.hpp"
#include "src/nn/model_on_part.hpp"

namespace halomesh {
namespace {

/// The transfers that involve one part: its exchanges read no others, and large grids have very
/// many.
TransferPlan of_part(const TransferPlan& plan, std::int64_t part) {
  std::vector<Transfer> transfers;
  for (const Transfer& t : plan.transfers())
    if (t.src == part || t.dst == part) transfers.push_back(t);
  return TransferPlan(std::move(transfers));
}

/// Bytes of the buffers of the exchanges that an Executor makes.
std::int64_t exchange_bytes(const Model& model, const ModelGeometry& geometry, std::int64_t part,
                            std::int64_t batch, const StepMemory& memory) {
  const std::vector<DataType> types = model.types();
  std::int64_t bytes = 0;
  for (std::size_t t = 1; t < types.size(); ++t) {
    const TensorGeometry& g = geometry.tensors()[t];
    const AnyConstView tensor(nullptr, types[t], g.span[static_cast<std::size_t>(part)], batch);
    const auto add = [&](const TransferPlan& plan, Combine combine) {
      bytes += Exchange::buffer_bytes(plan, narrow<int>(part), combine, tensor);
    };
    const TransferPlan distribute = of_part(g.distribute, part);
    for (const TransferPlan& round : rounds_of(model, geometry, t, distribute))
      add(round, Combine::kCopy);
    if (memory.again[t] >= 0) add(distribute, Combine::kCopy);
    add(of_part(g.broadcast, part).reversed(), Combine::kAdd);
    if (memory.diff[t] < 0) continue;
    if (g.whole_diffs)
      add(g.return_diff, Combine::kCopy);
    else
      add(distribute.reversed(), Combine::kAdd);
    add(g.broadcast, Combine::kCopy);
    if (model.layers()[t - 1].layer->has_whole_gradients()) add(g.gather_diff, Combine::kCopy);
  }
  return bytes;
}

}  // namespace

PartMemory memory_of_part(Model& model, const ModelGeometry& geometry, std::int64_t part,
                          const Loss* loss, const MemorySetting& setting) {
  const auto at = static_cast<std::size_t>(part);
  PartMemory memory;
  const StepMemory step =
      plan_step_memory(step_graph(model, geometry, at, setting.batch, true, setting.use));
  memory.tensors = step.bytes;
  memory.exchanges = exchange_bytes(model, geometry, part, setting.batch, step);

  const TensorGeometry &input = geometry.tensors().front(), &output = geometry.tensors().back();
  std::int64_t sample = input.span[at].volume() * size_of(model.input_type());
  if (loss != nullptr && !output.owned[at].empty())
    sample += loss->target_box(output.owned[at]).volume() * size_of(loss->target_type());
  memory.input = 2 * setting.splits * setting.batch * sample;

  const CountedMemory counted(setting.threads);
  Parameters parameters(geometry, part, {});
  memory.parameters = counted.bytes();
  memory.optimizer = setting.optimizer_states * parameters.size() * std::int64_t{sizeof(float)};
  memory.sums = GradientReducer::buffer_bytes(setting.mesh, setting.ranks_per_node, part,
                                              parameters, Reduction::kAuto,
                                              GradientReducer::kBucketBytes, setting.payload);
  const Scratch scratch;
  for (std::size_t l = 0; l < model.layers().size(); ++l) {
    if (chunks_of(model, geometry, l, at).empty()) continue;
    LayerContext context = layer_context(model, geometry, l, at, setting.batch, true);
    context.scratch = scratch;
    model.layers()[l].layer->prepare(context, parameters.views(l));
  }
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
