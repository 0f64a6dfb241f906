// Where the time of a step goes: see phases.hpp.
#include "src/apps/phases.hpp"

#include <algorithm>
#include <array>

#include "error.hpp"

namespace halomesh {
namespace {

struct NamedKind {
  std::string_view name;
  PhaseKind kind;
};

constexpr std::array<NamedKind, 9> kKinds = {{{"forward", PhaseKind::kCompute},
                                              {"backward data", PhaseKind::kCompute},
                                              {"backward parameters", PhaseKind::kCompute},
                                              {"halo", PhaseKind::kHaloWait},
                                              {"halo gradient", PhaseKind::kHaloWait},
                                              {"partial sums", PhaseKind::kHaloWait},
                                              {"reduction", PhaseKind::kReductionWait},
                                              {"input wait", PhaseKind::kInputWait},
                                              {"optimizer", PhaseKind::kOptimizer}}};

}  // namespace

PhaseKind kind_of(std::string_view name) {
  const auto* const at = std::find_if(kKinds.begin(), kKinds.end(),
                                      [&](const NamedKind& k) { return k.name == name; });
  return at == kKinds.end() ? PhaseKind::kOther : at->kind;
}

const char* to_string(PhaseKind kind) {
  constexpr std::array<const char*, 6> kNames = {"compute",    "halo wait", "reduction wait",
                                                 "input wait", "optimizer", "other"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::size_t PhaseTimes::find_or_add(const TraceEvent& event) {
  if (event.name == kStepName) return 0;
  const auto at = std::find_if(keys_.begin(), keys_.end(), [&](const PhaseKey& key) {
    return key.name == event.name && key.layer == event.detail;
  });
  if (at != keys_.end()) return static_cast<std::size_t>(at - keys_.begin());
  keys_.push_back({std::string(event.name), std::string(event.detail)});
  seconds_.push_back(0);
  return keys_.size() - 1;
}

void PhaseTimes::add(std::span<const TraceEvent> events) {
  const auto steps = std::count_if(events.begin(), events.end(),
                                   [](const TraceEvent& e) { return e.name == kStepName; });
  if (steps != 1) throw Error(cat(steps, " steps among the intervals of one"));
  for (const TraceEvent& event : events) find_or_add(event);
  std::vector<TraceEvent> sorted(events.begin(), events.end());
  // Outer intervals before the inner ones; a step holds all, those as long as itself, too.
  std::sort(sorted.begin(), sorted.end(), [](const TraceEvent& a, const TraceEvent& b) {
    if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
    if (a.end_ns != b.end_ns) return a.end_ns > b.end_ns;
    return a.name == kStepName && b.name != kStepName;
  });
  std::vector<const TraceEvent*> open;
  for (const TraceEvent& event : sorted) {
    while (!open.empty() && open.back()->end_ns <= event.begin_ns) open.pop_back();
    const double seconds = static_cast<double>(event.end_ns - event.begin_ns) * 1e-9;
    seconds_[find_or_add(event)] += seconds;
    if (!open.empty()) seconds_[find_or_add(*open.back())] -= seconds;
    open.push_back(&event);
  }
}

std::vector<double> PhaseTimes::seconds_of(std::span<const PhaseKey> keys) const {
  std::vector<double> result(keys.size());
  const auto place = [&](const PhaseKey& key) { return std::find(keys.begin(), keys.end(), key); };
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    auto at = place(keys_[i]);
    if (at == keys.end()) at = place(keys_[0]);
    if (at == keys.end())
      throw Error(cat("no phase ", kOtherName, " to add ", keys_[i].name, " to"));
    result[static_cast<std::size_t>(at - keys.begin())] += seconds_[i];
  }
  return result;
}

}  // namespace halomesh
