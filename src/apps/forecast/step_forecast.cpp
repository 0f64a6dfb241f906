// SPDX-License-Identifier: Apache-2.0
// The timeline of one step: see step_forecast.hpp.
#include "src/apps/forecast/step_forecast.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "partition/geometry_table.hpp"
#include "src/nn/kernel_case.hpp"
#include "src/nn/model_on_part.hpp"

namespace halomesh {
namespace {

enum Spent : std::size_t { kCompute, kHalo, kGather, kReduction, kSpentKinds };

// Messages of one plan that are under way. Indexed by part.
struct Flight {
  std::vector<double> arrival, unpack_s;
  bool empty() const { return arrival.empty(); }
};

// Gradients that are summed together.
struct Bucket {
  std::vector<std::int64_t> parts;
  double bytes = 0;
  std::vector<std::size_t> layers;
  std::size_t missing = 0;
};

std::vector<Bucket> make_buckets(const ModelGeometry& geometry, std::int64_t bucket_bytes) {
  std::vector<std::vector<std::int64_t>> sets;
  for (const ParameterPlacement& placement : geometry.parameters())
    for (const SliceHolders& holders : placement.holders)
      if (std::find(sets.begin(), sets.end(), holders.parts) == sets.end())
        sets.push_back(holders.parts);
  std::vector<Bucket> buckets;
  for (const auto& set : sets) {
    bool open = false;
    for (std::size_t i = geometry.parameters().size(); i-- > 0;) {
      const ParameterPlacement& placement = geometry.parameters()[i];
      if (std::none_of(placement.holders.begin(), placement.holders.end(),
                       [&](const SliceHolders& holders) { return holders.parts == set; }))
        continue;
      if (!open) buckets.push_back({set, 0, {}, 0});
      Bucket& bucket = buckets.back();
      bucket.bytes += 4.0 * static_cast<double>(placement.slice_volume(set[0]));
      bucket.layers.push_back(placement.layer);
      open = bucket.bytes < static_cast<double>(bucket_bytes);
    }
  }
  for (Bucket& bucket : buckets) bucket.missing = bucket.layers.size();
  return buckets;
}

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
        port_free_(parts_),
        spent_(parts_),
        kernel_s_(parts_),
        distribute_(geometry.tensors().size()),
        returned_(geometry.tensors().size()) {
    network_ = machine.network;
    threads_ = options.threads.value_or(machine.threads());
    shared_cores_ =
        std::max(1.0, network_.ranks_per_node * threads_ / std::max(machine.value("cores"), 1.0));
    wanted_ = tensors_with_diff(model_, geometry_);
  }

  StepForecast run() {
    forward();
    if (options_.training) {
      backward();
      finish_sums();
      update();
    }
    return summary();
  }

 private:
  using Part = std::size_t;
  static Part as_part(std::int64_t part) { return static_cast<Part>(part); }
  struct Sum {
    const std::vector<std::int64_t>* parts;
    double ready;  ///< when the last part has its gradients
    double beside_computation_s, waiting_s;
  };

  void spend(Part part, Spent kind, double seconds) {
    now_[part] += seconds;
    spent_[part][kind] += seconds;
  }
  void wait_until(Part part, Spent kind, double time) {
    spend(part, kind, std::max(0.0, time - now_[part]));
  }

  std::int64_t node_of(std::int64_t part) const { return part / network_.ranks_per_node; }
  Link link_of(std::int64_t from, std::int64_t to) const {
    return node_of(from) == node_of(to) ? network_.within_node
                                        : network_.between_nodes_shared(static_cast<int>(
                                              std::min<std::int64_t>(network_.ranks_per_node, 4)));
  }

  double bytes_of(std::size_t tensor, std::int64_t elements) const {
    return static_cast<double>(elements * batch_ * size_of(types_[tensor]));
  }

  // Whether what moves of a tensor is more than halos: whole tensors, or blocks of channels.
  Spent kind_of(std::size_t t) const {
    const TensorGeometry& g = geometry_.tensors()[t];
    const Box whole = Box::whole(g.shape);
    const bool gathered =
        g.partial_sums ||
        std::any_of(g.needed.begin(), g.needed.end(), [&](const Box& box) { return box == whole; });
    return gathered ? kGather : kHalo;
  }

  // When a block was computed.
  struct Done {
    Box dst;
    double time = 0;
  };
  using DoneByPart = std::vector<std::vector<Done>>;

  // Packs and sends along a plan on every part: Exchange::start(). Blocks in `done` leave when they
  // were computed, others now.
  Flight start(const TransferPlan& plan, std::size_t tensor, Spent kind,
               const DoneByPart* done = nullptr) {
    if (plan.empty()) return {};
    Flight flight{std::vector<double>(parts_), std::vector<double>(parts_)};
    const std::vector<double> posted = now_;
    const auto& transfers = plan.transfers();
    for (std::size_t i = 0; i < transfers.size();) {
      const std::int64_t from = transfers[i].src, to = transfers[i].dst;
      const auto src = static_cast<Part>(from), dst = static_cast<Part>(to);
      double bytes = 0, ready = done == nullptr ? now_[src] : 0;
      for (; i < transfers.size() && transfers[i].src == from && transfers[i].dst == to; ++i) {
        bytes += bytes_of(tensor, transfers[i].box.volume());
        if (done == nullptr) continue;
        for (const Done& chunk : (*done)[src])
          if (!intersect(chunk.dst, transfers[i].box).empty()) ready = std::max(ready, chunk.time);
      }
      const Link link = link_of(from, to);
      const double pack_s = bytes * network_.copy_s_per_byte;
      spend(src, kind, pack_s);
      const double begin = done == nullptr
                               ? std::max({ready + pack_s, port_free_[src], posted[dst]})
                               : std::max(ready + pack_s, port_free_[src]);
      port_free_[src] = begin + bytes * link.s_per_byte;
      flight.arrival[dst] = std::max(flight.arrival[dst], begin + link.seconds(bytes));
      flight.unpack_s[dst] += bytes * network_.copy_s_per_byte;
    }
    return flight;
  }
  // Waits and unpacks on one part: Exchange::finish().
  void finish(Part part, Spent kind, Flight& flight) {
    if (flight.empty() || flight.arrival[part] == 0) return;
    wait_until(part, kind, flight.arrival[part]);
    spend(part, kind, flight.unpack_s[part]);
    flight.arrival[part] = 0;
  }
  void exchange(const TransferPlan& plan, std::size_t tensor, Spent kind) {
    Flight flight = start(plan, tensor, kind);
    for (Part part = 0; part < parts_; ++part) finish(part, kind, flight);
  }

  KernelTime kernel_time(std::size_t l, KernelPass pass, Part part) {
    const ModelLayer& entry = model_.layers()[l];
    const LayerPlacement& placement = geometry_.layers()[l];
    std::vector<DataType> src_types;
    for (const std::size_t i : entry.inputs) src_types.push_back(types_[i]);
    KernelTime time =
        machine_.kernels.time(kernel_case(*entry.layer, pass, placement.src_shapes,
                                          placement.boxes[part], src_types, batch_, threads_));
    time.seconds *= shared_cores_ * machine_.kernel_time_factor();
    return time;
  }
  void compute(std::size_t l, KernelPass pass, Part part, double share = 1) {
    const KernelTime time = kernel_time(l, pass, part);
    spend(part, kCompute, share * time.seconds);
    kernel_s_[part][static_cast<std::size_t>(time.source)] += share * time.seconds;
  }

  void await_inputs(std::size_t l, Part part, std::size_t rounds) {
    for (const std::size_t t : model_.layers()[l].inputs)
      for (std::size_t k = 0; k < std::min(rounds, distribute_[t].size()); ++k)
        finish(part, kind_of(t), distribute_[t][k]);
  }

  void forward() {
    for (std::size_t l = 0; l < model_.layers().size(); ++l) {
      DoneByPart done(parts_);
      for (Part part = 0; part < parts_; ++part) {
        const LayerBoxes& boxes = geometry_.layers()[l].boxes[part];
        std::size_t rounds = 0;
        for (const Chunk& chunk : chunks_of(model_, geometry_, l, part)) {
          if (chunk.needs_remote) await_inputs(l, part, ++rounds);
          compute(l, KernelPass::kForward, part,
                  static_cast<double>(chunk.dst.volume()) /
                      static_cast<double>(boxes.dst_produced.volume()));
          done[part].push_back({chunk.dst, now_[part]});
        }
        await_inputs(l, part, parts_ * 8);  // all
      }
      publish(l + 1, done);
    }
    const std::size_t last = geometry_.tensors().size() - 1;
    for (Part part = 0; part < parts_; ++part)
      for (Flight& round : distribute_[last]) finish(part, kind_of(last), round);
  }

  void publish(std::size_t t, const DoneByPart& done) {
    const TensorGeometry& g = geometry_.tensors()[t];
    exchange(g.broadcast.reversed(), t, kGather);
    const bool early = options_.early_sends && !g.partial_sums;
    for (const TransferPlan& round : rounds_of(model_, geometry_, t))
      distribute_[t].push_back(start(round, t, kind_of(t), early ? &done : nullptr));
  }

  void backward() {
    std::vector<std::size_t> consumers_left;
    for (const TensorGeometry& g : geometry_.tensors())
      consumers_left.push_back(g.consumers.size());
    buckets_ = make_buckets(geometry_, options_.bucket_bytes);
    for (std::size_t l = model_.layers().size(); l-- > 0;) {
      if (wanted_[l + 1]) {
        for (Part part = 0; part < parts_; ++part) finish(part, kind_of(l + 1), returned_[l + 1]);
        exchange(geometry_.tensors()[l + 1].broadcast, l + 1, kGather);
        for (const std::size_t t : model_.layers()[l].inputs) {
          if (!wanted_[t]) continue;
          for (Part part = 0; part < parts_; ++part) compute(l, KernelPass::kBackwardData, part);
          if (--consumers_left[t] == 0)
            returned_[t] = start(geometry_.tensors()[t].distribute.reversed(), t, kind_of(t));
        }
        for (Part part = 0; part < parts_; ++part)
          compute(l, KernelPass::kBackwardParameters, part);
      }
      completed(l);
    }
  }

  // Ranks that sum a bucket, and how many of them share a node.
  SumPlace place_of(const Bucket& bucket) const {
    const auto holders = static_cast<std::int64_t>(bucket.parts.size());
    const std::int64_t ranks = holders * mesh_.replicas, count = mesh_.parts.count();
    std::int64_t per_node = 1;
    if (count <= network_.ranks_per_node) {
      per_node = holders * (network_.ranks_per_node / count);
    } else {
      std::vector<std::int64_t> on_node(static_cast<std::size_t>(node_of(count - 1)) + 1);
      for (const std::int64_t part : bucket.parts)
        per_node = std::max(per_node, ++on_node[static_cast<std::size_t>(node_of(part))]);
    }
    return {static_cast<int>(ranks),
            static_cast<int>(std::clamp<std::int64_t>(per_node, 1, ranks))};
  }

  // Notes the sums that are complete now. What a rank must do itself for one (add, copy within the
  // node) delays its computation; the rest goes on beside it.
  void completed(std::size_t layer) {
    NetworkCost own_work = network_;
    own_work.between_nodes = {};
    own_work.injection_s_per_byte = own_work.poll_s = 0;
    NetworkCost waiting = network_;  // a rank that waits polls all the time
    waiting.poll_s = 0;
    for (Bucket& bucket : buckets_) {
      const auto found = std::count(bucket.layers.begin(), bucket.layers.end(), layer);
      if (found == 0) continue;
      bucket.missing -= static_cast<std::size_t>(found);
      if (bucket.missing != 0) continue;
      const SumPlace place = place_of(bucket);
      if (place.ranks == 1) continue;
      const SumAlgorithm algorithm =
          options_.reduction.value_or(fastest_sum(place, bucket.bytes, waiting));
      Sum sum{&bucket.parts, 0, sum_seconds(algorithm, place, bucket.bytes, network_),
              sum_seconds(algorithm, place, bucket.bytes, waiting)};
      for (const std::int64_t p : bucket.parts) sum.ready = std::max(sum.ready, now_[as_part(p)]);
      sums_.push_back(sum);
      if (layer == 0) continue;  // nothing is left to compute beside it
      for (const std::int64_t p : bucket.parts)
        spend(as_part(p), kReduction,
              sum_seconds(algorithm, place, bucket.bytes, own_work) * shared_cores_);
    }
  }

  // One sum after the other on each rank, at first beside the computation.
  void finish_sums() {
    const double computed = *std::max_element(now_.begin(), now_.end());
    std::vector<double> free(parts_);
    for (const Sum& sum : sums_) {
      double begin = sum.ready;
      for (const std::int64_t p : *sum.parts) begin = std::max(begin, free[as_part(p)]);
      double end = begin + sum.beside_computation_s;
      if (end > computed) {
        const double left = 1 - std::max(0.0, computed - begin) / sum.beside_computation_s;
        end = std::max(begin, computed) + left * sum.waiting_s;
      }
      for (const std::int64_t p : *sum.parts) free[as_part(p)] = end;
    }
    for (Part part = 0; part < parts_; ++part) wait_until(part, kReduction, free[part]);
  }

  // Reads values, gradients and the optimizer's states, writes values and states.
  void update() {
    for (Part part = 0; part < parts_; ++part) {
      const auto held = geometry_.parameter_count(static_cast<std::int64_t>(part));
      if (machine_.kernels.rates.triad > 0)
        spend(part, kCompute,
              shared_cores_ * static_cast<double>(3 + 2 * options_.optimizer_states) * 4.0 *
                  static_cast<double>(held) / machine_.kernels.rates.triad);
    }
  }

  std::int64_t memory() const {
    const GeometryTable table(geometry_, {}, options_.optimizer_states);
    std::int64_t most = 0;
    for (std::size_t p = 0; p < parts_; ++p) {
      const PartLoad& load = table.loads()[p];
      const std::int64_t buffers =
          batch_ * 2 *
          (load.received_bytes + load.sent_bytes + load.partial_sums_received_bytes +
           load.partial_sums_sent_bytes);
      most = std::max(most, table.memory_bytes(static_cast<std::int64_t>(p), batch_) + buffers);
    }
    constexpr std::int64_t kProgram = std::int64_t{200} << 20;  // libraries, MPI, caches of kernels
    return most + kProgram;
  }

  StepForecast summary() const {
    const auto last = static_cast<Part>(std::max_element(now_.begin(), now_.end()) - now_.begin());
    StepForecast f;
    f.compute_s = spent_[last][kCompute] + machine_.value("step-overhead-ms") * 1e-3;
    f.halo_s = spent_[last][kHalo];
    f.gather_s = spent_[last][kGather];
    f.reduction_s = spent_[last][kReduction];
    const double busy = f.compute_s + f.halo_s + f.gather_s + f.reduction_s;
    f.straggler_s = busy * machine_.value("straggler-per-doubling") *
                    std::log2(static_cast<double>(mesh_.ranks()));
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
    // Measured kernels repeat within some 5 %, interpolated ones err by 10 %; where nothing was
    // measured the efficiency is a guess.
    const double uncertain =
        0.05 * kernel_s_[last][0] + 0.1 * kernel_s_[last][1] + 0.3 * kernel_s_[last][2];
    const double network = 0.25 * (f.halo_s + f.gather_s + f.reduction_s);
    f.low_s = f.step_s - uncertain - network - 0.5 * f.straggler_s;
    f.high_s = f.step_s + uncertain + network + f.straggler_s;
    f.memory_bytes = memory();
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
  double shared_cores_ = 1;  ///< ranks per core, at least 1
  std::size_t parts_;
  std::vector<double> now_, port_free_;
  std::vector<std::array<double, kSpentKinds>> spent_;
  std::vector<std::array<double, 3>> kernel_s_;  // by KernelTime::Source
  std::vector<std::vector<Flight>> distribute_;  // by tensor and round
  std::vector<Flight> returned_;                 // by tensor
  std::vector<bool> wanted_;
  std::vector<Bucket> buckets_;
  std::vector<Sum> sums_;
};

}  // namespace

StepForecast forecast_step(const Machine& machine, const Model& model,
                           const ModelGeometry& geometry, const MeshShape& mesh,
                           std::int64_t local_batch, const ForecastOptions& options) {
  return Timeline(machine, model, geometry, mesh, local_batch, options).run();
}

}  // namespace halomesh
