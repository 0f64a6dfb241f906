// SPDX-License-Identifier: Apache-2.0
// Rounds of sums in time: see sum_timeline.hpp.
#include "src/apps/forecast/sum_timeline.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace halomesh {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kInFlight = 4;  // messages of a round: PointSum::kMessages

class Player {
 public:
  Player(const SumTraffic& traffic, const std::vector<double>& ready, const MessageCost& cost,
         std::vector<ComputedStretches>& parts)
      : traffic_(traffic), cost_(cost), parts_(parts), cpu_free_(parts.size()) {
    for (std::size_t i = 0; i < traffic.sums.size(); ++i) {
      State& state = states_.emplace_back();
      state.acts_at = traffic.sums[i].rounds.empty() ? kNever : ready[i];
      state.done_at = ready[i];
    }
  }

  std::vector<double> play() {
    for (;;) {
      const std::vector<double>& rates = message_rates();
      double next = kNever;
      std::size_t who = states_.size();
      const auto consider = [&](std::size_t i, double time) {
        if (time < next) next = time, who = i;
      };
      for (std::size_t i = 0; i < states_.size(); ++i) {
        const State& s = states_[i];
        if (!s.flying)
          consider(i, s.posted ? s.acts_at : ready(i));
        else
          consider(i, s.begin_at > now_ ? s.begin_at : now_ + s.left / (rates[i] * width(i)));
      }
      if (who == states_.size()) break;
      for (std::size_t i = 0; i < states_.size(); ++i)
        if (in_network(i)) states_[i].left -= (next - now_) * rates[i] * width(i);
      now_ = next;
      advance(who);
    }
    std::vector<double> done;
    for (const State& s : states_) done.push_back(s.done_at);
    return done;
  }

 private:
  struct State {
    std::size_t round = 0;
    bool posted = false;  // a round has been sent
    bool flying = false;  // its messages are in flight
    double begin_at = 0;  // when they leave
    double left = 0;      // bytes still to send
    double acts_at = 0;   // when the rank continues the sum, unless in flight
    double done_at = 0;
  };

  const RoundTraffic& round(std::size_t i) const {
    return traffic_.sums[i].rounds[states_[i].round];
  }
  // Time that the rank has spent on other sums delays the layers for which this sum waits.
  double ready(std::size_t i) const {
    double delay = 0;
    for (const std::int64_t p : traffic_.sums[i].parts)
      delay = std::max(delay, parts_[static_cast<std::size_t>(p)].delay());
    return states_[i].acts_at + delay;
  }
  bool copied(const RoundTraffic& r) const { return cost_.cores_copy && r.shares.empty(); }
  double width(std::size_t i) const { return std::min(round(i).messages, kInFlight); }
  bool in_network(std::size_t i) const { return states_[i].flying && states_[i].begin_at <= now_; }

  void advance(std::size_t i) {
    State& s = states_[i];
    const std::vector<std::int64_t>& parts = traffic_.sums[i].parts;
    if (s.flying) {
      if (s.begin_at >= now_ && s.left > 0) return;  // they have just left
      const RoundTraffic& r = round(i);
      const double landed = now_ + r.hops * cost_.hop_s;
      s.flying = false;
      s.acts_at = landed;
      for (const std::int64_t p : parts)
        s.acts_at = std::max(s.acts_at, parts_[static_cast<std::size_t>(p)].poll_after(landed));
      return;
    }
    double seconds = 0, begin = now_;
    if (s.posted) {
      const RoundTraffic& r = round(i);
      seconds += r.messages * cost_.overhead_s + (r.adds ? r.bytes * cost_.add_s_per_byte : 0);
      if (copied(r)) seconds += r.bytes * cost_.within_node.s_per_byte;
      ++s.round;
    }
    s.posted = true;
    const bool more = s.round < traffic_.sums[i].rounds.size();
    if (more) seconds += round(i).messages * cost_.overhead_s;
    for (const std::int64_t p : parts)
      begin = std::max(begin, cpu_free_[static_cast<std::size_t>(p)]);
    for (const std::int64_t p : parts) {
      parts_[static_cast<std::size_t>(p)].work(begin, seconds);
      cpu_free_[static_cast<std::size_t>(p)] = begin + seconds;
    }
    if (more) {
      s.flying = true;
      s.begin_at = begin + seconds;
      s.left = copied(round(i)) ? 1.0 : std::max(round(i).bytes, 1.0);
    } else {
      s.acts_at = kNever;
      s.done_at = begin + seconds;
    }
  }

  // Bytes per second of a message of each sum, computed once for each set of rounds in flight.
  const std::vector<double>& message_rates() {
    flying_.assign(states_.size(), nullptr);
    for (std::size_t i = 0; i < states_.size(); ++i)
      if (in_network(i)) flying_[i] = &round(i);
    const auto [at, is_new] = known_rates_.try_emplace(flying_);
    if (is_new) at->second = fair_rates();
    return at->second;
  }

  // Max-min fair rates: raises all rates until a link is full or a message is at its top speed.
  std::vector<double> fair_rates() const {
    std::vector<double> rates(states_.size());
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < states_.size(); ++i)
      if (in_network(i)) open.push_back(i);
    std::vector<double> left;
    for (const SumTraffic::Links& links : traffic_.links) left.push_back(links.bytes_per_s);
    while (!open.empty()) {
      double rate = kNever;
      for (const std::size_t i : open) rate = std::min(rate, limit(i));
      std::size_t full = left.size();
      for (std::size_t link = 0; link < left.size(); ++link) {
        double sum = 0;
        for (const std::size_t i : open) sum += load(link, i);
        if (sum > 0 && left[link] / sum < rate) rate = left[link] / sum, full = link;
      }
      std::vector<std::size_t> others;
      for (const std::size_t i : open) {
        const bool settled = full == left.size() ? limit(i) <= rate : load(full, i) > 0;
        if (!settled) {
          others.push_back(i);
          continue;
        }
        rates[i] = rate;
        for (std::size_t link = 0; link < left.size(); ++link)
          left[link] = std::max(left[link] - load(link, i) * rate, 1.0);
      }
      open.swap(others);
    }
    return rates;
  }
  // The number of messages of sum i on each of these links.
  double load(std::size_t link, std::size_t i) const {
    double flows = 0;
    for (const RoundTraffic::Share& share : round(i).shares)
      flows += share.of_bytes * static_cast<double>(traffic_.links[link].flows[share.pattern]);
    return width(i) * flows;
  }
  double limit(std::size_t i) const {
    return round(i).shares.empty() ? 1 / cost_.within_node.s_per_byte / width(i)
                                   : cost_.bytes_per_s;
  }

  const SumTraffic& traffic_;
  const MessageCost& cost_;
  std::vector<ComputedStretches>& parts_;
  std::vector<double> cpu_free_;
  std::vector<State> states_;
  std::vector<const RoundTraffic*> flying_;  // by sum; null: not in the network
  std::map<std::vector<const RoundTraffic*>, std::vector<double>> known_rates_;
  double now_ = 0;
};

}  // namespace

double ComputedStretches::poll_after(double time) const {
  const double at = time - delay_;
  const auto next = std::lower_bound(stretches_.begin(), stretches_.end(), at,
                                     [](const auto& s, double t) { return s.second < t; });
  if (next == stretches_.end()) return time;
  const auto [begin, end] = *next;
  if (poll_s_ <= 0) return std::max(begin, at) + delay_;
  const double polls = std::max(std::ceil((at - begin) / poll_s_ - 1e-9), 1.0);
  return std::min(begin + polls * poll_s_, end) + delay_;
}

void ComputedStretches::work(double time, double seconds) {
  if (!stretches_.empty() && time - delay_ <= stretches_.back().second) delay_ += seconds;
}

std::vector<double> play_sums(const SumTraffic& traffic, const std::vector<double>& ready,
                              const MessageCost& cost, std::vector<ComputedStretches>& parts) {
  return Player(traffic, ready, cost, parts).play();
}

}  // namespace halomesh
