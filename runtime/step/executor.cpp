// SPDX-License-Identifier: Apache-2.0
// Runs a network on one rank of a group: see executor.hpp.
#include "runtime/step/executor.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "error.hpp"
#include "narrow.hpp"
#include "simulation.hpp"
#include "src/nn/first_touch.hpp"
#include "src/nn/model_on_part.hpp"
#include "src/nn/pack.hpp"

namespace halomesh {
namespace {

constexpr std::size_t kAllStages = std::numeric_limits<std::size_t>::max();

}  // namespace

Executor::Executor(const Comm& group, Model& model, const ModelGeometry& geometry,
                   Parameters& parameters, std::int64_t batch, bool training, Trace* trace,
                   MemoryUse use)
    : comm_(group.dup()),
      model_(model),
      geometry_(geometry),
      part_(static_cast<std::size_t>(group.rank())),
      trace_(trace) {
  memory_ = plan_step_memory(step_graph(model_, geometry_, part_, batch, training, use));
  make_arena();
  make_tensors(batch);
  make_layers(parameters, batch, training);
  train_from(0);
}

// Touches each page on the thread that computes on the largest tensor there, so that the page lies
// near it.
void Executor::make_arena() {
  *arena_ = AlignedBuffer<std::byte>::untouched(memory_.bytes);
  // Simulated ranks share one arena, and its values are meaningless.
  if constexpr (simulation::kOn) return;
  std::vector<std::size_t> order(memory_.blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return memory_.blocks[a].bytes > memory_.blocks[b].bytes;
  });
  for (const std::size_t i : order)
    clear_by_threads(arena_->data() + memory_.offsets[i],
                     static_cast<std::size_t>(memory_.blocks[i].bytes));
}

void Executor::train_from(std::size_t first) {
  first_trained_ = first;
  wanted_ = tensors_with_diff(model_, geometry_, first);
}

void Executor::make_tensors(std::int64_t batch) {
  const std::vector<DataType> types = model_.types();
  tensors_.resize(types.size());
  // Tensor 0 belongs to the caller: it arrives with its halo, and its gradient is not needed.
  for (std::size_t t = 1; t < tensors_.size(); ++t) {
    const TensorGeometry& g = geometry_.tensors()[t];
    EdgeTensor& tensor = *tensors_[t];
    const auto view = [&](std::int64_t offset) {
      std::byte* const data = g.span[part_].empty() ? nullptr : arena_->data() + offset;
      return AnyView(data, types[t], g.span[part_], batch);
    };
    tensor.value = tensor.now = view(memory_.value[t]);
    if (memory_.again[t] >= 0) {
      tensor.again = view(memory_.again[t]);
      tensor.distribute_again = make_exchange(t, g.distribute, Combine::kCopy, tensor.again,
                                              Phase::kHaloPack, Phase::kHaloWait);
    }
    const std::vector<TransferPlan> rounds = rounds_of(model_, geometry_, t);
    for (const TransferPlan& round : rounds)
      tensor.distribute.push_back(make_exchange(t, round, Combine::kCopy, tensor.value,
                                                Phase::kHaloPack, Phase::kHaloWait));
    tensor.chunks_before_sends = chunks_before_sends(
        rounds, chunks_of(model_, geometry_, t - 1, part_), narrow<std::int64_t>(part_));
    tensor.sum_partials = make_exchange(t, g.broadcast.reversed(), Combine::kAdd, tensor.value,
                                        Phase::kPartialSumPack, Phase::kPartialSumWait);
    if (memory_.diff[t] < 0) continue;
    tensor.diff = view(memory_.diff[t]);
    tensor.clear_diff = !g.gradient_starts_whole[part_];
    const auto exchange = [&](const TransferPlan& plan, Combine combine) {
      return make_exchange(t, plan, combine, tensor.diff, Phase::kHaloGradientPack,
                           Phase::kHaloGradientWait);
    };
    tensor.return_halo = g.whole_diffs ? exchange(g.return_diff, Combine::kCopy)
                                       : exchange(g.distribute.reversed(), Combine::kAdd);
    tensor.broadcast_diff = exchange(g.broadcast, Combine::kCopy);
  }
}

std::unique_ptr<Exchange> Executor::make_exchange(std::size_t t, const TransferPlan& plan,
                                                  Combine combine, AnyView view, Phase pack,
                                                  Phase wait) {
  return std::make_unique<Exchange>(comm_, next_tag_++, plan, combine, view,
                                    ExchangeTrace{trace_, pack, wait, geometry_.tensors()[t].name});
}

void Executor::make_layers(Parameters& parameters, std::int64_t batch, bool training) {
  states_.resize(model_.layers().size());
  const Scratch scratch;
  for (std::size_t l = 0; l < states_.size(); ++l) {
    LayerState& state = states_[l];
    for (const std::size_t i : model_.layers()[l].inputs) state.src.push_back(tensors_[i]->value);
    state.chunks = chunks_of(model_, geometry_, l, part_);
    state.active = !state.chunks.empty();
    if (state.active) {
      LayerContext context = layer_context(model_, geometry_, l, part_, batch, training);
      context.scratch = scratch;
      model_.layers()[l].layer->prepare(context, parameters.views(l));
    }
    if (!training || !model_.layers()[l].layer->has_whole_gradients()) continue;
    EdgeTensor& dst = *tensors_[l + 1];
    const auto gather = [&](AnyView view) {
      return make_exchange(l + 1, geometry_.tensors()[l + 1].gather_diff, Combine::kCopy, view,
                           Phase::kHaloGradientPack, Phase::kHaloGradientWait);
    };
    dst.gather_diff = gather(dst.diff);
    dst.gather_state =
        gather(state.active ? model_.layers()[l].layer->backward_state() : AnyView{});
  }
}

const Box& Executor::input_span() const { return geometry_.tensors()[0].span[part_]; }

const Shape& Executor::output_shape() const { return geometry_.tensors().back().shape; }
ConstView Executor::output() const {
  if (geometry_.tensors().back().owned[part_].empty()) return {};
  return tensors_.back()->value.as<float>();
}
std::int64_t Executor::output_owners() const {
  const Partition& owned = geometry_.tensors().back().owned;
  return std::count_if(owned.begin(), owned.end(), [](const Box& box) { return !box.empty(); });
}
View Executor::output_diff() { return tensors_.back()->diff.as<float>(); }

void Executor::set_input(AnyConstView input) {
  if (input.type != model_.input_type())
    throw Error(fmt::format("the input is {}, but the network reads {}", name_of(input.type),
                            name_of(model_.input_type())));
  for (std::size_t l = 0; l < states_.size(); ++l)
    for (std::size_t i = 0; i < states_[l].src.size(); ++i)
      if (model_.layers()[l].inputs[i] == 0) states_[l].src[i] = input;
}

void Executor::compute(const Pass& pass, std::size_t layer, const Chunk& chunk, AnyView dst) {
  const TraceScope scope(trace_, Phase::kForward, model_.layers()[layer].name);
  model_.layers()[layer].layer->forward(pass, states_[layer].src, dst, chunk.dst);
}

// Makes `values` the place of tensor t's values from now on.
void Executor::move_values(std::size_t t, AnyView values) {
  tensors_[t]->now = values;
  for (const std::size_t l : geometry_.tensors()[t].consumers)
    for (std::size_t i = 0; i < states_[l].src.size(); ++i)
      if (model_.layers()[l].inputs[i] == t) states_[l].src[i] = values;
}

// Clears the elements to which other parts add and which this part does not produce.
void Executor::clear_sums(std::size_t t) {
  const TensorGeometry& g = geometry_.tensors()[t];
  if (g.partial_sums && !g.produced[part_].contains(g.owned[part_]))
    clear(tensors_[t]->value, g.owned[part_]);
}

void Executor::publish(std::size_t t) {
  EdgeTensor& tensor = *tensors_[t];
  tensor.sum_partials->start();
  tensor.sum_partials->finish();
  for (const auto& round : tensor.distribute)
    if (!round->started()) round->start();
}

// Starts the rounds whose last chunk is number `computed`. They travel while the remaining chunks
// are computed; for cuts along h or w, where no plane is free of remote data, nothing else hides
// them. Sums over parts are complete only with the whole layer.
void Executor::start_rounds(std::size_t t, std::size_t computed) {
  if (sending_ == Sending::kWithLayer || geometry_.tensors()[t].partial_sums) return;
  EdgeTensor& tensor = *tensors_[t];
  for (std::size_t k = 0; k < tensor.distribute.size(); ++k)
    if (tensor.chunks_before_sends[k] == computed) tensor.distribute[k]->start();
}

// Waits for the first `rounds` rounds of the halos of a layer's inputs.
void Executor::await_inputs(const std::vector<std::size_t>& inputs, std::size_t rounds) {
  for (std::size_t i : inputs) {
    if (i == 0) continue;
    auto& distribute = tensors_[i]->distribute;
    for (std::size_t k = 0; k < std::min(rounds, distribute.size()); ++k) distribute[k]->finish();
  }
}

void Executor::load_parameters() {
  for (std::size_t l = 0; l < states_.size(); ++l) {
    if (!states_[l].active) continue;
    const TraceScope scope(trace_, Phase::kLoadParameters, model_.layers()[l].name);
    model_.layers()[l].layer->load_parameters();
  }
  loaded_ = true;
}

void Executor::forward(const Pass& pass, AnyConstView input) {
  if (!loaded_) throw Error("forward() before load_parameters()");
  set_input(input);
  for (std::size_t t = 1; t < tensors_.size(); ++t)
    if (tensors_[t]->distribute_again) move_values(t, tensors_[t]->value);
  for (std::size_t l = 0; l < states_.size(); ++l) {
    const ModelLayer& entry = model_.layers()[l];
    const LayerState& state = states_[l];
    layer_ = l;
    std::size_t rounds = 0, computed = 0;
    clear_sums(l + 1);
    start_rounds(l + 1, computed);             // sends nothing, but receives early
    for (const Chunk& chunk : state.chunks) {  // in Model::chunk_order()
      if (chunk.needs_remote) await_inputs(entry.inputs, ++rounds);
      compute(pass, l, chunk, tensors_[l + 1]->value);
      start_rounds(l + 1, ++computed);
      pass.progress();
    }
    await_inputs(entry.inputs, kAllStages);
    publish(l + 1);
    pass.progress();
  }
  for (const auto& round : tensors_.back()->distribute) round->finish();
}

void Executor::progress() {
  for (const std::size_t i : model_.layers()[layer_].inputs) {
    const EdgeTensor& tensor = *tensors_[i];
    for (const auto& round : tensor.distribute) round->progress();
    if (tensor.return_halo) tensor.return_halo->progress();
  }
  const EdgeTensor& dst = *tensors_[layer_ + 1];
  for (const auto& round : dst.distribute) round->progress();
  if (dst.gather_diff) dst.gather_diff->progress();
  if (dst.gather_state) dst.gather_state->progress();
}

void Executor::settle_diff(std::size_t t) {
  EdgeTensor& tensor = *tensors_[t];
  tensor.return_halo->finish();
  tensor.broadcast_diff->start();
  tensor.broadcast_diff->finish();
}

void Executor::backward_data(const Pass& pass, const StepEvent& event) {
  const std::size_t l = event.layer;
  const ModelLayer& entry = model_.layers()[l];
  const std::size_t t = entry.inputs[event.input];
  if (!wanted_[t]) return;
  const TraceScope scope(trace_, Phase::kBackwardData, entry.name);
  EdgeTensor &src = *tensors_[t], &dst = *tensors_[l + 1];
  if (event.first && src.clear_diff) clear(src.diff, src.diff.span);
  if (states_[l].active) {
    const ForwardValues values{states_[l].src, dst.now};
    if (event.first) {
      entry.layer->backward_data(pass, values, dst.diff, event.input, src.diff);
    } else if (event.extra < 0) {
      entry.layer->add_backward_data(pass, values, dst.diff, event.input, src.diff);
    } else {
      AnyView extra = src.diff;
      extra.data = arena_->data() + event.extra;
      entry.layer->backward_data(pass, values, dst.diff, event.input, extra);
      add_box(extra, geometry_.layers()[l].boxes[part_].src_needed[event.input], src.diff);
    }
  }
  if (event.last) src.return_halo->start();
}

void Executor::backward_parameters(const Pass& pass, std::size_t l) {
  if (!states_[l].active) return;
  const TraceScope scope(trace_, Phase::kBackwardParameters, model_.layers()[l].name);
  model_.layers()[l].layer->backward_parameters(pass, states_[l].src, tensors_[l + 1]->diff);
}

void Executor::compute_again(const Pass& pass, const StepEvent& event) {
  const std::size_t l = event.layer;
  const bool whole = event.first && event.last;
  const LayerPlacement& placement = geometry_.layers()[l];
  EdgeTensor& dst = *tensors_[l + 1];
  if (event.first) move_values(l + 1, dst.again);
  if (whole)
    for (const Chunk& chunk : states_[l].chunks) compute(pass, l, chunk, dst.again);
  else if (states_[l].active)
    compute(pass, l,
            {block_of_input(placement, placement.boxes[part_].dst_produced, event.input), false},
            dst.again);
  if (!event.last) return;
  dst.distribute_again->start();
  dst.distribute_again->finish();
}

void Executor::backward_layer(const Pass& pass, std::size_t l, std::span<const StepEvent> events) {
  layer_ = l;
  EdgeTensor& dst = *tensors_[l + 1];
  if (geometry_.tensors()[l + 1].consumers.empty() && l + 1 < states_.size())
    clear(dst.diff, dst.diff.span);  // neither an input of a layer nor the output
  settle_diff(l + 1);
  // Parts that gather gradients compute those of parameters first, which need none of the data in
  // transit.
  const bool gathers = dst.gather_diff != nullptr;
  if (gathers) {
    dst.gather_diff->start();
    dst.gather_state->start();
  }
  for (const StepEvent& event : events) {
    if (event.kind == StepEvent::Kind::kAgain) compute_again(pass, event);
    if (event.kind == StepEvent::Kind::kBackwardParameters) backward_parameters(pass, l);
    if (event.kind != StepEvent::Kind::kBackwardData) continue;
    if (gathers) {
      dst.gather_diff->finish();
      dst.gather_state->finish();
    }
    backward_data(pass, event);
  }
  if (gathers) {  // still pending if no input has a gradient
    dst.gather_diff->finish();
    dst.gather_state->finish();
  }
}

void Executor::backward(const Pass& pass, AnyConstView input, GradientReducer& reducer) {
  set_input(input);
  reducer.begin();
  const std::span<const StepEvent> events = memory_.events;
  std::size_t begin = states_.size() + 1;  // after the forward passes and the loss
  for (std::size_t l = states_.size(); l-- > 0;) {
    std::size_t end = begin;
    while (end < events.size() && events[end].during == l) ++end;
    const auto of_layer = events.subspan(begin, end - begin);
    if (wanted_[l + 1]) {
      backward_layer(pass, l, of_layer);
    } else if (l >= first_trained_) {  // the next layers may read the recomputed output
      for (const StepEvent& event : of_layer)
        if (event.kind == StepEvent::Kind::kAgain) compute_again(pass, event);
    }
    begin = end;
    reducer.completed(l);
    pass.progress();
  }
}

void Executor::exchange_all() {
  const auto run = [](const std::unique_ptr<Exchange>& exchange) {
    if (!exchange) return;
    exchange->start();
    exchange->finish();
  };
  for (InFlight<EdgeTensor>& tensor : tensors_) {
    run(tensor->sum_partials);
    for (const auto& round : tensor->distribute) round->start();
    for (const auto& round : tensor->distribute) round->finish();
    run(tensor->distribute_again);
  }
  for (std::size_t t = tensors_.size(); t-- > 0;) {
    run(tensors_[t]->return_halo);
    run(tensors_[t]->broadcast_diff);
    run(tensors_[t]->gather_diff);
    run(tensors_[t]->gather_state);
  }
}

template <class Visit>
void Executor::for_each_exchange(Visit visit) const {
  const auto visit_one = [&](const std::unique_ptr<Exchange>& exchange) {
    if (exchange) visit(*exchange);
  };
  for (const InFlight<EdgeTensor>& each : tensors_) {
    const EdgeTensor& tensor = *each;
    std::for_each(tensor.distribute.begin(), tensor.distribute.end(), visit_one);
    visit_one(tensor.distribute_again);
    visit_one(tensor.sum_partials);
    visit_one(tensor.return_halo);
    visit_one(tensor.broadcast_diff);
    visit_one(tensor.gather_diff);
    visit_one(tensor.gather_state);
  }
}

HaloCounts Executor::halo_counts() const {
  HaloCounts sums;
  for_each_exchange([&](const Exchange& exchange) {
    sums.sent_bytes += exchange.counts().sent_bytes;
    sums.received_bytes += exchange.counts().received_bytes;
    sums.messages += exchange.counts().messages;
  });
  return sums;
}

std::int64_t Executor::received_bytes(Phase phase) const {
  std::int64_t bytes = 0;
  for_each_exchange([&](const Exchange& exchange) {
    if (exchange.phase() == phase) bytes += exchange.received_bytes();
  });
  return bytes;
}

std::vector<std::string> Executor::implementations() const {
  std::vector<std::string> lines;
  for (std::size_t l = 0; l < states_.size(); ++l)
    for (const std::string& text : model_.layers()[l].layer->implementations())
      lines.push_back(model_.layers()[l].name + ": " + text);
  return lines;
}

}  // namespace halomesh
