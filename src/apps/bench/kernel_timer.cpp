// SPDX-License-Identifier: Apache-2.0
// One layer alone on this rank: see kernel_timer.hpp.
#include "src/apps/bench/kernel_timer.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "rng.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/nn/model_on_part.hpp"
#include "src/nn/parameters.hpp"

namespace halomesh {
namespace {

constexpr std::size_t kMostSteps = 25;

// Evicts data from the caches. In a step, the weights of a layer and large tensors have left the
// caches since the layer's last pass; small repeated parts would find all of them there.
void sweep_caches() {
  static const std::vector<float> kMemory(std::size_t{16} << 20, 1.0F);  // 64 MiB
  constexpr std::size_t kLine = 16;
  float sum = 0;
  for (std::size_t i = 0; i < kMemory.size(); i += kLine) sum += kMemory[i];
  volatile float kept = sum;  // keeps the compiler from removing the loop
  static_cast<void>(kept);
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Values in [-1, 1), or counts from 0 to 3.
void fill_random(const AnyView& view, std::uint32_t stream) {
  const CounterRng rng(1, RandomUse::kSynth, stream);
  const std::int64_t volume = view.span.volume() * view.batch;
  for (std::int64_t i = 0; i < volume; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    const auto value = [&] { return 2 * rng.uniform(index) - 1; };
    if (view.type == DataType::kFloat32)
      view.as<float>().data[i] = value();
    else if (view.type == DataType::kBfloat16)
      view.as<Bfloat16>().data[i] = Bfloat16(value());
    else if (view.type == DataType::kFloat64)
      view.as<double>().data[i] = static_cast<double>(value());
    else
      view.as<std::int16_t>().data[i] = static_cast<std::int16_t>(2 * value() + 2);
  }
}

/// One layer in a network of its own with its tensors, prepared as the executor of a training step
/// does.
class LayerAlone {
 public:
  LayerAlone(const LayerCase& one, const Options& options, DataType precision);

  /// Runs a pass and returns its seconds.
  double run(KernelPass pass);
  std::int64_t polls() const { return polls_; }

 private:
  void forward();
  void backward_data();

  Model model_;
  ModelGeometry geometry_;
  Parameters parameters_;
  Layer& layer_;
  std::vector<Box> dst_chunks_;
  std::vector<Tensor> src_, diff_src_;
  std::vector<bool> diff_wanted_;
  Tensor dst_, diff_dst_;
  std::vector<AnyConstView> src_views_;
  std::int64_t polls_ = 0;
  std::function<void()> poll_ = [this] { ++polls_; };
  Pass pass_;
};

LayerAlone::LayerAlone(const LayerCase& one, const Options& options, DataType precision)
    : model_(make_model(options, precision)),
      geometry_(model_.geometry(one.parts)),
      parameters_(geometry_, one.part),
      layer_(*model_.layers()[one.layer].layer) {
  pass_.training = true;
  pass_.poll = &poll_;
  parameters_.initialize(1);
  const auto part = static_cast<std::size_t>(one.part);
  const LayerContext prepared =
      layer_context(model_, geometry_, one.layer, part, one.passes.front().batch, pass_.training);
  dst_chunks_ = prepared.dst_chunks;
  diff_wanted_ = prepared.src_diff_wanted;
  layer_.prepare(prepared, parameters_.views(one.layer));
  std::uint32_t stream = 0;
  for (std::size_t i = 0; i < prepared.src_spans.size(); ++i) {
    src_.emplace_back(prepared.src_spans[i], prepared.batch, prepared.src_types[i]);
    fill_random(src_.back().any_view(), stream++);
    diff_src_.emplace_back(diff_wanted_[i] ? prepared.src_spans[i] : Box{}, prepared.batch,
                           prepared.src_types[i]);
    src_views_.push_back(src_.back().any_view());
  }
  dst_ = Tensor(prepared.dst_span, prepared.batch, prepared.dst_type);
  diff_dst_ = Tensor(prepared.dst_span, prepared.batch, prepared.dst_type);
  fill_random(diff_dst_.any_view(), stream);
  layer_.load_parameters();
}

void LayerAlone::forward() {
  for (const Box& chunk : dst_chunks_) {
    layer_.forward(pass_, src_views_, dst_.any_view(), chunk);
    ++polls_;
  }
}

void LayerAlone::backward_data() {
  for (std::size_t i = 0; i < src_.size(); ++i)
    if (diff_wanted_[i])
      layer_.backward_data(pass_, {src_views_, dst_.any_view()}, diff_dst_.any_view(), i,
                           diff_src_[i].any_view());
  ++polls_;
}

double LayerAlone::run(KernelPass pass) {
  const double begin = now_s();
  if (pass == KernelPass::kForward) forward();
  if (pass == KernelPass::kBackwardData) backward_data();
  if (pass == KernelPass::kBackwardParameters) {
    layer_.backward_parameters(pass_, src_views_, diff_dst_.any_view());
    ++polls_;
  }
  return now_s() - begin;
}

}  // namespace

void KernelTimes::add_round(const KernelTimes& round) {
  for (std::size_t k = 0; k < round.kernels.size(); ++k)
    if (k == kernels.size())
      kernels.push_back(round.kernels[k]);
    else
      kernels[k].seconds = std::min(kernels[k].seconds, round.kernels[k].seconds);
  computed_s += round.computed_s;
  polls += round.polls;
}

void measure(const LayerCase& one, const Options& options, DataType precision, double seconds,
             KernelTimes& times) {
  LayerAlone layer(one, options, precision);
  for (const KernelCase& call : one.passes) layer.run(call.pass);  // touches memory
  std::vector<std::vector<double>> of_passes(one.passes.size());
  const std::int64_t polls = layer.polls();
  for (double sum = 0; of_passes[0].empty() || (sum < seconds && of_passes[0].size() < kMostSteps);)
    for (std::size_t p = 0; p < one.passes.size(); ++p) {
      const double begin = now_s();
      if (p <= 1) sweep_caches();  // before forward, and before backward
      of_passes[p].push_back(layer.run(one.passes[p].pass));
      sum += now_s() - begin;
      times.computed_s += of_passes[p].back();
    }
  times.polls += layer.polls() - polls;
  for (std::size_t p = 0; p < one.passes.size(); ++p)
    times.kernels.push_back({one.passes[p], std::max(median(of_passes[p]), 1e-9)});
}

}  // namespace halomesh
