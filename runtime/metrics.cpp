// metrics.jsonl and run.json: see metrics.hpp.
// Knows their format; nothing of training or ranks.
#include "runtime/metrics.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "error.hpp"
#include "runtime/atomic_file.hpp"

namespace halomesh {
namespace {

constexpr auto kReplaceBadText = nlohmann::ordered_json::error_handler_t::replace;

[[noreturn]] void fail(const char* action, const std::filesystem::path& path, int error_number) {
  throw Error(cat("cannot ", action, " ", path.string(), ": ", std::strerror(error_number)),
              "check that the --out directory exists, may be written to and has space left");
}

/// The step of a line of metrics, 0 for other events; throws Error when it is not such a line.
std::int64_t step_of(const std::string& line, const std::filesystem::path& path, int number) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_object() && json.contains("event") && json["event"].is_string()) {
    if (json["event"] != "step") return 0;
    if (json.contains("step") && json["step"].is_number_integer())
      return json["step"].get<std::int64_t>();
  }
  throw Error(cat(path.string(), ": line ", number, " is not a line of metrics"),
              "move the file away or give another --out");
}

/// What of a file's text belongs to the training that has done `last_step` steps.
std::string kept_text(const std::string& text, std::int64_t last_step,
                      const std::filesystem::path& path) {
  std::size_t begin = 0;
  for (int number = 1;; ++number) {
    const std::size_t end = text.find('\n', begin);
    // A line without its end is what a killed run was about to write.
    if (end == std::string::npos || last_step == 0) return text.substr(0, begin);
    if (step_of(text.substr(begin, end - begin), path, number) > last_step)
      return text.substr(0, begin);
    begin = end + 1;
  }
}

std::string read_text(const std::filesystem::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open() && errno == ENOENT) return {};
  if (!file.is_open()) fail("open", path, errno);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) fail("read", path, errno);
  return text;
}

}  // namespace

MetricsLog::MetricsLog(std::filesystem::path path, std::int64_t last_step)
    : path_(std::move(path)) {
  const std::string before = read_text(path_);
  const std::string kept = kept_text(before, last_step, path_);
  if (kept != before) write_file_atomically(path_, kept);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("open", path_, errno);
}

MetricsLog::MetricsLog(MetricsLog&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

MetricsLog& MetricsLog::operator=(MetricsLog&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

MetricsLog::~MetricsLog() {
  if (fd_ >= 0) ::close(fd_);
}

void MetricsLog::append(const nlohmann::ordered_json& line) {
  const std::string text = line.dump() + '\n';
  ssize_t written = -1;
  do written = ::write(fd_, text.data(), text.size());
  while (written < 0 && errno == EINTR);
  if (written < 0) fail("write", path_, errno);
  // Some of the line went in: the disk is full now.
  if (written != static_cast<ssize_t>(text.size())) fail("write", path_, ENOSPC);
}

void MetricsLog::step(const StepRecord& record) {
  if (fd_ < 0) return;
  append({{"event", "step"},
          {"step", record.step},
          {"epoch", record.epoch},
          {"loss", record.loss},
          {"lr", record.lr},
          {"seconds", record.seconds}});
}

void MetricsLog::evaluation(const EvaluationRecord& record) {
  if (fd_ < 0) return;
  append({{"event", "eval"},
          {"epoch", record.epoch},
          {"mae", record.mae},
          {"loss", record.loss},
          {"samples", record.samples},
          {"seconds", record.seconds}});
}

void write_run_record(const std::filesystem::path& path, const nlohmann::ordered_json& record) {
  write_file_atomically(path, record.dump(2, ' ', false, kReplaceBadText) + '\n');
}

}  // namespace halomesh
