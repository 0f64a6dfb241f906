// SPDX-License-Identifier: Apache-2.0
// The timeline of one rank as text: see timeline_text.hpp.
#include "runtime/trace/timeline_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "error.hpp"
#include "runtime/log/json_bytes.hpp"

namespace halomesh {
namespace {

using Event = TimelineEvent;
using Kind = TimelineEvent::Kind;

constexpr std::array<const char*, 5> kThreads = {"compute", "halo messages", "gradient sums",
                                                 "loader", "staging and checkpoints"};
// Identifiers combine a step, a tag, ranks and a part. They must be exact as doubles.
constexpr std::int64_t kTags = 4096, kLargestId = std::int64_t{1} << 53;

int thread_of(Kind kind) {
  switch (kind) {
    case Kind::kPhase:
      return 0;
    case Kind::kSend:
    case Kind::kReceive:
      return 1;
    case Kind::kSum:
      return 2;
    case Kind::kLoad:
      return 3;
    case Kind::kJob:
      break;
  }
  return 4;
}

std::string json_text(std::string_view text) { return dump_json(nlohmann::json(text)); }

std::string microseconds(std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

class Writer {
 public:
  Writer(const TimelineFrame& frame, const TimelineRank& rank) : frame_(frame), rank_(rank) {
    // The receiver of a message has the larger number of combinations.
    const std::int64_t steps = rank.events.empty() ? 1 : last_step() - frame.first_step + 1;
    require(static_cast<double>(steps) * kTags * static_cast<double>(frame.ranks) *
                    static_cast<double>(frame.parts) <
                static_cast<double>(kLargestId),
            "the messages of a trace cannot be numbered", "trace fewer steps");
  }

  std::string text() {
    describe_process();
    std::vector<Event> messages, loads, jobs;
    for (const Event& event : rank_.events) {
      const int thread = thread_of(event.kind);
      if (thread == 1) messages.push_back(event);
      if (thread == 2) sum(event);
      if (thread == 3) loads.push_back(event);
      if (thread == 4) jobs.push_back(event);
    }
    phases();
    for (const Event& event : in_sequence(messages)) message(event);
    for (const Event& event : in_sequence(loads))
      slice(3, event, json_text(fmt::format("{} batch", event.name)), "loader",
            fmt::format(R"("batch":{})", event.tag));
    for (const Event& event : in_sequence(jobs))
      slice(4, event, json_text(event.name.empty() ? name_of(event.phase) : event.name), "job", "");
    if (rank_.counters) counters();
    return fmt::to_string(out_);
  }

 private:
  std::int64_t last_step() const {
    std::int64_t last = frame_.first_step;
    for (const Event& event : rank_.events) last = std::max(last, event.step);
    return last;
  }

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void describe(const char* what, int thread, const std::string& args) {
    add(R"(,{}{{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{{}}}}})", '\n', what, rank_.rank,
        thread, args);
  }

  void describe_process() {
    describe(
        "process_name", 0,
        fmt::format(R"("name":{})", json_text(fmt::format("rank {} (replica {}, part {}) {}",
                                                          rank_.rank, rank_.rank / frame_.parts,
                                                          rank_.rank % frame_.parts, rank_.host))));
    describe("process_sort_index", 0, fmt::format(R"("sort_index":{})", rank_.rank));
    std::array<bool, kThreads.size()> used{};
    for (const Event& event : rank_.events)
      used[static_cast<std::size_t>(thread_of(event.kind))] = true;
    for (int thread = 0; thread < static_cast<int>(kThreads.size()); ++thread) {
      const auto index = static_cast<std::size_t>(thread);
      if (!used[index]) continue;
      describe("thread_name", thread, fmt::format(R"("name":"{}")", kThreads[index]));
      describe("thread_sort_index", thread, fmt::format(R"("sort_index":{})", thread));
    }
  }

  void slice(int thread, const Event& event, const std::string& name, const char* category,
             const std::string& args) {
    add(R"(,{}{{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
        '\n', name, category, rank_.rank, thread, microseconds(event.begin_ns),
        microseconds(event.end_ns - event.begin_ns), args);
  }

  // Writes phases. They were recorded in the order of their ends, but readers want the outer of two
  // slices first.
  void phases() {
    std::vector<Event> sorted;
    for (const Event& event : rank_.events)
      if (event.kind == Kind::kPhase) sorted.push_back(event);
    std::reverse(sorted.begin(), sorted.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const Event& a, const Event& b) {
      return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
    });
    for (const Event& event : sorted) {
      const std::string layer =
          event.name.empty() ? "" : fmt::format(R"("layer":{},)", json_text(event.name));
      slice(0, event, json_text(name_of(event.phase)), name_of(kind_of(event.phase)),
            fmt::format(R"({}"step":{})", layer, event.step));
    }
  }

  // Sorts events that one thread did in sequence. Each lasts at least a nanosecond, so that an
  // arrow finds its slice open.
  static std::vector<Event> in_sequence(std::vector<Event> events) {
    std::stable_sort(events.begin(), events.end(),
                     [](const Event& a, const Event& b) { return a.begin_ns < b.begin_ns; });
    std::int64_t free_ns = 0;
    for (Event& event : events) {
      event.begin_ns = std::max(event.begin_ns, free_ns);
      event.end_ns = std::max(event.end_ns, event.begin_ns + 1);
      free_ns = event.end_ns;
    }
    return events;
  }

  void message(const Event& event) {
    const bool sent = event.kind == Kind::kSend;
    const std::int64_t first = rank_.rank / frame_.parts * frame_.parts, peer = first + event.peer;
    const std::string name = sent ? fmt::format("send {} -> {}", event.name, peer)
                                  : fmt::format("receive {} <- {}", event.name, peer);
    slice(1, event, json_text(name), "halo",
          fmt::format(R"("peer":{},"layer":{},"bytes":{},"step":{})", peer, json_text(event.name),
                      event.bytes, event.step));
    if (!frame_.arrows || !std::binary_search(frame_.traced.begin(), frame_.traced.end(), peer))
      return;
    // A message leaves when its slice ends and arrives when the wait for it ends.
    const std::int64_t at_ns =
        sent ? event.end_ns - 1 : std::clamp(event.mark_ns, event.begin_ns, event.end_ns - 1);
    const std::int64_t source = sent ? rank_.rank : peer;
    const std::int64_t part = sent ? event.peer : rank_.rank - first;
    const std::int64_t id = (unique(event) * frame_.ranks + source) * frame_.parts + part;
    add(R"(,{}{{"ph":"{}",{}"id":{},"name":"message","cat":"halo","pid":{},"tid":1,"ts":{}}})",
        '\n', sent ? 's' : 'f', sent ? "" : R"("bp":"e",)", id, rank_.rank, microseconds(at_ns));
  }

  std::int64_t unique(const Event& event) const {
    return (event.step - frame_.first_step) * kTags + event.tag;
  }

  // Sums overlap, so each has a track of its own.
  void sum(const Event& event) {
    const std::int64_t id = unique(event) * frame_.ranks + rank_.rank;
    const auto end_of = [&](char phase, std::int64_t at_ns, const std::string& args) {
      add(R"(,{}{{"ph":"{}","id":{},"name":"bucket {}","cat":"gradient sum","pid":{},"tid":2,)"
          R"("ts":{},"args":{{{}}}}})",
          '\n', phase, id, event.tag, rank_.rank, microseconds(at_ns), args);
    };
    end_of('b', event.begin_ns,
           fmt::format(R"("bucket":{},"bytes":{},"step":{})", event.tag, event.bytes, event.step));
    end_of('e', event.end_ns, "");
  }

  void counters() {
    for (const Event& step : rank_.events) {
      if (step.kind != Kind::kPhase || step.phase != Phase::kStep) continue;
      std::int64_t received = 0;
      for (const Event& event : rank_.events)
        if (event.kind == Kind::kReceive && event.step == step.step) received += event.bytes;
      const double seconds = static_cast<double>(step.end_ns - step.begin_ns) * 1e-9;
      if (seconds > 0)
        count(step, "samples/s", static_cast<double>(rank_.samples_of_step) / seconds);
      count(step, "halo kB", static_cast<double>(received) * 1e-3);
    }
  }
  void count(const Event& step, const char* what, double value) {
    add(R"(,{}{{"ph":"C","name":"{}","pid":{},"tid":0,"ts":{},"args":{{"value":{:.6g}}}}})", '\n',
        what, rank_.rank, microseconds(step.begin_ns), value);
  }

  const TimelineFrame& frame_;
  const TimelineRank& rank_;
  fmt::memory_buffer out_;
};

}  // namespace

std::string timeline_text(const TimelineFrame& frame, const TimelineRank& rank) {
  return Writer(frame, rank).text();
}

}  // namespace halomesh
