// SPDX-License-Identifier: Apache-2.0
// Layers that only take time: see timed_layer.hpp.
#include "src/nn/timed_layer.hpp"

#include <algorithm>
#include <utility>

#include "src/nn/kernel_case.hpp"

namespace halomesh {
namespace {

constexpr std::array kPasses = {KernelPass::kForward, KernelPass::kBackwardData,
                                KernelPass::kBackwardParameters};

const char* name_of(KernelTime::Source source) {
  switch (source) {
    case KernelTime::Source::kMeasured:
      return "measured";
    case KernelTime::Source::kInterpolated:
      return "interpolated";
    case KernelTime::Source::kRoofline:
      break;
  }
  return "roofline";
}

}  // namespace

TimedLayer::TimedLayer(std::unique_ptr<Layer> layer, const LayerTiming& timing)
    : layer_(std::move(layer)), timing_(timing) {
  require(timing.poll_s > 0, text("layers that poll every {:g} s", timing.poll_s),
          "give the machine a positive poll_s");
}

void TimedLayer::prepare(const LayerContext& context, std::vector<ParameterView> /*parameters*/) {
  for (const KernelPass pass : kPasses)
    times_[static_cast<std::size_t>(pass)] =
        timing_.table.time(kernel_case(*layer_, pass, context.src_shapes, context.boxes,
                                       context.src_types, context.batch, timing_.threads));
  produced_ = static_cast<double>(context.boxes.dst_produced.volume());
  diffs_ = static_cast<double>(
      std::count(context.src_diff_wanted.begin(), context.src_diff_wanted.end(), true));
  if (diffs_ == 0) times_[static_cast<std::size_t>(KernelPass::kBackwardData)] = {};
  if (context.training && layer_->samples_together() > context.batch)
    shared_.resize(static_cast<std::size_t>(context.boxes.dst_produced.volume()));
}

void TimedLayer::spend(const Pass& pass, double seconds) const {
  while (seconds > 0) {
    // Interruptions count as computation, because kernels were interrupted as well when they were
    // timed.
    seconds -= timing_.clock.spend(std::min(seconds, timing_.poll_s));
    pass.progress();
  }
}

void TimedLayer::sum_over_replicas(const Pass& pass) {
  if (!shared_.empty() && pass.training && pass.sum_replicas != nullptr)
    (*pass.sum_replicas)(shared_);
}

void TimedLayer::forward(const Pass& pass, std::span<const AnyConstView> /*src*/, AnyView /*dst*/,
                         const Box& chunk) {
  sum_over_replicas(pass);
  spend(pass, time(KernelPass::kForward).seconds * static_cast<double>(chunk.volume()) / produced_);
}

void TimedLayer::backward_data(const Pass& pass, const ForwardValues& /*values*/,
                               AnyConstView /*diff_dst*/, std::size_t /*input*/,
                               AnyView /*diff_src*/) {
  sum_over_replicas(pass);
  spend(pass, time(KernelPass::kBackwardData).seconds / diffs_);
}

void TimedLayer::backward_parameters(const Pass& pass, std::span<const AnyConstView> /*src*/,
                                     AnyConstView /*diff_dst*/) {
  spend(pass, time(KernelPass::kBackwardParameters).seconds);
}

std::vector<std::string> TimedLayer::implementations() const {
  std::vector<std::string> lines;
  for (const KernelPass pass : kPasses)
    if (time(pass).seconds > 0)
      lines.push_back(fmt::format("{} {:.4g} ms {}", halomesh::name_of(pass),
                                  1e3 * time(pass).seconds, name_of(time(pass).source)));
  return lines;
}

void time_layers(Model& model, const LayerTiming& timing) {
  model.decorate([&](std::unique_ptr<Layer> layer) {
    return std::make_unique<TimedLayer>(std::move(layer), timing);
  });
}

}  // namespace halomesh
