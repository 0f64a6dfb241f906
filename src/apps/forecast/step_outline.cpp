// SPDX-License-Identifier: Apache-2.0
// The outline of a step: see step_outline.hpp.
#include "src/apps/forecast/step_outline.hpp"

#include <algorithm>

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
        parts_(as_part(geometry.grid().count())) {}

  StepOutline run() {
    for (std::size_t t = 0; t < geometry_.tensors().size(); ++t)
      outline_.tensors.push_back(of_tensor(t));
    for (std::size_t l = 0; l < model_.layers().size(); ++l) outline_.layers.push_back(of_layer(l));
    return std::move(outline_);
  }

 private:
  TensorOutline of_tensor(std::size_t t) {
    const TensorGeometry& g = geometry_.tensors()[t];
    const Box whole = Box::whole(g.shape);
    TensorOutline outline;
    outline.gathered = g.partial_sums || std::any_of(g.needed.begin(), g.needed.end(),
                                                     [&](const Box& box) { return box == whole; });
    rounds_.push_back(t > 0 ? rounds_of(model_, geometry_, t) : std::vector<TransferPlan>{});
    for (const TransferPlan& round : rounds_.back())
      outline.rounds.push_back(exchange(round, t, false));
    outline.returned = exchange(g.distribute.reversed(), t, true);
    outline.partial_sums = exchange(g.broadcast.reversed(), t, true);
    outline.broadcast = exchange(g.broadcast, t, false);
    return outline;
  }

  // Mirrors Exchange::collect() and assign_memory().
  ExchangeOutline exchange(const TransferPlan& plan, std::size_t tensor, bool adds) {
    ExchangeOutline exchange;
    if (plan.empty()) return exchange;
    exchange.number = outline_.exchanges++;
    exchange.sent.resize(parts_);
    exchange.received.resize(parts_);
    const std::vector<Box>& span = geometry_.tensors()[tensor].span;
    const auto dense = [&](std::int64_t part, const Box& box) {
      return batch_ == 1 && TensorView<char>{nullptr, span[as_part(part)], batch_}.is_dense(box);
    };
    const auto& transfers = plan.transfers();
    for (std::size_t i = 0; i < transfers.size();) {
      const std::size_t first = i;
      const std::int64_t from = transfers[i].src, to = transfers[i].dst;
      std::int64_t volume = 0;
      for (; i < transfers.size() && transfers[i].src == from && transfers[i].dst == to; ++i)
        volume += transfers[i].box.volume();
      const auto bytes = static_cast<double>(volume * batch_ * size_of(types_[tensor]));
      const bool single = i == first + 1;
      const Box& box = transfers[first].box;
      exchange.sent[as_part(from)].push_back(exchange.messages.size());
      exchange.received[as_part(to)].push_back(exchange.messages.size());
      exchange.messages.push_back({from, to, bytes});
      exchange.packed.push_back(single && dense(from, box) ? 0 : bytes);
      exchange.unpacked.push_back(single && !adds && dense(to, box) ? 0 : bytes);
    }
    return exchange;
  }

  LayerOutline of_layer(std::size_t l) const {
    LayerOutline outline;
    for (std::size_t part = 0; part < parts_; ++part) {
      const std::vector<Chunk> chunks = chunks_of(model_, geometry_, l, part);
      const auto produced =
          static_cast<double>(geometry_.layers()[l].boxes[part].dst_produced.volume());
      outline.chunks.emplace_back();
      for (const Chunk& chunk : chunks)
        outline.chunks.back().push_back(
            {static_cast<double>(chunk.dst.volume()) / produced, chunk.needs_remote});
      outline.chunks_before.push_back(
          chunks_before_sends(rounds_[l + 1], chunks, static_cast<std::int64_t>(part)));
    }
    for (std::size_t pass = 0; pass < outline.kernels.size(); ++pass)
      outline.kernels[pass] = kernels_of(l, static_cast<KernelPass>(pass));
    return outline;
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
  std::size_t parts_;
  std::vector<std::vector<TransferPlan>> rounds_;  // by tensor
  StepOutline outline_;
};

}  // namespace

StepOutline step_outline(const Model& model, const ModelGeometry& geometry, std::int64_t batch) {
  return Outliner(model, geometry, batch).run();
}

}  // namespace halomesh
