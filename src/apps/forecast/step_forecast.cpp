// SPDX-License-Identifier: Apache-2.0
// The timeline of one step: see step_forecast.hpp.
#include "src/apps/forecast/step_forecast.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "src/apps/forecast/halo_times.hpp"
#include "src/apps/forecast/sum_timeline.hpp"
#include "src/nn/model_on_part.hpp"

namespace halomesh {
namespace {

enum Spent : std::size_t { kCompute, kHalo, kGather, kReduction, kSpentKinds };

// An exchange in flight: when each message and receive was posted, and how long messages travel.
struct Flight {
  const ExchangeOutline* outline = nullptr;
  const std::vector<double>* travel_s = nullptr;  // by message
  std::vector<double> sent;                       // by message
  std::vector<double> posted;                     // by part: receives; negative before start()
  std::vector<bool> pending;                      // by part: between start() and finish()
  bool empty() const { return outline == nullptr || outline->empty(); }
};

// Shorter messages leave at once; longer ones wait until their receive is posted, too.
constexpr double kEagerBytes = 65536;

class Timeline {
 public:
  Timeline(const Machine& machine, const Model& model, const ModelGeometry& geometry,
           const MeshShape& mesh, std::int64_t batch, const ForecastOptions& options)
      : machine_(machine),
        model_(model),
        geometry_(geometry),
        mesh_(mesh),
        batch_(batch),
        options_(options),
        types_(model.types()),
        parts_(static_cast<std::size_t>(mesh.parts.count())),
        now_(parts_),
        spent_(parts_),
        kernel_s_(parts_),
        distribute_(geometry.tensors().size()),
        returned_(geometry.tensors().size()) {
    network_ = machine.network;
    threads_ = options.threads.value_or(machine.threads());
    shared_cores_ =
        std::max(1.0, network_.ranks_per_node * threads_ / std::max(machine.value("cores"), 1.0));
    // Work of the cores takes longer if ranks share them.
    for (double* const seconds :
         {&network_.within_node.latency_s, &network_.within_node.s_per_byte,
          &network_.copy.core_s_per_byte, &network_.copy.s_per_byte, &network_.add_s_per_byte})
      *seconds *= shared_cores_;
    wanted_ = tensors_with_diff(model_, geometry_);
    const std::int64_t nodes = (mesh.ranks() - 1) / network_.ranks_per_node + 1;
    if (machine.interconnect != Interconnect::kNone && nodes > 1)
      routes_ = Routes(network_shape_of(machine, nodes));
    hop_s_ = routes_.links() > 0 ? machine.value("hop-us") * 1e-6 : 0;
    computed_.assign(parts_, ComputedStretches(network_.poll_s));
    kernel_factor_ = shared_cores_ * machine.kernel_time_factor();
    ForecastCache& cache = options.cache != nullptr ? *options.cache : own_cache_;
    outline_ = &cache.outline(model, geometry, batch);
    traffic_ = &cache.entry(traffic_key());
    traffic_->travel_s.resize(outline_->exchanges);
    sum_routes_ = &cache.routes(mesh.ranks(), network_.ranks_per_node);
  }

  StepForecast run() {
    forward();
    sum_parts_of_loss();
    if (options_.training) {
      backward();
      finish_sums();
      update();
      sum_by_tree(kReduction, static_cast<double>(mesh_.ranks()), 0);  // the loss
    }
    return summary();
  }

 private:
  using Part = std::size_t;
  static Part as_part(std::int64_t part) { return static_cast<Part>(part); }
  void spend(Part part, Spent kind, double seconds) {
    now_[part] += seconds;
    spent_[part][kind] += seconds;
  }
  void wait_until(Part part, Spent kind, double time) {
    spend(part, kind, std::max(0.0, time - now_[part]));
  }

  std::int64_t node_of(std::int64_t part) const { return part / network_.ranks_per_node; }
  // The CPU time of a message at either end.
  double overhead(const HaloMessage& m) const {
    if (node_of(m.from) == node_of(m.to)) return network_.within_node.latency_s / 2;
    return std::max(network_.between_nodes.latency_s - hop_s_, 0.0) / 2;
  }

  double bytes_of(std::size_t tensor, std::int64_t elements) const {
    return static_cast<double>(elements * batch_ * size_of(types_[tensor]));
  }

  Spent kind_of(std::size_t t) const { return outline_->tensors[t].gathered ? kGather : kHalo; }

  Flight flight_of(const ExchangeOutline& exchange) {
    if (exchange.empty()) return {};
    std::vector<double>& travel_s = traffic_->travel_s[exchange.number];
    if (travel_s.empty())
      travel_s =
          travel_seconds({routes_, network_, hop_s_}, mesh_, exchange.messages, halo_routes_);
    return {&exchange, &travel_s, std::vector<double>(exchange.messages.size()),
            std::vector<double>(parts_, -1), std::vector<bool>(parts_)};
  }
  // A key of everything on which routes and travel times depend.
  std::string traffic_key() const {
    std::string key = fmt::format("{} {} {} {} {}", to_string(mesh_.parts), mesh_.replicas, batch_,
                                  options_.bucket_bytes, static_cast<int>(options_.reduction));
    for (const double number :
         {hop_s_, network_.between_nodes.s_per_byte, network_.within_node.s_per_byte,
          network_.injection_s_per_byte, machine_.value("link-gbs"),
          static_cast<double>(network_.ranks_per_node)})
      key += fmt::format(" {}", number);
    return key;
  }

  // Models Exchange::start() on one part.
  void start(Part part, Spent kind, Flight& flight) {
    if (flight.empty()) return;
    flight.posted[part] = now_[part];
    flight.pending[part] = true;
    double packed = 0;
    for (const std::size_t i : flight.outline->sent[part]) packed += flight.outline->packed[i];
    copy(part, kind, packed);
    for (const std::size_t i : flight.outline->sent[part]) {
      spend(part, kind, overhead(flight.outline->messages[i]));
      flight.sent[i] = now_[part];
    }
  }
  // Models Exchange::finish() on one part, after all parts have started.
  void finish(Part part, Spent kind, Flight& flight) {
    if (flight.empty() || !flight.pending[part]) return;
    const ExchangeOutline& exchange = *flight.outline;
    const auto arrival = [&](std::size_t i) {
      const HaloMessage& m = exchange.messages[i];
      const double posted = m.bytes > kEagerBytes ? flight.posted[as_part(m.to)] : 0;
      return std::max(flight.sent[i], posted) + (*flight.travel_s)[i];
    };
    // Messages that have arrived together are unpacked together.
    double unpacked = 0;
    for (const std::size_t i : exchange.received[part]) {
      if (arrival(i) > now_[part]) {
        copy(part, kind, std::exchange(unpacked, 0));
        wait_until(part, kind, arrival(i));
      }
      spend(part, kind, overhead(exchange.messages[i]));
      unpacked += exchange.unpacked[i];
    }
    copy(part, kind, unpacked);
    for (const std::size_t i : exchange.sent[part])
      if (exchange.messages[i].bytes > kEagerBytes) wait_until(part, kind, arrival(i));
    flight.pending[part] = false;
  }
  void exchange(const ExchangeOutline& outline, Spent kind) {
    Flight flight = flight_of(outline);
    for (Part part = 0; part < parts_; ++part) start(part, kind, flight);
    for (Part part = 0; part < parts_; ++part) finish(part, kind, flight);
  }
  void copy(Part part, Spent kind, double bytes) {
    spend(part, kind, network_.copy.seconds(bytes));
  }

  KernelTime kernel_time(std::size_t l, KernelPass pass, Part part) {
    KernelCase call = outline_->layers[l].kernels[static_cast<std::size_t>(pass)][part];
    call.threads = threads_;
    KernelTime time = machine_.kernels.time(call);
    time.seconds *= kernel_factor_;
    return time;
  }
  void compute(std::size_t l, KernelPass pass, Part part, double share = 1) {
    if (geometry_.layers()[l].boxes[part].dst_produced.empty()) return;
    const KernelTime time = kernel_time(l, pass, part);
    const double begin = now_[part];
    spend(part, kCompute, share * time.seconds);
    if (pass != KernelPass::kForward) computed_[part].add(begin, now_[part]);
    kernel_s_[part][static_cast<std::size_t>(time.source)] += share * time.seconds;
  }

  void await_inputs(std::size_t l, Part part, std::size_t rounds) {
    for (const std::size_t t : model_.layers()[l].inputs)
      for (std::size_t k = 0; k < std::min(rounds, distribute_[t].size()); ++k)
        finish(part, kind_of(t), distribute_[t][k]);
  }

  void forward() {
    for (std::size_t l = 0; l < model_.layers().size(); ++l) {
      for (const ExchangeOutline& round : outline_->tensors[l + 1].rounds)
        distribute_[l + 1].push_back(flight_of(round));
      for (Part part = 0; part < parts_; ++part) compute_chunks(l, part);
      average_samples(l);
      publish(l + 1);
    }
    const std::size_t last = geometry_.tensors().size() - 1;
    for (Part part = 0; part < parts_; ++part)
      for (Flight& round : distribute_[last]) finish(part, kind_of(last), round);
  }

  // Models a sum of few values over `ranks` ranks, up a tree and back, for which all parts wait.
  void sum_by_tree(Spent kind, double ranks, double bytes) {
    const double last = *std::max_element(now_.begin(), now_.end());
    const Link& link =
        mesh_.ranks() > network_.ranks_per_node ? network_.between_nodes : network_.within_node;
    for (Part part = 0; part < parts_; ++part)
      wait_until(part, kind, last + 2 * std::ceil(std::log2(ranks)) * link.seconds(bytes));
  }

  // Models the sums of a loss that depends on whole samples, as in TrainingStep and evaluate().
  void sum_parts_of_loss() {
    const std::vector<Box>& owned = geometry_.tensors().back().owned;
    const auto owners =
        std::count_if(owned.begin(), owned.end(), [](const Box& box) { return !box.empty(); });
    if (owners > 1) sum_by_tree(kGather, static_cast<double>(parts_), 0);
  }

  // Models batch normalization over samples of several replicas.
  void average_samples(std::size_t l) {
    const std::int64_t together = model_.layers()[l].layer->samples_together();
    if (!options_.training || together <= batch_) return;
    std::int64_t most = 0;
    for (const LayerBoxes& boxes : geometry_.layers()[l].boxes)
      most = std::max(most, boxes.dst_produced.volume());
    sum_by_tree(kGather, static_cast<double>(together) / static_cast<double>(batch_),
                static_cast<double>(most) * sizeof(double));
  }

  void compute_chunks(std::size_t l, Part part) {
    const std::size_t t = l + 1;
    const LayerOutline& outline = outline_->layers[l];
    const bool early = options_.early_sends && !geometry_.tensors()[t].partial_sums;
    const auto start_rounds = [&](std::size_t computed) {
      for (std::size_t k = 0; early && k < distribute_[t].size(); ++k)
        if (outline.chunks_before[part][k] == computed) start(part, kind_of(t), distribute_[t][k]);
    };
    std::size_t awaited = 0, computed = 0;
    start_rounds(computed);
    for (const LayerOutline::Chunk& chunk : outline.chunks[part]) {
      if (chunk.needs_remote) await_inputs(l, part, ++awaited);
      compute(l, KernelPass::kForward, part, chunk.share);
      start_rounds(++computed);
    }
    await_inputs(l, part, std::numeric_limits<std::size_t>::max());
  }

  void publish(std::size_t t) {
    const TensorGeometry& g = geometry_.tensors()[t];
    for (Part part = 0; part < parts_; ++part)
      if (g.partial_sums && !g.produced[part].contains(g.owned[part]))
        copy(part, kGather, bytes_of(t, g.owned[part].volume()));
    exchange(outline_->tensors[t].partial_sums, kGather);
    for (Flight& round : distribute_[t])
      for (Part part = 0; part < parts_; ++part)
        if (!round.empty() && round.posted[part] < 0) start(part, kind_of(t), round);
  }

  void backward() {
    std::vector<std::size_t> consumers_left;
    for (const TensorGeometry& g : geometry_.tensors())
      consumers_left.push_back(g.consumers.size());
    begin_sums();
    for (std::size_t t = 1; t + 1 < wanted_.size(); ++t) clear_diffs(t);
    for (std::size_t l = model_.layers().size(); l-- > 0;) {
      if (wanted_[l + 1]) {
        for (Part part = 0; part < parts_; ++part) finish(part, kind_of(l + 1), returned_[l + 1]);
        exchange(outline_->tensors[l + 1].broadcast, kGather);
        const auto& inputs = model_.layers()[l].inputs;
        const auto diffs = static_cast<double>(
            std::count_if(inputs.begin(), inputs.end(), [&](auto t) { return wanted_[t]; }));
        average_samples(l);
        for (const std::size_t t : inputs)
          if (wanted_[t]) backward_data(l, t, 1 / diffs, consumers_left[t]--);
        for (Part part = 0; part < parts_; ++part)
          compute(l, KernelPass::kBackwardParameters, part);
      }
      completed(l);
    }
  }

  void clear_diffs(std::size_t t) {
    const TensorGeometry& g = geometry_.tensors()[t];
    for (Part part = 0; part < parts_ && wanted_[t]; ++part)
      if (!g.gradient_starts_whole[part]) copy(part, kHalo, bytes_of(t, g.span[part].volume()));
  }

  void backward_data(std::size_t l, std::size_t t, double share, std::size_t consumers_left) {
    const TensorGeometry& g = geometry_.tensors()[t];
    const bool last_consumer = consumers_left == 1;
    if (last_consumer) returned_[t] = flight_of(outline_->tensors[t].returned);
    for (Part part = 0; part < parts_; ++part) {
      compute(l, KernelPass::kBackwardData, part, share);
      if (consumers_left < g.consumers.size())
        copy(part, kCompute, bytes_of(t, g.span[part].volume()));
      if (last_consumer) start(part, kind_of(t), returned_[t]);
    }
  }

  const std::vector<SumTraffic::Sum>& sums() const { return traffic_->sums->sums; }

  void begin_sums() {
    SumSettings settings;
    settings.reduction = options_.reduction;
    settings.bucket_bytes = options_.bucket_bytes;
    settings.payload = options_.payload;
    settings.ranks_per_node = network_.ranks_per_node;
    if (network_.injection_s_per_byte > 0)
      settings.injection_bytes_per_s = 1 / network_.injection_s_per_byte;
    if (!traffic_->sums)
      traffic_->sums = sum_traffic(routes_, geometry_, mesh_, settings, *sum_routes_);
    ready_.resize(sums().size());
    for (const SumTraffic::Sum& sum : sums()) missing_.push_back(sum.layers.size());
  }

  // Records the sums whose gradients are complete now.
  void completed(std::size_t layer) {
    for (std::size_t i = 0; i < sums().size(); ++i) {
      const SumTraffic::Sum& sum = sums()[i];
      missing_[i] -=
          static_cast<std::size_t>(std::count(sum.layers.begin(), sum.layers.end(), layer));
      if (missing_[i] != 0 || ready_[i] > 0) continue;
      for (const std::int64_t p : sum.parts) ready_[i] = std::max(ready_[i], now_[as_part(p)]);
    }
  }

  void finish_sums() {
    MessageCost cost;
    cost.overhead_s = std::max(network_.between_nodes.latency_s - hop_s_, 0.0) / 2;
    cost.hop_s = hop_s_;
    cost.bytes_per_s = 1 / network_.between_nodes.s_per_byte;
    cost.within_node = network_.within_node;
    cost.cores_copy = shared_cores_ > 1;
    cost.add_s_per_byte = network_.add_s_per_byte;
    const std::vector<double> done = play_sums(*traffic_->sums, ready_, cost, computed_);
    for (Part part = 0; part < parts_; ++part) spend(part, kReduction, computed_[part].delay());
    for (std::size_t i = 0; i < done.size(); ++i)
      for (const std::int64_t p : sums()[i].parts) wait_until(as_part(p), kReduction, done[i]);
  }

  void update() {
    for (Part part = 0; part < parts_; ++part) {
      const auto held = geometry_.parameter_count(static_cast<std::int64_t>(part));
      if (machine_.kernels.rates.triad > 0)
        spend(part, kCompute,
              shared_cores_ * 4.0 * static_cast<double>(options_.update_traffic * held) /
                  machine_.kernels.rates.triad);
    }
  }

  StepForecast summary() const {
    const auto last = static_cast<Part>(std::max_element(now_.begin(), now_.end()) - now_.begin());
    StepForecast f;
    f.compute_s = spent_[last][kCompute] + machine_.value("step-overhead-ms") * 1e-3;
    f.halo_s = spent_[last][kHalo];
    f.gather_s = spent_[last][kGather];
    f.reduction_s = spent_[last][kReduction];
    const double busy = f.compute_s + f.halo_s + f.gather_s + f.reduction_s;
    // Ranks that share a core take turns: a delay of one of them delays them all, once a step. The
    // parts of a sample wait for each other in every layer, whether or not they share cores.
    const double apart = std::max(static_cast<double>(mesh_.ranks()) / shared_cores_,
                                  static_cast<double>(mesh_.parts.count()));
    f.straggler_s = busy * machine_.value("straggler-per-doubling") * std::log2(apart);
    double input_bytes = 0;
    for (const Box& box : geometry_.tensors()[0].span)
      input_bytes = std::max(input_bytes, bytes_of(0, box.volume()));
    const double load_s =
        input_bytes * network_.ranks_per_node / (machine_.value("load-gbs") * 1e9);
    f.input_s = std::max(0.0, load_s - busy - f.straggler_s);
    f.step_s = busy + f.straggler_s + f.input_s;
    const double kernels = std::accumulate(kernel_s_[last].begin(), kernel_s_[last].end(), 0.0);
    for (std::size_t s = 0; s < f.kernel_shares.size(); ++s)
      f.kernel_shares[s] = kernels > 0 ? kernel_s_[last][s] / kernels : 0;
    // Measured kernels repeat within some 5 %, interpolated ones err by 10 %; the efficiency
    // assumed for unmeasured ones is a guess.
    const double uncertain =
        0.05 * kernel_s_[last][0] + 0.1 * kernel_s_[last][1] + 0.3 * kernel_s_[last][2];
    const double network = 0.25 * (f.halo_s + f.gather_s + f.reduction_s);
    f.low_s = f.step_s - uncertain - network - 0.5 * f.straggler_s;
    f.high_s = f.step_s + uncertain + network + f.straggler_s;
    return f;
  }

  const Machine& machine_;
  const Model& model_;
  const ModelGeometry& geometry_;
  const MeshShape& mesh_;
  std::int64_t batch_;
  const ForecastOptions& options_;
  std::vector<DataType> types_;
  NetworkCost network_;
  int threads_ = 1;
  double shared_cores_ = 1;   // ranks per core, at least 1
  double kernel_factor_ = 1;  // multiplies kernel times
  std::size_t parts_;
  std::vector<double> now_;
  std::vector<std::array<double, kSpentKinds>> spent_;
  std::vector<std::array<double, 3>> kernel_s_;  // by KernelTime::Source
  std::vector<std::vector<Flight>> distribute_;  // by tensor and round
  std::vector<Flight> returned_;                 // by tensor
  std::vector<bool> wanted_;
  Routes routes_;
  double hop_s_ = 0;
  std::vector<ComputedStretches> computed_;  // by part, in backward
  ForecastCache own_cache_;
  const StepOutline* outline_ = nullptr;
  HaloRoutes halo_routes_;
  ForecastCache::Entry* traffic_ = nullptr;
  SumRoutes* sum_routes_ = nullptr;
  std::vector<double> ready_;         // by sum
  std::vector<std::size_t> missing_;  // by sum: layers still to complete
};

}  // namespace

const StepOutline& ForecastCache::outline(const Model& model, const ModelGeometry& geometry,
                                          std::int64_t batch) {
  auto& known = outlines_[{to_string(geometry.grid()), batch}];
  if (!known) known = std::make_unique<StepOutline>(step_outline(model, geometry, batch));
  return *known;
}

std::string describe_kernel_shares(const std::array<double, 3>& shares) {
  return fmt::format("{:.0f} % measured, {:.0f} % interpolated, {:.0f} % roofline", 100 * shares[0],
                     100 * shares[1], 100 * shares[2]);
}

StepForecast forecast_step(const Machine& machine, const Model& model,
                           const ModelGeometry& geometry, const MeshShape& mesh,
                           std::int64_t local_batch, const ForecastOptions& options) {
  return Timeline(machine, model, geometry, mesh, local_batch, options).run();
}

}  // namespace halomesh
