// SPDX-License-Identifier: Apache-2.0
// The trace of a run: see run_timeline.hpp.
#include "runtime/trace/run_timeline.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "error.hpp"
#include "narrow.hpp"
#include "runtime/trace/timeline_text.hpp"
#include "runtime/trace/trace_file.hpp"

namespace halomesh {
namespace {

// The events to reserve for a step that has not been counted, for the loader's thread in a step,
// and between steps.
constexpr std::size_t kUnknownStep = 1 << 14, kLoads = 64, kJobs = 16;
constexpr int kSlowest = 4;

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  const std::string all = name.data();
  return all.substr(0, all.find('.'));
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The time in compute phases. They contain at most the packing of messages, which is short.
double compute_seconds(const std::vector<TimelineEvent>& events) {
  std::int64_t ns = 0;
  for (const TimelineEvent& event : events)
    if (event.kind == TimelineEvent::Kind::kPhase && kind_of(event.phase) == PhaseKind::kCompute)
      ns += event.end_ns - event.begin_ns;
  return static_cast<double>(ns) * 1e-9;
}

}  // namespace

RunTimeline::RunTimeline(const Comm& world, const MeshShape& mesh, TraceRequest request)
    : RunTimeline(world, mesh, std::move(request), world.split_by_node(), Trace::now_ns) {}

RunTimeline::RunTimeline(const Comm& world, const MeshShape& mesh, TraceRequest request, Comm node,
                         ClockSync::Clock clock)
    : world_(world),
      mesh_(mesh),
      request_(std::move(request)),
      clock_(clock),
      sync_(world, std::move(node), std::move(clock)) {
  sync_.measure();
  recorder_.reserve(kJobs, 0);
}

bool RunTimeline::recorded_here() const {
  return request_.ranks.empty() ||
         std::binary_search(request_.ranks.begin(), request_.ranks.end(), world_.rank());
}

void RunTimeline::before_step(std::int64_t number) {
  if (written_) return;
  ++run_steps_;
  if (run_steps_ == request_.steps.first) {
    sync_.measure();
    first_step_ = number;
    if (recorded_here()) recorder_.open();
  }
  // Every step has equal numbers of messages and chunks.
  const std::size_t expected =
      run_steps_ == 1 ? kUnknownStep : recorder_.step_events() + recorder_.step_events() / 4;
  if (run_steps_ >= request_.steps.first && recorded_here())
    recorder_.reserve(expected + kJobs, kLoads);
  recorder_.begin_step(number);
}

std::optional<TraceReport> RunTimeline::after_step() {
  if (written_) return {};
  recorder_.end_step();
  if (run_steps_ >= request_.steps.first) ++steps_;
  if (run_steps_ < request_.steps.last()) return {};
  return write();
}

std::optional<TraceReport> RunTimeline::finish() {
  if (written_) return {};
  recorder_.end_step();
  // A complete run that is repeated must not replace its trace by an empty one.
  if (run_steps_ == 0)
    return TraceReport{
        fmt::format("no trace written to {}: this run had no step to do", request_.file.string()),
        {}};
  return write();
}

/// Adds the ranks that computed longest.
void RunTimeline::add_slowest(std::vector<int>& ranks) const {
  struct {
    double seconds;
    int rank;
  } mine{compute_seconds(recorder_.events()), world_.rank()}, most{};
  for (int i = 0; i < kSlowest; ++i) {
    mpi_check(MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, world_.handle()));
    if (most.seconds > 0) ranks.push_back(most.rank);
    if (most.rank == world_.rank()) mine.seconds = -1;
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
}

std::string RunTimeline::opening(const std::vector<int>& ranks, std::int64_t origin_ns,
                                 std::int64_t dropped) const {
  const std::int64_t now_ns = sync_.common_ns(clock_());
  const nlohmann::ordered_json other = {
      {"program", request_.program},
      {"version", request_.version},
      {"clock_error_us", static_cast<double>(sync_.error_ns()) * 1e-3},
      {"ranks", mesh_.ranks()},
      {"traced_ranks", ranks},
      {"first_step", first_step_},
      {"steps", steps_},
      {"dropped_events", dropped},
      {"started_unix", unix_seconds() - static_cast<double>(now_ns - origin_ns) * 1e-9}};
  // Every later event starts with a comma.
  return fmt::format(R"({{"displayTimeUnit":"ms","otherData":{},"traceEvents":[{})", other.dump(),
                     '\n') +
         fmt::format(
             R"({{"ph":"M","name":"process_sort_index","pid":{0},"tid":0,"args":{{"sort_index":{0}}}}})",
             ranks.front());
}

TraceReport RunTimeline::report(const std::vector<int>& ranks, std::int64_t bytes,
                                std::int64_t dropped) const {
  TraceReport report;
  report.summary = fmt::format("trace of {} of {} ranks in {}: ", ranks.size(), mesh_.ranks(),
                               request_.file.string());
  if (steps_ > 0)
    report.summary += fmt::format("steps {} to {}, ", first_step_, first_step_ + steps_ - 1);
  report.summary += fmt::format("{:.3g} MB, ", static_cast<double>(bytes) * 1e-6);
  report.summary += sync_.nodes() == 1
                        ? "one clock"
                        : fmt::format("clocks of {} nodes aligned within {:.3g} us", sync_.nodes(),
                                      static_cast<double>(sync_.error_ns()) * 1e-3);
  if (steps_ < request_.steps.count)
    report.warnings.push_back(fmt::format(
        "the trace has {} of the {} steps of --trace-steps {}+{}: this run ended after {} steps",
        steps_, request_.steps.count, request_.steps.first, request_.steps.count, run_steps_));
  if (dropped > 0)
    report.warnings.push_back(fmt::format(
        "{} events of the trace were dropped because they did not fit the memory reserved for "
        "them, so the arrows of messages are left out; start the window at a later step, e.g. "
        "--trace-steps {}+{}",
        dropped, request_.steps.first + 2, request_.steps.count));
  return report;
}

TraceReport RunTimeline::write() {
  written_ = true;
  recorder_.close();
  sync_.measure();
  std::vector<int> ranks = request_.ranks;
  if (ranks.empty()) {
    ranks = default_trace_ranks(mesh_);
    if (narrow<std::int64_t>(ranks.size()) < mesh_.ranks()) add_slowest(ranks);
  }
  const bool traced = std::binary_search(ranks.begin(), ranks.end(), world_.rank());
  const std::int64_t dropped = world_.sum(traced ? recorder_.dropped() : std::int64_t{0});
  TimelineRank mine{
      world_.rank(), host_name(), {}, world_.rank() == ranks.front(), request_.samples_of_step};
  if (traced) mine.events = recorder_.events();
  std::int64_t earliest = std::numeric_limits<std::int64_t>::max();
  for (TimelineEvent& event : mine.events) {
    for (std::int64_t* time : {&event.begin_ns, &event.end_ns, &event.mark_ns})
      *time = sync_.common_ns(*time);
    earliest = std::min(earliest, event.begin_ns);
  }
  const std::int64_t origin_ns = -world_.max(-earliest);
  for (TimelineEvent& event : mine.events)
    for (std::int64_t* time : {&event.begin_ns, &event.end_ns, &event.mark_ns}) *time -= origin_ns;
  const TimelineFrame frame{mesh_.ranks(), mesh_.parts.count(), ranks, first_step_, dropped == 0};
  const std::string text = traced ? timeline_text(frame, mine) : std::string();
  const std::string begin = world_.rank() == 0 ? opening(ranks, origin_ns, dropped) : std::string();
  return report(ranks, write_trace_file(world_, request_.file, begin, text), dropped);
}

}  // namespace halomesh
