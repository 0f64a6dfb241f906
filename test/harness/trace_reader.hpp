// SPDX-License-Identifier: Apache-2.0
// Reads a gzipped trace as strictly as Perfetto's importer, which drops events that break its
// rules.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace halomesh::test {

/// Unpacks the file by gzip, which fails if it is damaged or truncated.
inline std::string gunzip(const std::filesystem::path& file) {
  const std::string command = "gzip -dc '" + file.string() + "'";
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run gzip");
  std::string text;
  std::vector<char> buffer(1 << 16);
  for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    text.append(buffer.data(), n);
  if (::pclose(pipe) != 0) throw std::runtime_error("gzip cannot unpack " + file.string());
  return text;
}

/// A trace and its problems.
class TraceReader {
 public:
  using Json = nlohmann::json;
  struct Slice {
    std::int64_t pid = 0, tid = 0, begin_ns = 0, end_ns = 0;
    std::string name;
    Json args;
  };

  explicit TraceReader(const std::string& text) : json_(Json::parse(text)) {
    expect(json_.at("displayTimeUnit") == "ms", "displayTimeUnit");
    error_ns_ = std::llround(other().at("clock_error_us").get<double>() * 1e3);
    for (const Json& event : json_.at("traceEvents")) read(event);
    check_slices();
    check_arrows();
    check_sums();
    check_names();
  }

  const Json& other() const { return json_.at("otherData"); }
  const std::vector<std::string>& problems() const { return problems_; }
  const std::vector<Slice>& slices() const { return slices_; }
  /// The slices of one thread of all ranks.
  std::vector<Slice> slices_of(std::int64_t tid) const {
    std::vector<Slice> found;
    for (const Slice& slice : slices_)
      if (slice.tid == tid) found.push_back(slice);
    return found;
  }
  std::set<std::int64_t> ranks() const { return ranks_; }
  std::size_t arrows() const { return starts_.size(); }
  std::size_t sums() const { return sums_.size(); }
  std::size_t counters() const { return counters_; }
  /// The longest way back in time of all arrows, in nanoseconds; negative if all point forward.
  std::int64_t furthest_back_ns() const { return furthest_back_ns_; }
  std::string process_name(std::int64_t pid) const { return process_names_.at(pid); }

 private:
  struct End {
    std::int64_t pid = 0, tid = 0, at_ns = 0;
  };
  using Key = std::tuple<std::int64_t, std::string, std::string>;  // id, cat, name

  void expect(bool holds, const std::string& problem) {
    if (!holds && problems_.size() < 20) problems_.push_back(problem);
  }
  static std::int64_t ns(const Json& microseconds) {
    return std::llround(microseconds.get<double>() * 1e3);
  }
  static Key key_of(const Json& event) {
    return {event.at("id").get<std::int64_t>(), event.at("cat"), event.at("name")};
  }

  void read(const Json& event) {
    const std::string kind = event.at("ph");
    const auto pid = event.at("pid").get<std::int64_t>(), tid = event.at("tid").get<std::int64_t>();
    ranks_.insert(pid);
    if (kind == "M") {
      const std::string name = event.at("name");
      described_.insert({name, pid, name.starts_with("thread") ? tid : 0});
      if (name == "process_name") process_names_[pid] = event.at("args").at("name");
      return;
    }
    const std::int64_t at_ns = ns(event.at("ts"));
    expect(at_ns >= 0, "before the beginning: " + event.dump());
    if (kind == "C") {
      ++counters_;
      for (const Json& value : event.at("args")) expect(value.is_number(), event.dump());
      return;
    }
    used_.insert({pid, tid});
    if (kind == "X") {
      const std::int64_t length = ns(event.at("dur"));
      expect(length >= 0, "negative: " + event.dump());
      slices_.push_back({pid, tid, at_ns, at_ns + length, event.at("name"), event.at("args")});
    } else if (kind == "s" || kind == "f") {
      const bool start = kind == "s";
      expect(start || event.at("bp") == "e", "does not bind to its slice: " + event.dump());
      const Key key = key_of(event);
      expect(std::get<0>(key) >= 0 && std::get<0>(key) < (std::int64_t{1} << 53), event.dump());
      auto& ends = start ? starts_ : finishes_;
      expect(ends.insert({key, {pid, tid, at_ns}}).second, "id used twice: " + event.dump());
    } else if (kind == "b" || kind == "e") {
      auto& sum = sums_[key_of(event)];
      (kind == "b" ? sum.first : sum.second).push_back(at_ns);
    } else {
      expect(false, "unknown event: " + event.dump());
    }
  }

  // Checks that a slice ends within the one in which it begins. Slices are sorted by time alone, as
  // in the importer.
  void check_slices() {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<const Slice*>> threads;
    for (const Slice& slice : slices_) threads[{slice.pid, slice.tid}].push_back(&slice);
    for (auto& [thread, slices] : threads) {
      std::stable_sort(slices.begin(), slices.end(),
                       [](const Slice* a, const Slice* b) { return a->begin_ns < b->begin_ns; });
      std::vector<const Slice*> open;
      for (const Slice* slice : slices) {
        while (!open.empty() && open.back()->end_ns <= slice->begin_ns) open.pop_back();
        expect(open.empty() || slice->end_ns <= open.back()->end_ns,
               "spills: " + slice->name + " at " + std::to_string(slice->begin_ns) +
                   " ns of rank " + std::to_string(slice->pid));
        open.push_back(slice);
      }
    }
  }

  void check_arrows() {
    std::map<std::pair<std::int64_t, std::int64_t>, std::map<std::int64_t, std::int64_t>> ends;
    for (const Slice& slice : slices_) {
      std::int64_t& end = ends[{slice.pid, slice.tid}][slice.begin_ns];
      end = std::max(end, slice.end_ns);
    }
    const auto in_slice = [&](const End& end) {
      const auto thread = ends.find({end.pid, end.tid});
      if (thread == ends.end()) return false;
      auto after = thread->second.upper_bound(end.at_ns);
      return after != thread->second.begin() && (--after)->second > end.at_ns;
    };
    expect(starts_.size() == finishes_.size(), "arrows without an end");
    for (const auto& [key, start] : starts_) {
      const auto finish = finishes_.find(key);
      expect(finish != finishes_.end(),
             "arrow without an end: " + std::to_string(std::get<0>(key)));
      if (finish == finishes_.end()) continue;
      expect(in_slice(start) && in_slice(finish->second),
             "no slice is open at an end of arrow " + std::to_string(std::get<0>(key)));
      furthest_back_ns_ = std::max(furthest_back_ns_, start.at_ns - finish->second.at_ns);
      expect(start.at_ns - finish->second.at_ns <= error_ns_,
             "arrow " + std::to_string(std::get<0>(key)) + " points back by " +
                 std::to_string(start.at_ns - finish->second.at_ns) + " ns");
    }
  }

  void check_sums() {
    for (const auto& [key, ends] : sums_)
      expect(ends.first.size() == 1 && ends.second.size() == 1 &&
                 ends.first.front() <= ends.second.front(),
             "begin and end of a sum do not pair: " + std::to_string(std::get<0>(key)));
  }

  void check_names() {
    for (const std::int64_t rank : ranks_)
      for (const char* name : {"process_name", "process_sort_index"})
        expect(described_.count({name, rank, 0}) == 1, name + (" of rank " + std::to_string(rank)));
    for (const auto& [pid, tid] : used_)
      for (const char* name : {"thread_name", "thread_sort_index"})
        expect(described_.count({name, pid, tid}) == 1, name + (" of rank " + std::to_string(pid)));
    std::set<std::int64_t> traced;
    for (const Json& rank : other().at("traced_ranks")) traced.insert(rank.get<std::int64_t>());
    expect(traced == ranks_, "traced_ranks are not the processes");
  }

  Json json_;
  std::vector<std::string> problems_;
  std::vector<Slice> slices_;
  std::map<Key, End> starts_, finishes_;
  std::map<Key, std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>> sums_;
  std::set<std::int64_t> ranks_;
  std::set<std::pair<std::int64_t, std::int64_t>> used_;
  std::set<std::tuple<std::string, std::int64_t, std::int64_t>> described_;
  std::map<std::int64_t, std::string> process_names_;
  std::size_t counters_ = 0;
  std::int64_t error_ns_ = 0, furthest_back_ns_ = std::numeric_limits<std::int64_t>::min();
};

/// All problems as one text, for messages.
inline std::string listed(const std::vector<std::string>& problems) {
  std::string text;
  for (const std::string& problem : problems) text += problem + "\n";
  return text;
}

}  // namespace halomesh::test
