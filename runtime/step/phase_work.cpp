// SPDX-License-Identifier: Apache-2.0
// The minimum work of each phase of a step: see phase_work.hpp.
#include "runtime/step/phase_work.hpp"

#include <algorithm>

#include "src/nn/model_on_part.hpp"

namespace halomesh {

StepWork::StepWork(const Model& model, const ModelGeometry& geometry, std::int64_t part,
                   std::int64_t batch)
    : model_(model), geometry_(geometry), part_(part), batch_(batch), types_(model.types()) {
  const std::vector<bool> with_diff = tensors_with_diff(model, geometry);
  for (std::size_t l = 0; l < model.layers().size(); ++l) add_layer(l, with_diff);
  const auto parameters = static_cast<double>(geometry.parameter_count(part));
  // The optimizer reads value, gradient and momentum and writes two of them. Its few operations are
  // not counted: replicas repeat them, but a step should have one number of operations on every
  // mesh.
  entries_.push_back({{Phase::kOptimizer, ""}, {0, 5 * sizeof(float) * parameters}});
}

StepWork StepWork::of_all_ranks(const Model& model, const ModelGeometry& geometry,
                                const MeshShape& mesh, std::int64_t local_batch) {
  StepWork sum(model, geometry, 0, local_batch);
  sum.entries_.clear();
  const auto replicas = static_cast<double>(mesh.replicas);
  for (std::int64_t part = 0; part < mesh.parts.count(); ++part)
    for (const Entry& entry : StepWork(model, geometry, part, local_batch).entries_) {
      const auto at = std::find_if(sum.entries_.begin(), sum.entries_.end(),
                                   [&](const Entry& e) { return e.key == entry.key; });
      PhaseWork& work = at != sum.entries_.end()
                            ? at->work
                            : sum.entries_.emplace_back(Entry{entry.key, {}}).work;
      work.flops += replicas * entry.work.flops;
      work.memory_bytes += replicas * entry.work.memory_bytes;
    }
  return sum;
}

double StepWork::flops() const {
  double sum = 0;
  for (const Entry& entry : entries_) sum += entry.work.flops;
  return sum;
}

PhaseWork StepWork::of(const PhaseKey& key) const {
  const auto at = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& entry) { return entry.key == key; });
  return at == entries_.end() ? PhaseWork{} : at->work;
}

double StepWork::bytes(std::size_t tensor, std::int64_t volume) const {
  return static_cast<double>(volume * batch_ * size_of(types_[tensor]));
}

void StepWork::add_layer(std::size_t layer, const std::vector<bool>& with_diff) {
  const ModelLayer& entry = model_.layers()[layer];
  const LayerPlacement& placement = geometry_.layers()[layer];
  const LayerBoxes& boxes = placement.boxes[static_cast<std::size_t>(part_)];
  if (boxes.dst_produced.empty()) return;
  double src = 0, src_with_diff = 0, parameters = 0;
  for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
    const double needed = bytes(entry.inputs[i], boxes.src_needed[i].volume());
    src += needed;
    if (with_diff[entry.inputs[i]]) src_with_diff += needed;
  }
  for (const ParameterPlacement& p : geometry_.parameters())
    if (p.layer == layer) parameters += static_cast<double>(p.slice_volume(part_)) * sizeof(float);
  const double dst = bytes(layer + 1, boxes.dst_produced.volume());
  const bool over_input = entry.layer->splits_over_input();
  const Box& share = over_input ? boxes.src_needed[0] : boxes.dst_produced;
  const Shape& whole = over_input ? placement.src_shapes[0] : geometry_.tensors()[layer + 1].shape;
  const double flops = static_cast<double>(entry.layer->forward_flops(placement.src_shapes)) *
                       static_cast<double>(batch_) * static_cast<double>(share.volume()) /
                       static_cast<double>(whole.volume());
  entries_.push_back({{Phase::kForward, entry.name}, {flops, src + dst + parameters}});
  if (src_with_diff > 0)
    entries_.push_back(
        {{Phase::kBackwardData, entry.name}, {flops, dst + src_with_diff + parameters}});
  if (parameters > 0)
    entries_.push_back({{Phase::kBackwardParameters, entry.name}, {flops, src + dst + parameters}});
}

}  // namespace halomesh
