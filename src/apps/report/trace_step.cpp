// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/trace_step.hpp"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "error.hpp"
#include "runtime/posix/input_file.hpp"

namespace halomesh {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{2} << 30;  // of text
constexpr const char* kHint = "give a file written by halomesh train --trace";

std::string read_gzip(const std::filesystem::path& path) {
  require_regular_file(path);
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  require(file != nullptr, "cannot open " + path.string(), "check its permissions");
  std::string text;
  std::vector<char> block(1 << 20);
  while (true) {
    const int bytes = gzread(file.get(), block.data(), static_cast<unsigned>(block.size()));
    int code = Z_OK;
    const char* reason = gzerror(file.get(), &code);
    require(bytes >= 0 && (code == Z_OK || code == Z_STREAM_END),
            fmt::format("{}: damaged gzip data ({})", path.string(), reason), kHint);
    if (bytes == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(bytes));
    require(text.size() <= kMostBytes,
            fmt::format("{}: more than {} bytes of events", path.string(), kMostBytes),
            "trace fewer steps or ranks");
  }
}

double number(const Json& json, const char* key) {
  const auto value = json.find(key);
  return value != json.end() && value->is_number() ? value->get<double>()
                                                   : std::numeric_limits<double>::quiet_NaN();
}

std::string text(const Json& json, const char* key) {
  const auto value = json.find(key);
  return value != json.end() && value->is_string() ? value->get<std::string>() : std::string();
}

std::int64_t whole(double value) {
  return std::isfinite(value) ? std::llround(std::clamp(value, -1.0, 1e15)) : -1;
}

/// Takes what it needs of each event while the text is parsed, so that the events are never all in
/// memory.
struct Collector {
  std::map<std::int64_t, std::string> names;
  std::map<std::int64_t, std::vector<TraceSlice>> slices, steps;  // by step

  void take(const Json& event) {
    const std::int64_t rank = whole(number(event, "pid"));
    const Json arguments = event.value("args", Json::object());
    if (!arguments.is_object()) return;
    if (text(event, "ph") == "M" && text(event, "name") == "process_name")
      names[rank] = text(arguments, "name");
    if (text(event, "ph") != "X" || number(event, "tid") != 0) return;
    const double begin = number(event, "ts"), length = number(event, "dur");
    const std::int64_t step = whole(number(arguments, "step"));
    if (step < 0 || rank < 0 || !(length >= 0) || !std::isfinite(begin)) return;
    TraceSlice slice{rank, text(event, "name"), text(arguments, "layer"), begin, begin + length};
    (slice.phase == "step" ? steps : slices)[step].push_back(std::move(slice));
  }
};

}  // namespace

TraceStep read_trace_step(const std::filesystem::path& path) {
  const std::string all = read_gzip(path);
  Collector collected;
  const auto keep = [&](int, Json::parse_event_t event, Json& value) {
    if (event != Json::parse_event_t::object_end || !value.contains("ph")) return true;
    collected.take(value);
    return false;
  };
  const Json root = Json::parse(all, keep, false);
  require(!root.is_discarded(), path.string() + ": not JSON", kHint);
  require(!collected.steps.empty(), path.string() + ": no traced step", kHint);

  TraceStep result;
  result.name = path.filename().string();
  const auto& [step, bounds] = *collected.steps.begin();
  result.step = step;
  double origin = bounds.front().begin_us;
  for (const TraceSlice& slice : bounds) origin = std::min(origin, slice.begin_us);
  for (const TraceSlice& slice : bounds)
    result.traced.emplace_back(slice.rank, collected.names.count(slice.rank) > 0
                                               ? collected.names[slice.rank]
                                               : fmt::format("rank {}", slice.rank));
  std::sort(result.traced.begin(), result.traced.end());
  result.slices = std::move(collected.slices[step]);
  for (TraceSlice& slice : result.slices) {
    slice.begin_us -= origin;
    slice.end_us -= origin;
  }
  std::stable_sort(
      result.slices.begin(), result.slices.end(), [](const TraceSlice& a, const TraceSlice& b) {
        return a.begin_us != b.begin_us ? a.begin_us < b.begin_us : a.end_us > b.end_us;
      });
  const Json about = root.is_object() ? root.value("otherData", Json::object()) : Json::object();
  if (about.is_object()) {
    result.ranks = std::max<std::int64_t>(whole(number(about, "ranks")), 0);
    result.clock_error_us = number(about, "clock_error_us");
    result.dropped_events = std::max<std::int64_t>(whole(number(about, "dropped_events")), 0);
  }
  return result;
}

}  // namespace halomesh
