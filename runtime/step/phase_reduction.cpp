// SPDX-License-Identifier: Apache-2.0
// Summaries of the phases of all ranks: see phase_reduction.hpp.
#include "runtime/step/phase_reduction.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "error.hpp"
#include "runtime/mpi/spread_over.hpp"
#include "runtime/posix/process_memory.hpp"

namespace halomesh {
namespace {

/// This rank's times by (phase, layer), with a slot for each pair that any rank may have.
struct Slots {
  Slots(const std::vector<std::string>& layers, const PhaseTimes& times)
      : rows(kPhases.size() * layers.size()), order(rows.size(), 0) {
    const auto first = static_cast<std::int64_t>(rows.size());
    for (const PhaseTimes::Row& row : times.rows()) {
      const auto at = std::find(layers.begin(), layers.end(), row.key.layer);
      const auto layer = at == layers.end() ? 0 : static_cast<std::size_t>(at - layers.begin());
      const std::size_t slot = static_cast<std::size_t>(row.key.phase) * layers.size() + layer;
      rows[slot].ns += row.ns;
      rows[slot].received_bytes += row.received_bytes;
      if (order[slot] == 0) order[slot] = first - (count++);
    }
  }
  std::vector<PhaseTimes::Row> rows;
  // 0: absent on this rank; the first phase has the greatest number.
  std::vector<std::int64_t> order;
  std::int64_t count = 0;
};

/// The slots that some rank uses: first those of rank 0 in its order, then the others. Collective.
std::vector<std::size_t> common_slots(const Comm& comm, const Slots& mine) {
  std::vector<std::int64_t> order = mine.order;
  if (comm.rank() != 0)
    for (std::int64_t& place : order) place = place > 0 ? 1 : 0;
  else
    for (std::int64_t& place : order) place += place > 0 ? 1 : 0;
  comm.max(order);
  std::vector<std::size_t> slots;
  for (std::size_t i = 0; i < order.size(); ++i)
    if (order[i] > 0) slots.push_back(i);
  std::stable_sort(slots.begin(), slots.end(),
                   [&](std::size_t a, std::size_t b) { return order[a] > order[b]; });
  return slots;
}

/// Sums of counts over all ranks. Collective.
void sum_counts(const Comm& comm, const StepCounts& counts, PhaseSummary& summary) {
  const auto buckets_of_first = comm.rank() == 0 ? counts.reduction.buckets : 0;
  std::array<double, 11> sums = {static_cast<double>(counts.halo.sent_bytes),
                                 static_cast<double>(counts.halo.received_bytes),
                                 static_cast<double>(counts.halo.messages),
                                 static_cast<double>(counts.reduction.bytes),
                                 static_cast<double>(buckets_of_first),
                                 static_cast<double>(counts.reduction.buckets),
                                 static_cast<double>(counts.reduction.ns) * 1e-9,
                                 static_cast<double>(counts.input.bytes),
                                 static_cast<double>(counts.input.calls),
                                 counts.input.seconds(),
                                 counts.input_wait_s};
  comm.sum(sums);
  summary.halo = {sums[0], sums[1], sums[2]};
  summary.reduction = {sums[3], sums[4], sums[6] / std::max(1.0, sums[5]), 0};
  summary.input = {sums[7], sums[8], sums[9], sums[10]};
}

}  // namespace

std::vector<std::string> phase_layers(const ModelGeometry& geometry) {
  std::vector<std::string> names = {"", "loss"};
  const auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const LayerPlacement& layer : geometry.layers()) add(layer.name);
  for (const TensorGeometry& tensor : geometry.tensors()) add(tensor.name);
  return names;
}

PhaseSummary summarize_phases(const Comm& comm, const std::vector<std::string>& layers,
                              const PhaseTimes& times, const StepNumbers& steps,
                              const StepCounts& counts) {
  require(steps.all > 0, "no steps to summarise");
  const Slots mine(layers, times);
  const std::vector<std::size_t> slots = common_slots(comm, mine);
  const auto n = static_cast<double>(std::max<std::int64_t>(1, steps.timed));
  std::vector<double> values, bytes;
  for (const std::size_t slot : slots) {
    values.push_back(static_cast<double>(mine.rows[slot].ns) * 1e-9 / n);
    bytes.push_back(static_cast<double>(mine.rows[slot].received_bytes) / n);
  }
  for (std::size_t k = 0; k < kPhaseKinds; ++k)
    values.push_back(times.seconds(static_cast<PhaseKind>(k)) / n);
  values.push_back(times.seconds() / n);
  values.push_back((times.seconds(PhaseKind::kCompute) + times.seconds(PhaseKind::kOptimizer)) / n);
  values.push_back(static_cast<double>(peak_memory_bytes()));
  const std::vector<RankSpread> spreads = spread_over(comm, values);
  comm.sum(bytes);
  PhaseSummary summary;
  summary.steps = steps.all;
  sum_counts(comm, counts, summary);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const PhaseKey key{static_cast<Phase>(slots[i] / layers.size()),
                       layers[slots[i] % layers.size()]};
    if (key == PhaseKey{Phase::kReductionWait, ""})
      summary.reduction.exposed_seconds = spreads[i].mean;
    summary.rows.push_back({key, spreads[i], bytes[i]});
  }
  const auto rest = spreads.begin() + static_cast<std::ptrdiff_t>(slots.size());
  std::copy_n(rest, kPhaseKinds, summary.kinds.begin());
  summary.step_s = rest[kPhaseKinds];
  summary.useful_s = rest[kPhaseKinds + 1];
  summary.memory_bytes = rest[kPhaseKinds + 2];
  return summary;
}

std::vector<std::string> hosts_of(const Comm& comm, const std::vector<int>& ranks) {
  constexpr std::size_t kWords = (MPI_MAX_PROCESSOR_NAME + 7) / 8;
  std::array<char, 8 * kWords> name{};
  int length = 0;
  mpi_check(MPI_Get_processor_name(name.data(), &length));
  // Each name comes from one rank; the others contribute zeros to the sum.
  std::vector<std::int64_t> words(kWords * ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i] == comm.rank()) std::memcpy(words.data() + i * kWords, name.data(), name.size());
  comm.sum(words);
  std::vector<std::string> hosts;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    std::memcpy(name.data(), words.data() + i * kWords, name.size());
    hosts.emplace_back(name.data());
  }
  return hosts;
}

}  // namespace halomesh
