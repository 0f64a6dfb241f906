// SPDX-License-Identifier: Apache-2.0
// The gradient with respect to a network's input, which no step computes: a layer in front of it
// that passes its input on and keeps the gradient of its output.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "src/nn/layers/pointwise.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

/// This part's block of the gradient of the last backward pass.
struct ProbedGradient {
  Box box{};
  std::int64_t batch = 0;
  std::vector<float> values{};

  View view() { return {values.data(), box, batch}; }
};

/// The identity, with a parameter without effect: layers with parameters get the gradient.
class GradientProbe final : public Pointwise {
 public:
  explicit GradientProbe(std::shared_ptr<ProbedGradient> kept) : kept_(std::move(kept)) {}

  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override {
    ParameterGeometry unused;
    unused.name = "weight";
    unused.out = src[0].c;
    unused.in = {1, 1, 1, 1};
    return {unused};
  }
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override {
    Pointwise::prepare(context, std::move(parameters));
    kept_->box = context.boxes.dst_produced;
    kept_->batch = context.batch;
    kept_->values.resize(static_cast<std::size_t>(kept_->box.volume() * context.batch));
  }
  void forward(const Pass&, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override {
    copy(src[0].as<float>(), dst.as<float>(), chunk);
  }
  void backward_data(const Pass&, const ForwardValues&, AnyConstView, std::size_t,
                     AnyView) override {}
  void backward_parameters(const Pass&, std::span<const AnyConstView>,
                           AnyConstView diff_dst) override {
    copy(diff_dst.as<float>(), kept_->view(), kept_->box);
  }

 private:
  static void copy(ConstView from, View to, const Box& box) {
    for (std::int64_t n = 0; n < from.batch; ++n)
      for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
        for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
          for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
            for (std::int64_t c = box.lo[kC]; c < box.hi[kC]; ++c)
              to.at(n, c, d, h, w) = from.at(n, c, d, h, w);
  }

  std::shared_ptr<ProbedGradient> kept_;
};

/// The network behind a probe: its layer number l is now number l + 1.
inline Model with_probe(Model model, std::shared_ptr<ProbedGradient> kept) {
  std::vector<std::unique_ptr<Layer>> layers;
  model.decorate([&](std::unique_ptr<Layer> layer) {
    layers.push_back(std::move(layer));
    return std::unique_ptr<Layer>();
  });
  Model probed(model.input(), model.input_type());
  probed.add("probe", std::make_unique<GradientProbe>(std::move(kept)));
  for (std::size_t l = 0; l < layers.size(); ++l) {
    std::vector<std::size_t> inputs = model.layers()[l].inputs;
    for (std::size_t& input : inputs) ++input;
    probed.add(model.layers()[l].name, std::move(layers[l]), inputs);
  }
  return probed;
}

}  // namespace halomesh
