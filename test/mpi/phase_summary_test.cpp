// SPDX-License-Identifier: Apache-2.0
// Summaries of phases over ranks: against sums by hand, and those of a training run, which add up
// to its steps in time and whose bytes are those that the geometry predicts.
#include "runtime/log/phase_summary.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "runtime/mpi/spread_over.hpp"
#include "runtime/step/phase_reduction.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/mpi_shared_directory.hpp"
#include "test/harness/test_comm.hpp"
#include "test/mpi/counted_messages.hpp"
#include "test/mpi/training_run.hpp"

namespace halomesh {
namespace {

void expect_near(Findings& findings, double got, double expected, const std::string& where) {
  findings.expect(std::abs(got - expected) <= 1e-12 * std::abs(expected),
                  [&] { return fmt::format("{}: {}, not {}", where, got, expected); });
}

void expect_spread(Findings& findings, const RankSpread& got, const RankSpread& expected,
                   const std::string& where) {
  expect_near(findings, got.mean, expected.mean, where + " mean");
  expect_near(findings, got.min, expected.min, where + " least");
  expect_near(findings, got.max, expected.max, where + " most");
  findings.expect_equal(got.max_rank, expected.max_rank, where + " rank");
}

TEST_CASE("a spread has mean, least and greatest, and the first rank of the greatest") {
  for_comms("spreads", [](const Comm& comm, Findings& findings) {
    const int n = comm.size();
    const double r = comm.rank();
    const auto spreads = spread_over(comm, std::vector<double>{r, -r, 7, r == n / 2 ? 3.0 : 1.0});
    expect_spread(findings, spreads.at(0), {0.5 * (n - 1), 0, n - 1.0, n - 1}, "ranks");
    expect_spread(findings, spreads.at(1), {-0.5 * (n - 1), 1.0 - n, 0, 0}, "negated");
    expect_spread(findings, spreads.at(2), {7, 7, 7, 0}, "equal");
    expect_spread(findings, spreads.at(3), {1 + 2.0 / n, n == 1 ? 3.0 : 1.0, 3, n / 2}, "one");
  });
}

// Two steps of 1000 ms each: rank r computes 100 (r + 1) ms for conv1 in a step, all ranks but the
// first wait 50 ms for its halo, and each waits for the sum until 900 ms.
PhaseTimes times_of(int rank) {
  constexpr std::int64_t kMs = 1000000;
  PhaseTimes times;
  for (std::int64_t begin = 0; begin < 2000 * kMs; begin += 1000 * kMs) {
    std::vector<TraceEvent> step;
    std::int64_t now = begin;
    if (rank > 0) step.push_back({Phase::kHaloWait, "conv1", begin, now += 50 * kMs, 64});
    const std::int64_t computed = now + 100 * kMs * (rank + 1);
    step.push_back({Phase::kForward, "conv1", now, computed, 0});
    step.push_back({Phase::kReductionWait, "", computed, begin + 900 * kMs, 256});
    step.push_back({Phase::kStep, "", begin, begin + 1000 * kMs, 0});
    times.add(step);
  }
  return times;
}

TEST_CASE("a summary is that of all ranks, whichever phases each of them has") {
  for_comms("summaries", [](const Comm& comm, Findings& findings) {
    const double n = comm.size();
    const auto count = static_cast<std::int64_t>(n);
    StepCounts counts;
    counts.halo = {10, 20, comm.rank()};
    counts.reduction = {100, comm.rank() == 0 ? 4 : 2, 2000000000};
    counts.input = {7, 3, 500000000};
    counts.input_wait_s = 0.25;
    const PhaseSummary s =
        summarize_phases(comm, {"", "loss", "conv1"}, times_of(comm.rank()), {2, 2}, counts);
    findings.expect_equal<std::int64_t>(s.steps, 2, "steps");
    findings.expect_equal<std::size_t>(s.rows.size(), comm.size() > 1 ? 4 : 3, "rows");
    const auto row = [&](std::size_t i, const PhaseKey& key, const RankSpread& spread,
                         double bytes) {
      if (i >= s.rows.size()) return;
      findings.expect(s.rows[i].key == key, [&] {
        return fmt::format("row {} is {} {}", i, name_of(s.rows[i].key.phase), s.rows[i].key.layer);
      });
      expect_spread(findings, s.rows[i].seconds, spread, name_of(key.phase));
      expect_near(findings, s.rows[i].received_bytes, bytes, "bytes");
    };
    const int last = comm.size() - 1;
    const RankSpread compute{0.05 * (n + 1), 0.1, 0.1 * n, last};
    const double halo_s = 0.05 * (n - 1) / n;
    // Rank 0 has no halo: its rows come first, in its order.
    row(0, {Phase::kForward, "conv1"}, compute, 0);
    row(1, {Phase::kReductionWait, ""},
        {0.9 - compute.mean - halo_s, n > 1 ? 0.85 - 0.1 * n : 0.8, 0.8, 0}, 256 * n);
    row(2, {Phase::kOther, ""}, {0.1, 0.1, 0.1, 0}, 0);
    row(3, {Phase::kHaloWait, "conv1"}, {halo_s, 0, 0.05, 1}, 64 * (n - 1));
    expect_spread(findings, s.step_s, {1, 1, 1, 0}, "step");
    expect_spread(findings, s.of(PhaseKind::kCompute), compute, "computing");
    expect_spread(findings, s.useful_s, compute, "useful");
    expect_near(findings, s.load_balance(), (n + 1) / (2 * n), "load balance");
    expect_near(findings, s.communication_efficiency(), 0.1 * n, "communication");
    double kinds = 0;
    for (const RankSpread& kind : s.kinds) kinds += kind.mean;
    expect_near(findings, kinds, 1, "sum of the kinds");
    expect_near(findings, s.halo.sent_bytes, 10 * n, "sent");
    expect_near(findings, s.halo.received_bytes, 20 * n, "received");
    expect_near(findings, s.halo.messages, static_cast<double>(count * (count - 1) / 2),
                "messages");
    expect_near(findings, s.reduction.bytes, 100 * n, "gradients");
    expect_near(findings, s.reduction.buckets, 4, "buckets of rank 0");
    expect_near(findings, s.reduction.bucket_seconds, 2 * n / (2 * n + 2), "seconds of a bucket");
    expect_near(findings, s.reduction.exposed_seconds, 0.9 - compute.mean - halo_s, "exposed");
    expect_near(findings, s.input.bytes, 7 * n, "read");
    expect_near(findings, s.input.calls, 3 * n, "calls");
    expect_near(findings, s.input.seconds, 0.5 * n, "seconds reading");
    expect_near(findings, s.input.wait_seconds, 0.25 * n, "waited");
    findings.expect(s.memory_bytes.min > 1e6, [] { return std::string("no memory"); });
  });
}

TEST_CASE("a phase of an unknown layer counts without its name, and untimed steps do not count") {
  for_comms("unknown layers", {2}, [](const Comm& comm, Findings& findings) {
    const PhaseSummary s = summarize_phases(comm, {""}, times_of(comm.rank()), {3, 2});
    expect_near(findings, s.step_s.mean, 1, "step");
    double sum = 0;
    for (const PhaseSummary::Row& row : s.rows) {
      findings.expect_equal<std::string>(row.key.layer, "", "layer");
      sum += row.seconds.mean;
    }
    expect_near(findings, sum, 1, "sum of the rows");
  });
}

TEST_CASE("every rank learns the hosts of some") {
  for_comms("hosts", [](const Comm& comm, Findings& findings) {
    const auto hosts = hosts_of(comm, {comm.size() - 1, 0});
    findings.expect_equal<std::size_t>(hosts.size(), 2, "hosts");
    findings.expect(!hosts.at(0).empty() && hosts.at(0) == hosts.at(1),
                    [&] { return fmt::format("'{}' and '{}'", hosts.at(0), hosts.at(1)); });
  });
}

/// The lines of this event.
std::vector<nlohmann::json> events_in(const std::filesystem::path& metrics,
                                      const std::string& event) {
  std::vector<nlohmann::json> found;
  std::ifstream in(metrics);
  for (std::string line; std::getline(in, line);)
    if (auto json = nlohmann::json::parse(line); json["event"] == event)
      found.push_back(std::move(json));
  return found;
}

// Bytes of the messages of one step of all ranks, of the gradients that they contribute, and of
// what they send to sum these by halving: each element leaves all ranks but one, twice.
struct Planned {
  std::int64_t halo = 0, gradients = 0, halving = 0;
};
Planned planned_bytes(const MeshShape& mesh) {
  const Model model = make_training_network(2);
  const ModelGeometry geometry = model.geometry(mesh.parts);
  const std::vector<DataType> types = model.types();
  const std::int64_t batch = local_batch(kGlobalBatch, mesh);
  Planned planned;
  for (std::int64_t part = 0; part < mesh.parts.count(); ++part) {
    for (std::size_t t = 1; t < geometry.tensors().size(); ++t) {
      const TensorGeometry& g = geometry.tensors()[t];
      planned.halo += 2 * batch * size_of(types[t]) *
                      (g.distribute.sent_volume(part) + g.broadcast.sent_volume(part));
    }
  }
  for (const ParameterPlacement& parameter : geometry.parameters())
    for (const SliceHolders& holders : parameter.holders) {
      const auto ranks = static_cast<std::int64_t>(holders.parts.size()) * mesh.replicas;
      if (ranks > 1) planned.gradients += 4 * ranks * holders.slice.volume();
      planned.halving += 4 * 2 * (ranks - 1) * holders.slice.volume();
    }
  planned.halo *= mesh.replicas;
  return planned;
}

void check_line(const nlohmann::json& line, const nlohmann::json& layers, const MeshShape& mesh,
                Findings& findings) {
  const double step_s = line["step_seconds"]["mean"].get<double>();
  for (const nlohmann::json* const list : {&layers.at("rows"), &line.at("kinds")}) {
    double sum = 0;
    for (const auto& row : *list) sum += row["mean"].get<double>();
    findings.expect(std::abs(sum - step_s) <= 0.01 * step_s, [&] {
      return fmt::format("{} take {} s of a step of {} s", list->dump(), sum, step_s);
    });
  }
  const auto steps = line["steps"].get<std::int64_t>();
  const Planned planned = planned_bytes(mesh);
  for (const char* direction : {"sent_bytes", "received_bytes"})
    findings.expect_equal(line["halo"][direction].get<std::int64_t>(), steps * planned.halo,
                          direction);
  findings.expect_equal(line["reduction"]["bytes"].get<std::int64_t>(), steps * planned.gradients,
                        "bytes of gradients");
  findings.expect((line["reduction"]["buckets"].get<std::int64_t>() > 0) == (mesh.ranks() > 1),
                  [] { return std::string("no buckets"); });
  // A part reads its planes, or all of the record to check it; headers are read as well.
  const std::int64_t least = steps * kGlobalBatch * 2 * kTrainingInput.volume();
  const auto read = line["input"]["bytes"].get<std::int64_t>();
  findings.expect(read >= least && read < (mesh.parts.count() + 1) * least,
                  [&] { return fmt::format("{} bytes read, of samples of {}", read, least); });
  findings.expect(line["input"]["calls"].get<std::int64_t>() >= steps * kGlobalBatch &&
                      line["input"]["seconds"].get<double>() > 0,
                  [] { return std::string("no read calls"); });
}

TEST_CASE("the phases of a run add up to its steps, and a resumed run goes on with them") {
  const SharedDirectory directory(test_world());
  if (test_world().rank() == 0) write_training_data(directory.path() / "data");
  test_world().barrier();
  for_comms("phases of runs", {1, 2, 4}, [&](const Comm& comm, Findings& findings) {
    for (const MeshShape& mesh :
         {MeshShape{comm.size(), {1, 1, 1}},
          MeshShape{1, {comm.size() / 2 + comm.size() % 2, comm.size() > 1 ? 2 : 1, 1}}}) {
      TrainingRequest request;
      request.mesh = mesh;
      request.data = directory.path() / "data";
      request.out = directory.path() / fmt::format("{}-{}", mesh.replicas, to_string(mesh.parts));
      request.steps = 10;
      train(comm, request);
      for (const auto& entry : std::filesystem::directory_iterator(request.out / "checkpoints"))
        request.resume = entry.path();
      request.steps = 12;
      train(comm, request);
      if (comm.rank() != 0) continue;
      const auto lines = events_in(request.out / "metrics.jsonl", "phases");
      // The first epoch, the second, and what remains at the end of a job.
      const auto layers = events_in(request.out / "metrics.jsonl", "layers");
      findings.expect_equal(layers.size(), lines.size(), "lines of layers");
      std::vector<std::int64_t> last, steps;
      for (std::size_t i = 0; i < std::min(lines.size(), layers.size()); ++i) {
        const nlohmann::json& line = lines[i];
        last.push_back(line["step"].get<std::int64_t>());
        steps.push_back(line["steps"].get<std::int64_t>());
        for (const char* key : {"step", "steps"})
          findings.expect(layers[i][key] == line[key], [&] { return layers[i].dump(); });
        check_line(line, layers[i], mesh, findings);
      }
      // Four steps per epoch; stopped after ten.
      findings.expect(last == std::vector<std::int64_t>{4, 8, 10, 12} &&
                          steps == std::vector<std::int64_t>{4, 4, 2, 2},
                      [&] { return fmt::format("{} lines", lines.size()); });
      findings.expect_equal<std::size_t>(events_in(request.out / "metrics.jsonl", "step").size(),
                                         12, "steps");
    }
  });
}

// Flat sums are counted by their all-reduces, others by their messages.
void check_bytes(const Comm& comm, const TrainingRequest& request, Findings& findings) {
  const MeshShape& mesh = request.mesh;
  const CountedMessages before = counted_messages();
  train(comm, request);
  const CountedMessages after = counted_messages();
  std::vector<std::int64_t> counted = {
      after.sends - before.sends, after.sent_bytes - before.sent_bytes, after.sums - before.sums,
      after.summed_bytes - before.summed_bytes, after.float_bytes - before.float_bytes};
  const std::int64_t sums_of_first = comm.rank() == 0 ? counted[2] : 0;
  comm.sum(counted);
  if (comm.rank() != 0) return;
  const auto lines = events_in(request.out / "metrics.jsonl", "phases");
  findings.expect_equal<std::size_t>(lines.size(), 1, "lines");
  const auto reported = [&](const char* group, const char* name) {
    return lines.at(0)[group][name].get<std::int64_t>();
  };
  const std::string where = fmt::format(" on {} x {}, {}", mesh.replicas, to_string(mesh.parts),
                                        name_of(request.reduction));
  findings.expect_equal(reported("halo", "messages"), counted[0], "messages" + where);
  findings.expect_equal(reported("halo", "sent_bytes"), counted[1], "bytes sent" + where);
  const bool flat = request.reduction == Reduction::kFlat;
  const Planned planned = planned_bytes(mesh);
  findings.expect_equal(reported("reduction", "bytes"), request.steps * planned.gradients,
                        "bytes of gradients" + where);
  if (flat) {
    findings.expect_equal(reported("reduction", "buckets"), sums_of_first, "sums" + where);
    findings.expect_equal(reported("reduction", "bytes"), counted[3], "bytes summed" + where);
  } else {
    findings.expect(reported("reduction", "buckets") > 0, [&] { return "no buckets" + where; });
  }
  findings.expect_equal(counted[4], flat ? 0 : request.steps * planned.halving,
                        "bytes sent for sums" + where);
  findings.expect((counted[1] > 0) == (mesh.parts.count() > 1) && counted[3] + counted[4] > 0,
                  [&] { return "nothing counted" + where; });
}

TEST_CASE("the bytes that a run reports are those that it hands to MPI") {
  const SharedDirectory directory(test_world());
  if (test_world().rank() == 0) write_training_data(directory.path() / "data");
  test_world().barrier();
  for_comms("bytes of runs", {2, 4, 16}, [&](const Comm& comm, Findings& findings) {
    const std::int64_t side = comm.size() == 16 ? 4 : 2;
    for (const MeshShape& mesh :
         {MeshShape{comm.size(), {1, 1, 1}}, MeshShape{1, {side, comm.size() / side, 1}}})
      for (const Reduction reduction : {Reduction::kFlat, Reduction::kHalving}) {
        if (mesh.replicas > kGlobalBatch) continue;
        TrainingRequest request;
        request.mesh = mesh;
        request.reduction = reduction;
        request.data = directory.path() / "data";
        request.out = directory.path() / fmt::format("{}-{}-{}", mesh.replicas,
                                                     to_string(mesh.parts), name_of(reduction));
        request.steps = 4;
        check_bytes(comm, request, findings);
      }
  });
}

}  // namespace
}  // namespace halomesh
