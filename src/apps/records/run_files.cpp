// SPDX-License-Identifier: Apache-2.0
// What a run has written so far: see run_files.hpp.
#include "src/apps/records/run_files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string_view>
#include <utility>

#include "error.hpp"
#include "runtime/posix/input_file.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kMostRunBytes = 1 << 28;  // of run.json: a line of binding per rank

double number(const nlohmann::json& json, const char* key) {
  const auto value = json.find(key);
  return value != json.end() && value->is_number() ? value->get<double>() : std::nan("");
}

/// A count or a number of a step: whatever the file says, one that can be computed with.
std::int64_t count(const nlohmann::json& json, const char* key) {
  const double value = number(json, key);
  return std::isfinite(value) ? std::llround(std::clamp(value, -1.0, 1e15)) : 0;
}

double time_of(const nlohmann::json& json) {
  const double time = number(json, "time");
  return std::isfinite(time) ? time : 0;
}

std::optional<struct stat> status_of(const std::filesystem::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return status;
}

/// The bytes of a regular file from `position` on.
std::string read_from(const std::filesystem::path& path, std::uintmax_t position) {
  require_regular_file(path);
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(position));
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad()) throw Error("cannot read " + path.string());
  return text;
}

}  // namespace

RunFiles::RunFiles(std::filesystem::path directory) : directory_(std::move(directory)) {
  require(std::filesystem::is_directory(directory_),
          directory_.string() + " is not a directory of a run",
          "give the directory that train wrote with --out");
  update();
  require(!metrics_missing_ || !run_missing_,
          directory_.string() + " holds neither run.json nor metrics.jsonl",
          "give the directory that train wrote with --out");
}

std::string RunFiles::name() const {
  std::filesystem::path path = directory_.lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  if (path.filename() == "." || path.filename() == "..")
    path = std::filesystem::absolute(path).lexically_normal().parent_path();
  return path.filename().string();
}

bool RunFiles::update() {
  const std::filesystem::path metrics = directory_ / "metrics.jsonl";
  bool changed = false;
  if (const auto status = status_of(directory_ / "run.json");
      run_missing_ = !status.has_value(), status) {
    const std::int64_t time =
        std::int64_t{status->st_mtim.tv_sec} * 1'000'000'000 + status->st_mtim.tv_nsec;
    changed = std::exchange(run_time_, time) != time;
    changed |= std::exchange(run_file_, std::uint64_t{status->st_ino}) != status->st_ino;
    if (changed) read_run();
  }
  const auto status = status_of(metrics);
  metrics_missing_ = !status.has_value();
  if (!status) return changed;
  // A resumed run replaces the file by what belongs to its curve.
  if (status->st_ino != file_ || std::uintmax_t(status->st_size) < position_) forget();
  file_ = status->st_ino;
  if (std::uintmax_t(status->st_size) > position_) {
    const std::int64_t before = lines_;
    read_metrics(read_from(metrics, position_));
    changed |= lines_ != before;
  }
  if (last_written_ == 0) last_written_ = static_cast<double>(status->st_mtim.tv_sec);
  return changed;
}

void RunFiles::forget() {
  steps_.clear();
  evaluations_.clear();
  phases_.clear();
  stage_ = nullptr;
  last_written_ = 0;
  position_ = 0;
  lines_ = damaged_ = first_damaged_ = 0;
  cut_ = false;
}

void RunFiles::read_run() {
  const std::string text = read_input_file(directory_ / "run.json", kMostRunBytes);
  run_ = nlohmann::ordered_json::parse(text, nullptr, false);
  run_damaged_ = !run_.is_object();
  if (run_damaged_) run_ = nullptr;
}

void RunFiles::read_metrics(const std::string& text) {
  std::string_view rest = text;
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    ++lines_;
    if (!take(rest.substr(0, end)) && damaged_++ == 0) first_damaged_ = lines_;
    rest.remove_prefix(end + 1);
    position_ += end + 1;
  }
  cut_ = !rest.empty();
}

EvaluationRecord evaluation_in(const nlohmann::json& line) {
  const Score kind = score_in(line).value_or(Score::kMae);
  return {count(line, "epoch"),   number(line, key_of(kind)), number(line, "loss"),
          count(line, "samples"), number(line, "seconds"),    kind,
          line.contains("empty")};
}

bool RunFiles::take(std::string_view line) {
  auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("event") || !json["event"].is_string()) return false;
  const double time = time_of(json);
  const std::string event = json["event"];
  if (event == "step")
    steps_.push_back({{count(json, "step"), count(json, "epoch"), number(json, "loss"),
                       number(json, "lr"), number(json, "seconds")},
                      time});
  else if (event == "eval")
    evaluations_.push_back({evaluation_in(json), time});
  else if (event == "phases")
    phases_.push_back(std::move(json));
  else if (event == "stage")
    stage_ = std::move(json);
  last_written_ = std::max(last_written_, time);
  return true;
}

std::vector<std::string> RunFiles::problems() const {
  std::vector<std::string> all;
  const auto add = [&](const char* file, const std::string& text) {
    all.push_back((directory_ / file).string() + ": " + text);
  };
  if (run_missing_) add("run.json", "missing");
  if (run_damaged_) add("run.json", "not a JSON object");
  if (metrics_missing_) add("metrics.jsonl", "missing");
  if (damaged_ > 0)
    add("metrics.jsonl",
        fmt::format("damaged lines: {} (the first is line {})", damaged_, first_damaged_));
  if (cut_) add("metrics.jsonl", fmt::format("line {} is incomplete", lines_ + 1));
  return all;
}

}  // namespace halomesh
