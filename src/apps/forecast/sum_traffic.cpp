// SPDX-License-Identifier: Apache-2.0
// Traffic of sums: see sum_traffic.hpp.
#include "src/apps/forecast/sum_traffic.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "partition/cost/sum_schedule.hpp"
#include "runtime/step/holder_set.hpp"
#include "runtime/step/point_sum.hpp"
#include "src/nn/gradient_buckets.hpp"

namespace halomesh {
namespace {

using Parts = std::vector<std::int64_t>;

struct Bucket {
  Parts holders;
  std::vector<std::size_t> layers;
  std::int64_t volume = 0;
};

std::vector<Bucket> buckets_of(const ModelGeometry& geometry, std::int64_t part,
                               const MeshShape& mesh, std::int64_t bucket_bytes) {
  std::vector<Bucket> buckets;
  for (const HolderGroup& group : holder_groups(geometry, part))
    if (std::ssize(group.parts) * mesh.replicas > 1)
      for (GradientBucket& bucket : gradient_buckets(geometry, group, bucket_bytes))
        buckets.push_back({group.parts, std::move(bucket.layers), bucket.volume});
  return buckets;
}

bool is_power_of_2(int n) { return (n & (n - 1)) == 0; }

SumAlgorithm between_nodes(const SumChoice& sum) {
  return sum.algorithm == SumAlgorithm::kTwoLevel ? sum.across : sum.algorithm;
}

// True if every rank acts in each round as rank 0 does: see partner_like_first().
bool is_regular(const SumChoice& sum) {
  const SumAlgorithm across = between_nodes(sum);
  if (across == SumAlgorithm::kBinomialTree) return false;
  return across != SumAlgorithm::kRecursiveDoubling ||
         is_power_of_2(sum.place.ranks / first_level(sum.algorithm, sum.place));
}

SumRoutes::SumKey key_of(const SumChoice& sum) {
  return {static_cast<int>(sum.algorithm), sum.place.ranks, sum.place.per_node,
          static_cast<int>(sum.across)};
}

std::uint64_t mixed(std::uint64_t n) {
  std::uint64_t state = n + 0x9e3779b97f4a7c15ULL;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ULL;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebULL;
  return state ^ (state >> 31);
}

// True if a link with flows `a` is never fuller than one with `b` of equal rate.
bool never_fuller(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>{});
}

int messages_of(const std::vector<SumPiece>& pieces) {
  constexpr std::int64_t kValues = PointSum::kMessageBytes / std::int64_t{sizeof(float)};
  std::int64_t messages = 0;
  for (const SumPiece& piece : pieces) messages += (piece.hi - piece.lo + kValues - 1) / kValues;
  return static_cast<int>(messages);
}

std::int64_t volume_of(const std::vector<SumPiece>& pieces) {
  std::int64_t volume = 0;
  for (const SumPiece& piece : pieces) volume += piece.hi - piece.lo;
  return volume;
}

class Builder {
 public:
  Builder(const Routes& routes, const ModelGeometry& geometry, const MeshShape& mesh,
          const SumSettings& settings, SumRoutes& known)
      : routes_(routes),
        mesh_(mesh),
        settings_(settings),
        known_(known),
        injection_(settings.ranks_per_node > 1 && settings.injection_bytes_per_s > 0) {
    using Key = std::tuple<std::size_t, std::size_t, std::vector<std::size_t>>;
    std::map<Key, std::size_t> numbers;
    for (std::int64_t part = 0; part < mesh.parts.count(); ++part) {
      const auto buckets = buckets_of(geometry, part, mesh, settings.bucket_bytes);
      for (std::size_t i = 0; i < buckets.size(); ++i) {
        const Bucket& bucket = buckets[i];
        const auto [at, is_new] =
            numbers.try_emplace({i, bucket.holders.size(), bucket.layers}, sums_.size());
        if (is_new) sums_.emplace_back().index = static_cast<int>(i);
        Sets& sets = sums_[at->second];
        sets.bucket.layers = bucket.layers;
        sets.bucket.volume = std::max(sets.bucket.volume, bucket.volume);
        if (std::find(sets.holders.begin(), sets.holders.end(), bucket.holders) ==
            sets.holders.end())
          sets.holders.push_back(bucket.holders);
      }
    }
  }

  SumTraffic build() {
    for (const Sets& sets : sums_) add(sets);
    collect_links();
    return std::move(traffic_);
  }

 private:
  struct Sets {
    int index = 0;  // the bucket's index on its ranks
    Bucket bucket;
    std::vector<Parts> holders;
  };
  using Partners = SumRoutes::Partners;

  void add(const Sets& sets) {
    SumTraffic::Sum& sum = traffic_.sums.emplace_back();
    sum.layers = sets.bucket.layers;
    const auto value_bytes = static_cast<double>(size_of(settings_.payload));
    sum.bytes = static_cast<double>(sets.bucket.volume) * value_bytes;
    for (const Parts& holders : sets.holders)
      sum.parts.insert(sum.parts.end(), holders.begin(), holders.end());
    std::sort(sum.parts.begin(), sum.parts.end());
    const HolderSet first(mesh_, settings_.ranks_per_node, sets.holders.front());
    const SumChoice choice = first.choose(settings_.reduction, sum.bytes, {});
    const std::vector<SumRound> rounds =
        sum_schedule(choice, 0, sets.bucket.volume, sets.index);  // as in GradientReducer
    for (std::size_t k = 0; k < rounds.size(); ++k) {
      const SumRound& round = rounds[k];
      RoundTraffic& traffic = sum.rounds.emplace_back();
      traffic.bytes = value_bytes * static_cast<double>(std::max(volume_of(round.sends),
                                                                 volume_of(round.receives)));
      traffic.messages = std::max({messages_of(round.sends), messages_of(round.receives), 1});
      traffic.adds = round.add;
      if (is_regular(choice))
        add_regular(sets, choice, round, traffic);
      else
        add_irregular(sets, choice, k, traffic);
    }
  }

  void add_regular(const Sets& sets, const SumChoice& choice, const SumRound& round,
                   RoundTraffic& traffic) {
    const auto volume = static_cast<double>(volume_of(round.sends));
    for (const SumPiece& piece : round.sends) {
      const auto [at, is_new] = known_.regular.try_emplace(
          {mesh_.parts.count(), sets.holders, key_of(choice), piece.rank}, nullptr);
      if (is_new) {
        Partners partners(static_cast<std::size_t>(choice.place.ranks));
        for (std::size_t h = 0; h < partners.size(); ++h)
          partners[h] = partner_like_first(choice, piece.rank, static_cast<int>(h));
        at->second = &routed(sets, partners);
      }
      add_share(*at->second, static_cast<double>(piece.hi - piece.lo) / volume, traffic);
    }
  }

  void add_irregular(const Sets& sets, const SumChoice& choice, std::size_t k,
                     RoundTraffic& traffic) {
    const auto [at, is_new] = known_.irregular.try_emplace(key_of(choice));
    std::vector<Partners>& all = at->second;
    for (int h = 0; is_new && h < choice.place.ranks; ++h) {
      const auto rounds = sum_schedule(choice, h, sets.bucket.volume, sets.index);
      all.resize(std::max(all.size(), rounds.size()),
                 Partners(static_cast<std::size_t>(choice.place.ranks), -1));
      for (std::size_t r = 0; r < rounds.size(); ++r)
        if (!rounds[r].sends.empty()) all[r][static_cast<std::size_t>(h)] = rounds[r].sends[0].rank;
    }
    if (k < all.size()) add_share(routed(sets, all[k]), 1, traffic);
  }

  void add_share(const SumRoutes::Pattern& pattern, double of_bytes, RoundTraffic& traffic) {
    if (pattern.flows.empty()) return;
    const auto [at, is_new] = numbers_.try_emplace(&pattern, patterns_.size());
    if (is_new) patterns_.push_back(&pattern);
    traffic.shares.push_back({at->second, of_bytes});
    traffic.hops = std::max(traffic.hops, pattern.hops);
  }

  // The routes of a pattern in which holders of all sets send to these partners at once.
  const SumRoutes::Pattern& routed(const Sets& sets, const Partners& partners) {
    Partners world(static_cast<std::size_t>(mesh_.ranks()), -1);
    for (const Parts& holders : sets.holders) {
      const HolderSet set(mesh_, settings_.ranks_per_node, holders);
      for (std::size_t h = 0; h < partners.size(); ++h)
        if (partners[h] >= 0)
          world[static_cast<std::size_t>(set.world_rank(static_cast<int>(h)))] =
              set.world_rank(partners[h]);
    }
    const auto [at, is_new] = known_.patterns.try_emplace(world);
    if (is_new) route(world, at->second);
    return at->second;
  }

  void route(const Partners& world, SumRoutes::Pattern& pattern) const {
    std::vector<std::uint32_t> flows(routes_.links());
    std::vector<std::size_t> links;
    for (std::size_t rank = 0; rank < world.size(); ++rank) {
      if (world[rank] < 0) continue;
      const auto from = static_cast<std::int64_t>(rank) / settings_.ranks_per_node;
      const std::int64_t to = world[rank] / settings_.ranks_per_node;
      if (from == to) continue;
      links.clear();
      routes_.append(from, to, links);
      pattern.hops = std::max(pattern.hops, static_cast<int>(links.size()));
      links.push_back(routes_.links() + static_cast<std::size_t>(from));  // the node's injection
      flows.resize(std::max(flows.size(), links.back() + 1));
      for (const std::size_t link : links) ++flows[link];
    }
    for (std::size_t link = 0; link < flows.size(); ++link)
      if (flows[link] > 0) pattern.flows.emplace_back(link, flows[link]);
  }

  double bytes_per_s(std::size_t link) const {
    if (link < routes_.links()) return routes_.bytes_per_s(link);
    return injection_ ? settings_.injection_bytes_per_s : 0;
  }

  // Groups links of equal flows, compared by 64-bit hashes.
  void collect_links() {
    std::vector<std::uint64_t> hashes;
    for (std::size_t p = 0; p < patterns_.size(); ++p)
      for (const auto& [link, flows] : patterns_[p]->flows) {
        hashes.resize(std::max(hashes.size(), link + 1));
        hashes[link] += mixed(mixed(p) + flows);
      }
    std::map<std::pair<double, std::uint64_t>, std::size_t> classes;  // by the first link of each
    std::vector<std::size_t> class_of(hashes.size(), kNone);
    for (std::size_t link = 0; link < hashes.size(); ++link) {
      const double rate = bytes_per_s(link);
      if (hashes[link] == 0 || rate <= 0) continue;
      const auto [at, is_new] = classes.try_emplace({rate, hashes[link]}, traffic_.links.size());
      if (!is_new) continue;
      class_of[link] = at->second;
      traffic_.links.push_back({rate, std::vector<std::uint32_t>(patterns_.size())});
    }
    for (std::size_t p = 0; p < patterns_.size(); ++p)
      for (const auto& [link, flows] : patterns_[p]->flows)
        if (class_of[link] != kNone) traffic_.links[class_of[link]].flows[p] = flows;
    leave_out_emptier_links();
  }

  void leave_out_emptier_links() {
    const auto total = [](const SumTraffic::Links& links) {
      return std::accumulate(links.flows.begin(), links.flows.end(), std::uint64_t{0});
    };
    std::stable_sort(traffic_.links.begin(), traffic_.links.end(),
                     [&](const auto& a, const auto& b) { return total(a) > total(b); });
    std::vector<SumTraffic::Links> fullest;
    for (SumTraffic::Links& links : traffic_.links)
      if (std::none_of(fullest.begin(), fullest.end(), [&](const SumTraffic::Links& other) {
            return other.bytes_per_s <= links.bytes_per_s && never_fuller(links.flows, other.flows);
          }))
        fullest.push_back(std::move(links));
    traffic_.links = std::move(fullest);
  }

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  const Routes& routes_;
  const MeshShape& mesh_;
  const SumSettings& settings_;
  SumRoutes& known_;
  bool injection_;  // adds a link for the total that the ranks of each node send
  std::vector<Sets> sums_;
  std::vector<const SumRoutes::Pattern*> patterns_;
  std::map<const SumRoutes::Pattern*, std::size_t> numbers_;  // the indices of patterns_
  SumTraffic traffic_;
};

}  // namespace

int partner_like_first(const SumChoice& sum, int first, int rank) {
  const int inner = first_level(sum.algorithm, sum.place);
  const bool ring = between_nodes(sum) == SumAlgorithm::kRing;
  for (int stride = 1;;) {
    const bool within = stride < inner;
    const int left = (within ? inner : sum.place.ranks) / stride;
    const int count = left % 2 == 0 && (within || !ring) ? 2 : left;
    const int digit = rank / stride % count;
    if (first < stride * count) return rank + ((digit + first / stride) % count - digit) * stride;
    stride *= count;
  }
}

SumTraffic sum_traffic(const Routes& routes, const ModelGeometry& geometry, const MeshShape& mesh,
                       const SumSettings& settings, SumRoutes& known) {
  return Builder(routes, geometry, mesh, settings, known).build();
}

}  // namespace halomesh
