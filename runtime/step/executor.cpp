// SPDX-License-Identifier: Apache-2.0
// Runs a network on one rank of a group: see executor.hpp.
#include "runtime/step/executor.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "error.hpp"
#include "narrow.hpp"
#include "runtime/posix/memory_needs.hpp"
#include "simulation.hpp"
#include "src/nn/first_touch.hpp"
#include "src/nn/pack.hpp"

namespace halomesh {
namespace {

using Exchanged = StepExchange::Kind;

// The phases of starting an exchange and of waiting for it.
std::pair<Phase, Phase> phases_of(Exchanged kind) {
  switch (kind) {
    case Exchanged::kHalo:
    case Exchanged::kHaloAgain:
      return {Phase::kHaloPack, Phase::kHaloWait};
    case Exchanged::kPartialSums:
      return {Phase::kPartialSumPack, Phase::kPartialSumWait};
    default:
      return {Phase::kHaloGradientPack, Phase::kHaloGradientWait};
  }
}

}  // namespace

Executor::Executor(const Comm& group, Model& model, const ModelGeometry& geometry,
                   Parameters& parameters, std::int64_t batch, bool training, Trace* trace,
                   MemoryUse use)
    : comm_(group.dup()),
      model_(model),
      geometry_(geometry),
      part_(static_cast<std::size_t>(group.rank())),
      trace_(trace) {
  const HaloRounds rounds = halo_rounds(model_, geometry_, group.rank());
  graph_ = step_graph(model_, geometry_, rounds, part_, batch, training, use);
  memory_ = plan_step_memory(graph_);
  make_arena();
  make_tensors(batch);
  make_layers(parameters, batch, training);
  make_exchanges(rounds);
  train_from(0);
}

// Touches each page on the thread that computes on the largest tensor there, so that the page lies
// near it.
void Executor::make_arena() {
  *arena_ = made_in_memory("the step of a part", memory_.bytes,
                           [&] { return AlignedBuffer<std::byte>::untouched(memory_.bytes); });
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

void Executor::send_with_layers() {
  graph_.send_with_layers();
  memory_ = plan_step_memory(graph_);
  train_from(0);
}

void Executor::train_from(std::size_t first) {
  events_ =
      events_from(first, tensors_with_diff(model_, geometry_, first), graph_, memory_.program);
  const auto loss = std::find_if(events_.begin(), events_.end(), [](const StepEvent& event) {
    return event.kind == StepEvent::Kind::kLoss;
  });
  loss_ = static_cast<std::size_t>(loss - events_.begin());
}

void Executor::make_tensors(std::int64_t batch) {
  const std::vector<DataType> types = model_.types();
  tensors_.resize(types.size());
  // Tensor 0 belongs to the caller: it arrives with its halo, and its gradient is not needed.
  for (std::size_t t = 1; t < tensors_.size(); ++t) {
    const Box& span = geometry_.tensors()[t].span[part_];
    const auto view = [&](std::int64_t offset) {
      if (offset < 0) return AnyView();
      return AnyView(span.empty() ? nullptr : arena_->data() + offset, types[t], span, batch);
    };
    EdgeTensor& tensor = tensors_[t];
    tensor.value = tensor.now = view(memory_.value[t]);
    tensor.again = view(memory_.again[t]);
    tensor.diff = view(memory_.diff[t]);
  }
}

void Executor::make_layers(Parameters& parameters, std::int64_t batch, bool training) {
  src_.resize(model_.layers().size());
  const Scratch scratch;
  for (std::size_t l = 0; l < src_.size(); ++l) {
    for (const std::size_t t : model_.layers()[l].inputs) src_[l].push_back(tensors_[t].value);
    if (!is_active(l)) continue;
    LayerContext context = layer_context(model_, geometry_, l, part_, batch, training);
    context.scratch = scratch;
    model_.layers()[l].layer->prepare(context, parameters.views(l));
  }
}

void Executor::make_exchanges(const HaloRounds& rounds) {
  for (const StepExchange& exchange : memory_.program.exchanges) {
    const auto [pack, wait] = phases_of(exchange.kind);
    exchanges_.emplace_back(
        comm_, narrow<int>(exchanges_.size()), plan_of(exchange, geometry_, rounds, comm_.rank()),
        combine_of(exchange, geometry_), view_of(exchange),
        ExchangeTrace{trace_, pack, wait, geometry_.tensors()[exchange.tensor].name});
  }
  nearby_.resize(src_.size());
  for (std::size_t l = 0; l < nearby_.size(); ++l) {
    const auto add = [&](std::size_t tensor, std::initializer_list<Exchanged> kinds) {
      for (std::size_t e = 0; e < exchanges_.size(); ++e) {
        const StepExchange& exchange = memory_.program.exchanges[e];
        if (exchange.tensor == tensor &&
            std::find(kinds.begin(), kinds.end(), exchange.kind) != kinds.end())
          nearby_[l].push_back(e);
      }
    };
    for (const std::size_t t : model_.layers()[l].inputs)
      add(t, {Exchanged::kHalo, Exchanged::kReturnDiff});
    add(l + 1, {Exchanged::kHalo, Exchanged::kGatherDiff, Exchanged::kGatherState});
  }
}

// The values that an exchange reads and writes on this part.
AnyView Executor::view_of(const StepExchange& exchange) {
  const EdgeTensor& tensor = tensors_[exchange.tensor];
  const std::size_t producer = exchange.tensor - 1;
  switch (exchange.kind) {
    case Exchanged::kHalo:
    case Exchanged::kPartialSums:
      return tensor.value;
    case Exchanged::kHaloAgain:
      return tensor.again;
    case Exchanged::kGatherState:
      return is_active(producer) ? model_.layers()[producer].layer->backward_state() : AnyView{};
    default:
      return tensor.diff;
  }
}

const Box& Executor::input_span() const { return geometry_.tensors()[0].span[part_]; }

const Shape& Executor::output_shape() const { return geometry_.tensors().back().shape; }
ConstView Executor::output() const {
  if (geometry_.tensors().back().owned[part_].empty()) return {};
  return tensors_.back().value.as<float>();
}
std::int64_t Executor::output_owners() const {
  const Partition& owned = geometry_.tensors().back().owned;
  return std::count_if(owned.begin(), owned.end(), [](const Box& box) { return !box.empty(); });
}
View Executor::output_diff() { return tensors_.back().diff.as<float>(); }

void Executor::set_input(AnyConstView input) {
  if (input.type != model_.input_type())
    throw Error(fmt::format("the input is {}, but the network reads {}", name_of(input.type),
                            name_of(model_.input_type())));
  for (std::size_t l = 0; l < src_.size(); ++l)
    for (std::size_t i = 0; i < src_[l].size(); ++i)
      if (model_.layers()[l].inputs[i] == 0) src_[l][i] = input;
}

// Makes `values` the place of tensor t's values from now on.
void Executor::move_values(std::size_t t, AnyView values) {
  tensors_[t].now = values;
  for (const std::size_t l : geometry_.tensors()[t].consumers)
    for (std::size_t i = 0; i < src_[l].size(); ++i)
      if (model_.layers()[l].inputs[i] == t) src_[l][i] = values;
}

void Executor::load_parameters() {
  for (std::size_t l = 0; l < src_.size(); ++l) {
    if (!is_active(l)) continue;
    const TraceScope scope(trace_, Phase::kLoadParameters, model_.layers()[l].name);
    model_.layers()[l].layer->load_parameters();
  }
  loaded_ = true;
}

void Executor::forward(const Pass& pass, AnyConstView input) {
  if (!loaded_) throw Error("forward() before load_parameters()");
  set_input(input);
  for (std::size_t t = 1; t < tensors_.size(); ++t)
    if (memory_.again[t] >= 0) move_values(t, tensors_[t].value);
  for (std::size_t e = 0; e < loss_; ++e) run(pass, events_[e], nullptr);
}

void Executor::backward(const Pass& pass, AnyConstView input, GradientReducer& reducer) {
  set_input(input);
  reducer.begin();
  for (std::size_t e = loss_ + 1; e < events_.size(); ++e) run(pass, events_[e], &reducer);
}

void Executor::run(const Pass& pass, const StepEvent& event, GradientReducer* reducer) {
  using Kind = StepEvent::Kind;
  const std::size_t l = event.layer;
  if (event.kind != Kind::kCompleted && event.kind != Kind::kPoll) layer_ = event.during;
  const EdgeTensor& dst = tensors_[l + 1];
  switch (event.kind) {
    case Kind::kForward:
      if (is_active(l)) compute(pass, l, graph_.layers[l].chunks[event.number].dst, dst.value);
      break;
    case Kind::kBackwardData:
      return backward_data(pass, event);
    case Kind::kBackwardParameters:
      return backward_parameters(pass, l);
    case Kind::kAgain:
      return compute_again(pass, event);
    case Kind::kClearSums:
      return clear(dst.value, geometry_.tensors()[l + 1].owned[part_]);
    case Kind::kClearDiff:
      return clear(dst.diff, dst.diff.span);
    case Kind::kStart:
      return exchanges_[event.number]->start();
    case Kind::kFinish:
      return exchanges_[event.number]->finish();
    case Kind::kCompleted:
      return reducer->completed(l);
    case Kind::kPoll:
      return pass.progress();
    case Kind::kReplicaSums:  // the layer's own pass does it
    case Kind::kLoss:
      break;
  }
}

void Executor::progress() {
  for (const std::size_t e : nearby_[layer_]) exchanges_[e]->progress();
}

void Executor::compute(const Pass& pass, std::size_t l, const Box& chunk, AnyView dst) {
  const TraceScope scope(trace_, Phase::kForward, model_.layers()[l].name);
  model_.layers()[l].layer->forward(pass, src_[l], dst, chunk);
}

void Executor::backward_data(const Pass& pass, const StepEvent& event) {
  const std::size_t l = event.layer;
  const ModelLayer& entry = model_.layers()[l];
  const TraceScope scope(trace_, Phase::kBackwardData, entry.name);
  const EdgeTensor &src = tensors_[entry.inputs[event.input]], &dst = tensors_[l + 1];
  if (event.clears_diff) clear(src.diff, src.diff.span);
  if (!is_active(l)) return;
  const ForwardValues values{src_[l], dst.now};
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

void Executor::backward_parameters(const Pass& pass, std::size_t l) {
  if (!is_active(l)) return;
  const TraceScope scope(trace_, Phase::kBackwardParameters, model_.layers()[l].name);
  model_.layers()[l].layer->backward_parameters(pass, src_[l], tensors_[l + 1].diff);
}

void Executor::compute_again(const Pass& pass, const StepEvent& event) {
  const std::size_t l = event.layer;
  const LayerPlacement& placement = geometry_.layers()[l];
  const AnyView dst = tensors_[l + 1].again;
  if (event.first) move_values(l + 1, dst);
  if (event.first && event.last)
    for (const Chunk& chunk : graph_.layers[l].chunks) compute(pass, l, chunk.dst, dst);
  else if (is_active(l))
    compute(pass, l, block_of_input(placement, placement.boxes[part_].dst_produced, event.input),
            dst);
}

void Executor::exchange_all() {
  for (const StepEvent& event : memory_.program.events) {
    if (event.kind == StepEvent::Kind::kStart) exchanges_[event.number]->start();
    if (event.kind == StepEvent::Kind::kFinish) exchanges_[event.number]->finish();
  }
}

HaloCounts Executor::halo_counts() const {
  HaloCounts sums;
  for (const InFlight<Exchange>& exchange : exchanges_) {
    sums.sent_bytes += exchange->counts().sent_bytes;
    sums.received_bytes += exchange->counts().received_bytes;
    sums.messages += exchange->counts().messages;
  }
  return sums;
}

std::int64_t Executor::received_bytes(Phase phase) const {
  std::int64_t bytes = 0;
  for (const InFlight<Exchange>& exchange : exchanges_)
    if (exchange->phase() == phase) bytes += exchange->received_bytes();
  return bytes;
}

std::vector<std::string> Executor::implementations() const {
  std::vector<std::string> lines;
  for (std::size_t l = 0; l < src_.size(); ++l)
    for (const std::string& text : model_.layers()[l].layer->implementations())
      lines.push_back(model_.layers()[l].name + ": " + text);
  return lines;
}

}  // namespace halomesh
