// SPDX-License-Identifier: Apache-2.0
// The results of a study's cells: see study_table.hpp.
#include "src/apps/study/study_table.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "runtime/log/json_bytes.hpp"
#include "runtime/log/metrics.hpp"
#include "runtime/posix/input_file.hpp"
#include "text_table.hpp"

namespace halomesh {
namespace {

using Json = nlohmann::ordered_json;

/// Finds when the target was reached, from the validations in metrics.jsonl.
void find_target(StudyOutcome& outcome, const std::filesystem::path& directory, double target) {
  std::ifstream lines(directory / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    // Lines of phases are long and need not be parsed.
    if (line.find(R"("event":"eval")") == std::string::npos) continue;
    const auto evaluation = nlohmann::json::parse(line, nullptr, false);
    const std::optional<Score> kind = score_in(evaluation);
    if (!kind || evaluation.contains("empty") ||
        !reaches(*kind, evaluation.at(key_of(*kind)).get<double>(), target))
      continue;
    const Json run = parse_json(read_input_file(directory / "run.json"));
    outcome.epochs_to_target = evaluation.at("epoch").get<std::int64_t>() + 1;
    const auto batch = std::stoll(run.at("options").at("batch").get<std::string>());
    const auto samples = run.at("samples").at("training").get<std::int64_t>();
    outcome.samples_to_target = *outcome.epochs_to_target * (samples / batch) * batch;
    return;
  }
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json to_json(const Range3& range) {
  if (range.count == 0) return nullptr;
  return {{"mean", range.mean}, {"min", range.min}, {"max", range.max}};
}

Json to_json(const StudyValues& values) {
  Json json = Json::object();
  for (const auto& [name, value] : values) json[name] = value;
  return json;
}

/// A text such as "12.3 (10 .. 15)"; a dash without values.
std::string to_text(const Range3& range) {
  if (range.count == 0) return "-";
  if (range.min == range.max) return fmt::format("{:.4g}", range.mean);
  return fmt::format("{:.4g} ({:.4g} .. {:.4g})", range.mean, range.min, range.max);
}

}  // namespace

std::optional<StudyOutcome> read_outcome(const StudyCell& cell,
                                         const std::filesystem::path& directory, double target) {
  const std::filesystem::path file = directory / "result.json";
  std::error_code none;
  if (!std::filesystem::exists(file, none)) return {};
  const char* const cure = "remove that directory, so that the cell is trained again";
  const Json json = parse_json(read_input_file(file));
  require(json.is_object(), file.string() + ": damaged", cure);
  try {
    StudyOutcome outcome;
    outcome.cell = cell;
    outcome.result = group_result_of(json);
    if (outcome.result.end == "stopped") return {};
    if (outcome.result.end != "failed") find_target(outcome, directory, target);
    return outcome;
  } catch (const std::exception& error) {
    throw Error(fmt::format("{}: damaged: {}", directory.string(), error.what()), cure);
  }
}

void Range3::add(double value) {
  min = count == 0 ? value : std::min(min, value);
  max = count == 0 ? value : std::max(max, value);
  mean += (value - mean) / static_cast<double>(++count);
}

std::vector<StudyRow> rows_of(const std::vector<StudyOutcome>& outcomes) {
  std::vector<StudyRow> rows;
  for (const StudyOutcome& one : outcomes) {
    auto row = std::find_if(rows.begin(), rows.end(),
                            [&](const StudyRow& each) { return each.varied == one.cell.varied; });
    if (row == rows.end()) {
      rows.emplace_back().varied = one.cell.varied;
      row = std::prev(rows.end());
    }
    ++row->cells;
    row->seconds.add(one.result.seconds);
    if (one.result.end == "diverged") ++row->diverged;
    if (one.result.end == "failed") ++row->failed;
    if (one.epochs_to_target) row->epochs.add(static_cast<double>(*one.epochs_to_target));
    if (one.samples_to_target) row->samples.add(static_cast<double>(*one.samples_to_target));
    if (one.result.score && one.result.is_complete()) row->score.add(*one.result.score);
    if (one.result.score) row->kind = one.result.kind;
  }
  return rows;
}

Score score_of(const std::vector<StudyRow>& rows) {
  for (const StudyRow& row : rows)
    if (row.kind != Score::kMae) return row.kind;
  return Score::kMae;
}

void print_rows(std::ostream& out, const std::vector<StudyRow>& rows, double target) {
  if (rows.empty()) return;
  std::vector<std::string> header;
  std::string alignment;
  const auto column = [&](const std::string& name) {
    header.push_back(name);
    alignment += '>';
  };
  for (const auto& value : rows.front().varied) column(value.first);
  if (target > 0)
    for (const char* name : {"epochs to target", "samples to target", "reached"}) column(name);
  const char* const title = title_of(score_of(rows));
  column(fmt::format("final {}", title));
  for (const char* name : {"seconds", "diverged", "failed"}) column(name);
  TextTable table(header, alignment);
  for (const StudyRow& row : rows) {
    std::vector<std::string> cells;
    for (const auto& value : row.varied) cells.push_back(value.second);
    if (target > 0) {
      cells.push_back(to_text(row.epochs));
      cells.push_back(to_text(row.samples));
      cells.push_back(fmt::format("{} of {}", row.epochs.count, row.cells));
    }
    cells.push_back(to_text(row.score));
    cells.push_back(to_text(row.seconds));
    cells.push_back(std::to_string(row.diverged));
    cells.push_back(std::to_string(row.failed));
    table.add(std::move(cells));
  }
  out << (target > 0 ? fmt::format("target: validation {} {:g}; ", title, target) : std::string())
      << "mean (least .. largest) over seeds\n"
      << table << std::flush;
}

Json study_json(const std::vector<StudyOutcome>& outcomes, double target) {
  Json cells = Json::array(), rows = Json::array();
  for (const StudyOutcome& one : outcomes) {
    Json json = {{"directory", one.cell.name},
                 {"values", to_json(one.cell.varied)},
                 {"seed", one.cell.seed},
                 {"result", one.result.end},
                 {"steps", one.result.steps},
                 {"epochs", one.result.epochs},
                 {key_of(one.result.kind), or_null(one.result.score)},
                 {"seconds", one.result.seconds},
                 {"epochs_to_target", or_null(one.epochs_to_target)},
                 {"samples_to_target", or_null(one.samples_to_target)}};
    if (!one.result.error.empty()) json["error"] = one.result.error;
    cells.push_back(std::move(json));
  }
  for (const StudyRow& row : rows_of(outcomes))
    rows.push_back({{"values", to_json(row.varied)},
                    {"cells", row.cells},
                    {"reached", row.epochs.count},
                    {"epochs_to_target", to_json(row.epochs)},
                    {"samples_to_target", to_json(row.samples)},
                    {key_of(row.kind), to_json(row.score)},
                    {"seconds", to_json(row.seconds)},
                    {"diverged", row.diverged},
                    {"failed", row.failed}});
  return {{"target", target > 0 ? Json(target) : Json()},
          {"cells", std::move(cells)},
          {"rows", std::move(rows)}};
}

}  // namespace halomesh
