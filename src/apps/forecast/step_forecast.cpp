// SPDX-License-Identifier: Apache-2.0
// The timeline of one step: see step_forecast.hpp.
#include "src/apps/forecast/step_forecast.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "src/apps/forecast/halo_times.hpp"
#include "src/apps/forecast/sum_timeline.hpp"

namespace halomesh {
namespace {

enum Spent : std::size_t { kCompute, kHalo, kGather, kReduction, kSpentKinds };

// An exchange in flight: when each message and receive was posted, and how long messages travel.
struct Flight {
  const std::vector<double>* travel_s = nullptr;  // by message
  std::vector<double> sent;                       // by message; negative before it is sent
  std::vector<double> posted;                     // by part: receives; negative before start()
};

// Shorter messages leave at once; longer ones wait until their receive is posted, too.
constexpr double kEagerBytes = 65536;

class StepTimeline {
 public:
  StepTimeline(const Machine& machine, const Model& model, const ModelGeometry& geometry,
               const MeshShape& mesh, std::int64_t batch, const ForecastOptions& options)
      : machine_(machine),
        model_(model),
        geometry_(geometry),
        mesh_(mesh),
        batch_(batch),
        options_(options),
        parts_(static_cast<std::size_t>(mesh.parts.count())),
        now_(parts_),
        spent_(parts_),
        kernel_s_(parts_),
        waits_(parts_),
        met_(parts_) {
    network_ = machine.network;
    threads_ = options.threads.value_or(machine.threads());
    shared_cores_ =
        std::max(1.0, network_.ranks_per_node * threads_ / std::max(machine.value("cores"), 1.0));
    // Work of the cores takes longer if ranks share them.
    for (double* const seconds :
         {&network_.within_node.latency_s, &network_.within_node.s_per_byte,
          &network_.copy.core_s_per_byte, &network_.copy.s_per_byte, &network_.add_s_per_byte})
      *seconds *= shared_cores_;
    const std::int64_t nodes = (mesh.ranks() - 1) / network_.ranks_per_node + 1;
    if (machine.interconnect != Interconnect::kNone && nodes > 1)
      routes_ = Routes(network_shape_of(machine, nodes));
    hop_s_ = routes_.links() > 0 ? machine.value("hop-us") * 1e-6 : 0;
    computed_.assign(parts_, ComputedStretches(network_.poll_s));
    kernel_factor_ = shared_cores_ * machine.kernel_time_factor();
    ForecastCache& cache = options.cache != nullptr ? *options.cache : own_cache_;
    outline_ = &cache.outline(model, geometry, batch, options);
    traffic_ = &cache.entry(traffic_key());
    traffic_->travel_s.resize(outline_->exchanges.size());
    flights_.resize(outline_->exchanges.size());
    sum_routes_ = &cache.routes(mesh.ranks(), network_.ranks_per_node);
  }

  StepForecast run() {
    if (options_.training) begin_sums();
    play();
    if (options_.training) {
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

  // Each part runs its events until it waits for one that another part has not reached.
  void play() {
    std::vector<std::size_t> next(parts_);
    const auto is_done = [&](Part part) {
      const std::vector<TimedEvent>& events = outline_->events[part];
      return next[part] == events.size() || (!options_.training && next[part] > 0 &&
                                             events[next[part] - 1].kind == StepEvent::Kind::kLoss);
    };
    for (bool moves = true; moves;) {
      moves = false;
      for (Part part = 0; part < parts_; ++part)
        for (; !is_done(part) && happens(part, outline_->events[part][next[part]]); ++next[part])
          moves = true;
    }
    for (Part part = 0; part < parts_; ++part)
      require(is_done(part), text("part {} of a step waits for ever", part));
  }

  // Returns false if the event has to wait for another part.
  bool happens(Part part, const TimedEvent& event) {
    using Kind = StepEvent::Kind;
    switch (event.kind) {
      case Kind::kForward:
      case Kind::kAgain:
        compute(KernelPass::kForward, part, event);
        break;
      case Kind::kBackwardData:
        if (event.clears_diff) copy(part, kHalo, event.bytes);
        compute(KernelPass::kBackwardData, part, event);
        if (!event.first) copy(part, kCompute, event.bytes);
        break;
      case Kind::kBackwardParameters:
        compute(KernelPass::kBackwardParameters, part, event);
        break;
      case Kind::kClearSums:
        copy(part, kGather, event.bytes);
        break;
      case Kind::kClearDiff:
        copy(part, kHalo, event.bytes);
        break;
      case Kind::kStart:
        start(part, event.number);
        break;
      case Kind::kFinish:
        return finish(part, event.number);
      case Kind::kReplicaSums:
        return !options_.training || meet(part, [&] { average_samples(event.layer); });
      case Kind::kLoss:
        return meet(part, [&] { sum_parts_of_loss(); });
      case Kind::kCompleted:
        completed(part, event.layer);
        break;
      case Kind::kPoll:
        break;
    }
    return true;
  }

  // Calls `sum` once all parts are here; each then goes on.
  template <class Sum>
  bool meet(Part part, const Sum& sum) {
    if (!met_[part]) {
      if (!waits_[part]) ++waiting_;
      waits_[part] = true;
      if (waiting_ < parts_) return false;
      sum();
      waiting_ = 0;
      waits_.assign(parts_, false);
      met_.assign(parts_, true);
    }
    met_[part] = false;
    return true;
  }

  Flight& flight_of(std::size_t number) {
    Flight& flight = flights_[number];
    if (flight.travel_s != nullptr) return flight;
    const std::vector<HaloMessage>& messages = outline_->exchanges[number].messages;
    std::vector<double>& travel_s = traffic_->travel_s[number];
    if (travel_s.empty())
      travel_s = travel_seconds({routes_, network_, hop_s_}, mesh_, messages, halo_routes_);
    return flight = {&travel_s, std::vector<double>(messages.size(), -1),
                     std::vector<double>(parts_, -1)};
  }
  // A key of everything on which routes and travel times depend.
  std::string traffic_key() const {
    std::string key = fmt::format(
        "{} {} {} {} {} {}", to_string(mesh_.parts), mesh_.replicas, batch_, options_.bucket_bytes,
        static_cast<int>(options_.reduction), static_cast<int>(options_.memory));
    for (const double number :
         {hop_s_, network_.between_nodes.s_per_byte, network_.within_node.s_per_byte,
          network_.injection_s_per_byte, machine_.value("link-gbs"),
          static_cast<double>(network_.ranks_per_node)})
      key += fmt::format(" {}", number);
    return key;
  }

  // Models Exchange::start() on one part.
  void start(Part part, std::size_t number) {
    const ExchangeOutline& exchange = outline_->exchanges[number];
    Flight& flight = flight_of(number);
    const Spent kind = exchange.gathered ? kGather : kHalo;
    flight.posted[part] = now_[part];
    double packed = 0;
    for (const std::size_t i : exchange.sent[part]) packed += exchange.packed[i];
    copy(part, kind, packed);
    for (const std::size_t i : exchange.sent[part]) {
      spend(part, kind, overhead(exchange.messages[i]));
      flight.sent[i] = now_[part];
    }
  }
  // Models Exchange::finish() on one part. Returns false as long as a message that it waits for has
  // not been sent or, where it is long, its receive not been posted.
  bool finish(Part part, std::size_t number) {
    const ExchangeOutline& exchange = outline_->exchanges[number];
    const Flight& flight = flight_of(number);
    const Spent kind = exchange.gathered ? kGather : kHalo;
    const auto is_long = [&](std::size_t i) { return exchange.messages[i].bytes > kEagerBytes; };
    const auto posted = [&](std::size_t i) {
      return flight.posted[as_part(exchange.messages[i].to)];
    };
    for (const std::size_t i : exchange.received[part])
      if (flight.sent[i] < 0) return false;
    for (const std::size_t i : exchange.sent[part])
      if (is_long(i) && posted(i) < 0) return false;
    const auto arrival = [&](std::size_t i) {
      return std::max(flight.sent[i], is_long(i) ? posted(i) : 0) + (*flight.travel_s)[i];
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
      if (is_long(i)) wait_until(part, kind, arrival(i));
    return true;
  }
  void copy(Part part, Spent kind, double bytes) {
    spend(part, kind, network_.copy.seconds(bytes));
  }

  void compute(KernelPass pass, Part part, const TimedEvent& event) {
    if (event.share <= 0) return;
    KernelCase call = outline_->kernels[event.layer][static_cast<std::size_t>(pass)][part];
    call.threads = threads_;
    const KernelTime time = machine_.kernels.time(call);
    const double begin = now_[part], seconds = event.share * time.seconds * kernel_factor_;
    spend(part, kCompute, seconds);
    if (event.kind != StepEvent::Kind::kForward) computed_[part].add(begin, now_[part]);
    kernel_s_[part][static_cast<std::size_t>(time.source)] += seconds;
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
    std::int64_t most = 0;
    for (const LayerBoxes& boxes : geometry_.layers()[l].boxes)
      most = std::max(most, boxes.dst_produced.volume());
    sum_by_tree(kGather, static_cast<double>(together) / static_cast<double>(batch_),
                static_cast<double>(most) * sizeof(double));
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
  }

  // A sum begins when all its parts have completed its last layer.
  void completed(Part part, std::size_t layer) {
    for (std::size_t i = 0; i < sums().size(); ++i) {
      const SumTraffic::Sum& sum = sums()[i];
      if (std::find(sum.layers.begin(), sum.layers.end(), layer) != sum.layers.end() &&
          std::binary_search(sum.parts.begin(), sum.parts.end(), static_cast<std::int64_t>(part)))
        ready_[i] = std::max(ready_[i], now_[part]);
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
      input_bytes = std::max(
          input_bytes, static_cast<double>(box.volume() * batch_ * size_of(model_.input_type())));
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
  NetworkCost network_;
  int threads_ = 1;
  double shared_cores_ = 1;   // ranks per core, at least 1
  double kernel_factor_ = 1;  // multiplies kernel times
  std::size_t parts_;
  std::vector<double> now_;
  std::vector<std::array<double, kSpentKinds>> spent_;
  std::vector<std::array<double, 3>> kernel_s_;  // by KernelTime::Source
  std::vector<Flight> flights_;                  // by exchange
  std::vector<bool> waits_, met_;                // by part: for the others; no longer
  std::size_t waiting_ = 0;
  Routes routes_;
  double hop_s_ = 0;
  std::vector<ComputedStretches> computed_;  // by part, in backward
  ForecastCache own_cache_;
  const StepOutline* outline_ = nullptr;
  HaloRoutes halo_routes_;
  ForecastCache::Entry* traffic_ = nullptr;
  SumRoutes* sum_routes_ = nullptr;
  std::vector<double> ready_;  // by sum
};

}  // namespace

const StepOutline& ForecastCache::outline(const Model& model, const ModelGeometry& geometry,
                                          std::int64_t batch, const ForecastOptions& options) {
  auto& known = outlines_[{to_string(geometry.grid()), batch, options.memory, options.early_sends}];
  if (!known)
    known = std::make_unique<StepOutline>(
        step_outline(model, geometry, batch, options.memory, options.early_sends));
  return *known;
}

std::string describe_kernel_shares(const std::array<double, 3>& shares) {
  return fmt::format("{:.0f} % measured, {:.0f} % interpolated, {:.0f} % roofline", 100 * shares[0],
                     100 * shares[1], 100 * shares[2]);
}

StepForecast forecast_step(const Machine& machine, const Model& model,
                           const ModelGeometry& geometry, const MeshShape& mesh,
                           std::int64_t local_batch, const ForecastOptions& options) {
  return StepTimeline(machine, model, geometry, mesh, local_batch, options).run();
}

}  // namespace halomesh
