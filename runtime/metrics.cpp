// metrics.jsonl and run.json: see metrics.hpp.
// Knows their format; nothing of training or ranks.
#include "runtime/metrics.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "error.hpp"
#include "runtime/atomic_file.hpp"

namespace halomesh {
namespace {

constexpr auto kReplaceBadText = nlohmann::ordered_json::error_handler_t::replace;

/// The JSON of a line; throws Error when it is not a line of metrics.
nlohmann::json parse_line(std::string_view line, const std::filesystem::path& path, int number) {
  auto json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_object() && json.contains("event") && json["event"].is_string()) {
    const bool is_step = json["event"] == "step";
    if (!is_step || (json.contains("step") && json["step"].is_number_integer())) return json;
  }
  throw Error(cat(path.string(), ": line ", number, " is not a line of metrics"),
              "move the file away or give another --out");
}

double number_in(const nlohmann::json& json, const char* key) {
  const auto value = json.find(key);
  return value != json.end() && value->is_number() ? value->get<double>() : 0;
}

std::optional<EvaluationRecord> evaluation_of(const nlohmann::json& json) {
  if (!json.is_object() || json["event"] != "eval" || !json.contains("mae") ||
      !json["mae"].is_number())
    return std::nullopt;
  return EvaluationRecord{static_cast<std::int64_t>(number_in(json, "epoch")),
                          number_in(json, "mae"), number_in(json, "loss"),
                          static_cast<std::int64_t>(number_in(json, "samples")),
                          number_in(json, "seconds")};
}

/// What of a file's text belongs to the training that has done `last_step` steps, and what follows
/// the last of these steps: null when there is nothing.
std::string kept_text(std::string_view text, std::int64_t last_step,
                      const std::filesystem::path& path, nlohmann::json& after_last) {
  std::size_t begin = 0;
  bool is_last = false;
  for (int number = 1; last_step > 0 && begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    auto json = parse_line(text.substr(begin, end - begin), path, number);
    if (json["event"] == "step") {
      const auto step = json["step"].get<std::int64_t>();
      if (step > last_step) break;
      is_last = step == last_step;
    } else if (is_last) {
      after_last = std::move(json);
    }
    begin = end + 1;
  }
  return std::string(text.substr(0, begin));
}

}  // namespace

MetricsLog::MetricsLog(std::filesystem::path path, std::int64_t last_step) {
  nlohmann::json after_last;
  const auto keep = [&](std::string_view text) {
    return kept_text(text, last_step, path, after_last);
  };
  file_ = LineFile(path, keep);
  evaluation_before_ = evaluation_of(after_last);
}

void MetricsLog::step(const StepRecord& record) {
  const nlohmann::ordered_json line = {{"event", "step"},       {"step", record.step},
                                       {"epoch", record.epoch}, {"loss", record.loss},
                                       {"lr", record.lr},       {"seconds", record.seconds}};
  file_.append(line.dump());
}

void MetricsLog::evaluation(const EvaluationRecord& record) {
  const nlohmann::ordered_json line = {{"event", "eval"},           {"epoch", record.epoch},
                                       {"mae", record.mae},         {"loss", record.loss},
                                       {"samples", record.samples}, {"seconds", record.seconds}};
  file_.append(line.dump());
}

void MetricsLog::stage(const StageRecord& record) {
  const nlohmann::ordered_json line = {{"event", "stage"},
                                       {"seconds", record.seconds},
                                       {"samples", record.samples},
                                       {"bytes_read", record.bytes_read},
                                       {"bytes_staged", record.bytes_staged},
                                       {"reused", record.reused}};
  file_.append(line.dump());
}

void write_run_record(const std::filesystem::path& path, const nlohmann::ordered_json& record) {
  write_file_atomically(path, record.dump(2, ' ', false, kReplaceBadText) + '\n');
}

}  // namespace halomesh
