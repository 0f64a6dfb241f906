// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl and run.json: the exact lines, and one curve however the previous run ended.
#include "runtime/log/metrics.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/posix/process_memory.hpp"
#include "test/harness/full_disk.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

/// Two steps of epoch 0, its validation, two steps of epoch 1, its validation.
void log_run(MetricsLog& log) {
  log.step({1, 0, 0.5, 0.001, 2});
  log.step({2, 0, 0.25, 0.001, 2});
  log.evaluation({0, 0.75, 0.5, 8, 3});
  log.step({3, 1, 0.125, 0.001, 2});
  log.step({4, 1, 0.0625, 0.001, 2});
  log.evaluation({1, 0.5, 0.25, 8, 3});
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// The lines without their times, all of which must be between `begin` and now.
std::vector<std::string> timeless(const std::filesystem::path& path, double begin) {
  std::vector<std::string> lines = lines_of(path);
  for (std::string& line : lines) {
    const std::size_t at = line.rfind(",\"time\":");
    REQUIRE(at != std::string::npos);
    const double time = nlohmann::json::parse(line).at("time").get<double>();
    CHECK(time >= begin);
    CHECK(time <= unix_time());
    line.replace(at, line.find('}', at) - at, "");
  }
  return lines;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // freed memory stays in use
#else
constexpr bool kSanitized = false;
#endif

/// A summary of the steps up to this one; its content does not matter.
PhaseSummary phases_until(std::int64_t step) {
  PhaseSummary summary;
  summary.step = summary.steps = step;
  return summary;
}

}  // namespace

TEST_CASE("metrics lines have the documented keys in their order") {
  const TempDirectory directory;
  const auto path = directory / "metrics.jsonl";
  const double begin = unix_time();
  MetricsLog log(path);
  log.step({1, 0, 0.1, 0.001, 0.5});
  log.evaluation({3, 0.25, 0.125, 1000, 2});
  StageRecord stage;
  stage.samples = 3;
  stage.bytes_read = 64;
  stage.read_calls = 2;
  stage.read_seconds = 0.5;
  stage.rank_seconds = {1, 0.5, 2, 7};
  log.stage(stage);
  const auto lines = timeless(path, begin);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] ==
        "{\"event\":\"step\",\"step\":1,\"epoch\":0,\"loss\":0.1,\"lr\":0.001,\"seconds\":0.5}");
  CHECK(lines[1] ==
        "{\"event\":\"eval\",\"epoch\":3,\"mae\":0.25,\"loss\":0.125,\"samples\":1000,"
        "\"seconds\":2.0}");
  CHECK(lines[2] ==
        "{\"event\":\"stage\",\"seconds\":0.0,\"samples\":3,\"bytes_read\":64,\"bytes_staged\":0,"
        "\"reused\":false,\"read_seconds\":0.5,\"read_calls\":2,\"rank_seconds\":{\"mean\":1.0,"
        "\"min\":0.5,\"max\":2.0,\"max_rank\":7}}");
}

TEST_CASE("metrics numbers come back bit for bit, those that are not finite as null") {
  const TempDirectory directory;
  const auto path = directory / "metrics.jsonl";
  const std::vector<double> losses{1.0 / 3, 0.1f, 5e-324, 1.7976931348623157e308, 0.0};
  MetricsLog log(path);
  for (double loss : losses) log.step({1, 0, loss, 0.001, 1});
  log.step(
      {1, 0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1});
  const auto lines = lines_of(path);
  REQUIRE(lines.size() == losses.size() + 1);
  for (std::size_t i = 0; i < losses.size(); ++i)
    CHECK(nlohmann::json::parse(lines[i])["loss"].get<double>() == losses[i]);
  CHECK(nlohmann::json::parse(lines.back())["loss"].is_null());
  CHECK(nlohmann::json::parse(lines.back())["lr"].is_null());
}

TEST_CASE("a resumed run continues the curve from its step") {
  const TempDirectory directory;
  const auto path = directory / "metrics.jsonl";
  struct Row {
    std::int64_t last_step;
    std::size_t lines;
  };
  for (const Row row : {Row{0, 0}, Row{1, 1}, Row{2, 3}, Row{3, 4}, Row{4, 6}}) {
    CAPTURE(row.last_step);
    {
      MetricsLog log(path);
      log_run(log);
    }
    const auto before = lines_of(path);
    REQUIRE(before.size() == 6);
    // A line that a killed run had started to write.
    std::ofstream(path, std::ios::app) << "{\"event\":\"st";
    {
      MetricsLog log(path, row.last_step);
      CHECK(log.warning() == "");
      log.step({row.last_step + 1, 1, 0, 0, 0});
    }
    auto after = lines_of(path);
    REQUIRE(after.size() == row.lines + 1);
    CHECK(after.back().starts_with(
        fmt::format("{{\"event\":\"step\",\"step\":{},\"epoch\":1,\"loss\":0.0,"
                    "\"lr\":0.0,\"seconds\":0.0,\"time\":",
                    row.last_step + 1)));
    after.pop_back();
    CHECK(std::equal(after.begin(), after.end(), before.begin()));
    CHECK(directory.entries() == 1);
  }
}

TEST_CASE("a resumed run knows the validation of its step, and no other") {
  const TempDirectory directory;
  const auto path = directory / "metrics.jsonl";
  struct Row {
    std::int64_t last_step;
    double mae;  // 0: none
  };
  for (const Row row : {Row{0, 0}, Row{1, 0}, Row{2, 0.75}, Row{3, 0}, Row{4, 0.5}, Row{9, 0}}) {
    CAPTURE(row.last_step);
    {
      MetricsLog log(path);
      CHECK(!log.evaluation_before());
      log_run(log);
    }
    const MetricsLog log(path, row.last_step);
    REQUIRE(log.evaluation_before().has_value() == (row.mae > 0));
    if (row.mae > 0) CHECK(log.evaluation_before()->score == row.mae);
    if (row.mae > 0) CHECK(log.evaluation_before()->seconds == 3);
  }
}

TEST_CASE("a resumed run keeps the phases of its steps and finds the validation after them") {
  const TempDirectory directory;
  const auto path = directory / "metrics.jsonl";
  struct Row {
    std::int64_t last_step;
    std::size_t lines;
    double mae;  // 0: none
  };
  int checked = 0;
  for (const Row row : {Row{1, 1, 0}, Row{2, 4, 0.75}, Row{3, 6, 0}, Row{4, 10, 0.5}}) {
    CAPTURE(row.last_step);
    {
      MetricsLog log(path);
      log.step({1, 0, 0.5, 0.001, 2});
      log.step({2, 0, 0.25, 0.001, 2});
      log.phases(phases_until(2));
      log.evaluation({0, 0.75, 0.5, 8, 3});
      log.step({3, 1, 0.125, 0.001, 2});
      log.phases(phases_until(3));  // stopped here
      log.step({4, 1, 0.0625, 0.001, 2});
      log.phases(phases_until(4));
      log.stage({});  // stopped again, and resumed
      log.evaluation({1, 0.5, 0.25, 8, 3});
    }
    const auto before = lines_of(path);
    REQUIRE(before.size() == 10);
    for (int again = 0; again < 2; ++again) {
      const MetricsLog log(path, row.last_step);
      CHECK(log.warning() == "");
      REQUIRE(log.evaluation_before().has_value() == (row.mae > 0));
      if (row.mae > 0) CHECK(log.evaluation_before()->score == row.mae);
      const auto after = lines_of(path);
      REQUIRE(after.size() == row.lines);
      CHECK(std::equal(after.begin(), after.end(), before.begin()));
      ++checked;
    }
  }
  CHECK(checked == 8);
}

TEST_CASE("lines of versions without a time and without phases are kept") {
  const TempDirectory directory;
  const auto path = directory / "metrics.jsonl";
  const std::string old =
      "{\"event\":\"step\",\"step\":1}\n{\"event\":\"eval\",\"mae\":0.5,\"epoch\":0}\n";
  put_contents(path, old);
  const MetricsLog log(path, 1);
  CHECK(contents(path) == old);
  CHECK(log.evaluation_before().has_value());
}

TEST_CASE("counts of a validation that no run can have are brought within bounds") {
  const TempDirectory directory;
  const auto path = directory / "metrics.jsonl";
  put_contents(path,
               "{\"event\":\"step\",\"step\":1}\n"
               "{\"event\":\"eval\",\"mae\":0.5,\"epoch\":-1e300,\"samples\":1e300}\n");
  const MetricsLog log(path, 1);
  REQUIRE(log.evaluation_before().has_value());
  CHECK(log.evaluation_before()->epoch == 0);
  CHECK(log.evaluation_before()->samples == 1000000000000000);
}

TEST_CASE("resuming from a damaged metrics.jsonl says what is missing and keeps the rest") {
  const auto step = [](int number) {
    return fmt::format("{{\"event\":\"step\",\"step\":{}}}\n", number);
  };
  const std::string eval = "{\"event\":\"eval\",\"mae\":0.5}\n";
  const auto phases = [](int number) {
    return fmt::format("{{\"event\":\"phases\",\"step\":{}}}\n", number);
  };
  const std::string whole = step(1) + step(2) + eval + step(3) + step(4) + eval;
  const std::string zeros(7, '\0');
  struct Row {
    const char* name;
    std::string before, kept;
    int damaged, missing;
  };
  const std::vector<Row> rows = {
      {"whole", whole, whole, 0, 0},
      {"empty", "", "", 0, 4},
      {"cut after a line", step(1) + step(2), step(1) + step(2), 0, 2},
      {"cut in a line", whole.substr(0, step(1).size() + 9), step(1), 0, 3},
      {"no end of line", step(1) + step(2).substr(0, step(2).size() - 1), step(1), 0, 3},
      {"first lines lost", step(3) + step(4), step(3) + step(4), 0, 2},
      {"zeros", step(1) + zeros + "\n" + step(4), step(1) + step(4), 1, 2},
      {"garbage", "not json\n" + whole + "{}\n[1]\n{\"event\":\"step\"}\n", whole, 4, 0},
      {"lines twice", step(1) + step(2) + step(2) + step(1) + step(3) + step(4),
       step(1) + step(2) + step(3) + step(4), 2, 0},
      {"later steps too", step(1) + step(4) + step(5) + "not json\n", step(1) + step(4), 0, 2},
      {"phases twice", whole + phases(4) + phases(4), whole + phases(4), 1, 0},
      {"phases without steps", "{\"event\":\"phases\"}\n" + whole, whole, 1, 0},
      {"phases of later steps", step(1) + phases(5) + step(2), step(1), 0, 3},
      {"phases of lost steps", step(1) + phases(3) + step(4), step(1) + phases(3) + step(4), 0, 2},
      {"only garbage", zeros + zeros, "", 0, 4}};
  int missing = 0;
  for (const Row& row : rows)
    for (const bool deleted : {false, true}) {
      if (deleted && !row.before.empty()) continue;
      CAPTURE(row.name);
      CAPTURE(deleted);
      const TempDirectory directory;
      const auto path = directory / "metrics.jsonl";
      if (!deleted) put_contents(path, row.before);
      const std::string warning = MetricsLog(path, 4).warning();
      const std::string line = "{\"event\":\"resumed\",\"step\":4,\"records_missing\":";
      if (row.missing == 0)
        CHECK(contents(path) == row.kept);
      else
        CHECK(contents(path).starts_with(row.kept +
                                         fmt::format("{}{},\"time\":", line, row.missing)));
      CHECK(contains(warning, fmt::format("damaged lines removed: {} ", row.damaged)) ==
            (row.damaged > 0));
      CHECK(contains(warning, fmt::format("steps missing before the checkpoint: {} of 4",
                                          row.missing)) == (row.missing > 0));
      CHECK(warning.empty() == (row.damaged + row.missing == 0));
      CHECK(std::filesystem::exists(directory / "metrics.jsonl.damaged") == (row.damaged > 0));
      if (row.damaged > 0) CHECK(contents(directory / "metrics.jsonl.damaged") == row.before);
      // Warnings are not repeated.
      const std::string after = contents(path);
      CHECK(MetricsLog(path, 4).warning() == "");
      CHECK(contents(path) == after);
      missing += row.missing;
    }
  CHECK(missing > 20);
}

TEST_CASE("a resumed run reads only the end of a long file, unless something is wrong there") {
  const TempDirectory directory;
  const auto path = directory / "metrics.jsonl";
  constexpr int kSteps = 40000;
  const std::string first = "not json\n";
  std::string text = first;
  const auto line = [](int step) {
    return fmt::format(
        "{{\"event\":\"step\",\"step\":{},\"loss\":0.5,\"lr\":0.001,\"seconds\":0.0001220703125}}"
        "\n",
        step);
  };
  for (int step = 1; step < kSteps; ++step) text += line(step);
  const std::string evaluation = "{\"event\":\"eval\",\"epoch\":3,\"mae\":0.25}\n";
  const std::string kept = text + evaluation;
  REQUIRE(kept.size() > std::size_t{2} << 20);
  put_contents(path, kept + line(kSteps) + "{\"event\":");
  {
    MetricsLog log(path, kSteps - 1);
    CHECK(log.warning() == "");  // the damage is not in what is read
    REQUIRE(log.evaluation_before().has_value());
    CHECK(log.evaluation_before()->score == 0.25);
    CHECK(contents(path) == kept);
    CHECK(directory.entries() == 1);
    log.step({kSteps, 4, 0.5, 0.5, 1});
    CHECK(contents(path).starts_with(kept + "{\"event\":\"step\",\"step\":40000,"));
  }
  // What is missing at the end, or wrong, is compared with the whole file, which is mended.
  const std::string whole = text.substr(first.size());
  for (const bool damaged : {false, true}) {
    put_contents(path, text + (damaged ? "damaged\n" : ""));
    const std::string warning = MetricsLog(path, damaged ? kSteps - 1 : kSteps).warning();
    CHECK(contains(warning, fmt::format("damaged lines removed: {} ", damaged ? 2 : 1)));
    CHECK(contains(warning, "steps missing before the checkpoint: 1 of 40000") == !damaged);
    CHECK(contents(path).starts_with(whole));
    CHECK(contents(directory / "metrics.jsonl.damaged").starts_with(text));
  }
  // A checkpoint from long before the end.
  put_contents(path, text);
  CHECK(contains(MetricsLog(path, 10).warning(), "damaged lines removed: 1 "));
  CHECK(contents(path) == whole.substr(0, whole.find(line(11))));
  // A run that starts anew keeps nothing of it.
  put_contents(path, whole);
  CHECK(MetricsLog(path).warning() == "");
  CHECK(contents(path) == "");
}

TEST_CASE("a damaged log of many steps takes no more memory than a short one") {
  constexpr int kSteps = 240000;
  constexpr std::int64_t kMib = std::int64_t{1} << 20;
  const TempDirectory directory;
  const auto path = directory / "metrics.jsonl";
  struct Row {
    const char* name;
    const char* begin;
    std::int64_t zeros;
    int first_damaged;
  };
  int measured = 0;
  for (const Row& row : {Row{"not JSON", "not json\n", 0, 1}, Row{"a step twice", "", -1, 120001},
                         Row{"zeros", "", 48 * kMib, 120001}}) {
    CAPTURE(row.name);
    {
      std::ofstream file(path);
      file << row.begin;
      for (int step = 1; step <= kSteps; ++step) {
        file << "{\"event\":\"step\",\"step\":" << step
             << ",\"epoch\":0,\"loss\":0.0001220703125,\"lr\":0.0001220703125,\"seconds\":1}\n";
        if (step != kSteps / 2) continue;
        if (row.zeros < 0) file << "{\"event\":\"step\",\"step\":1}\n";
        for (std::int64_t i = 0; i < row.zeros; ++i) file.put('\0');
        if (row.zeros > 0) file << '\n';
      }
    }
    const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
    REQUIRE(bytes > 20 * kMib);
    const bool can_reset = reset_peak_memory() && !kSanitized;
    const std::int64_t before = peak_memory_bytes();
    const std::string warning = MetricsLog(path, kSteps + 1).warning();
    if (can_reset) CHECK(peak_memory_bytes() - before < 16 * kMib);
    measured += can_reset ? 1 : 0;
    CHECK(contains(warning, fmt::format("damaged lines removed: 1 (the first is line {};",
                                        row.first_damaged)));
    CHECK(contains(warning, "missing before the checkpoint: 1 of"));  // so that all are read
    CHECK(static_cast<std::int64_t>(std::filesystem::file_size(path)) < bytes + 100);
    CHECK(static_cast<std::int64_t>(
              std::filesystem::file_size(directory / "metrics.jsonl.damaged")) == bytes);
    CHECK(MetricsLog(path, kSteps + 1).warning() == "");
  }
  MESSAGE("memory measured in " << measured << " of 3 cases");
}

TEST_CASE("metrics refuse what they cannot read or write") {
  const TempDirectory directory;
  const auto path = directory / "metrics.jsonl";
  CHECK(contains(error_of([&] { MetricsLog(directory / "no" / "metrics.jsonl"); }),
                 "No such file or directory"));
  MetricsLog log(path);
  log.step({1, 0, 0.5, 0.5, 1});
  const auto size = static_cast<std::int64_t>(contents(path).size());
  {
    const FileSizeLimit full(size + 10);
    CHECK(contains(error_of([&] { log.step({2, 0, 0.5, 0.5, 1}); }), "metrics.jsonl"));
    CHECK(contains(error_of([&] { log.step({2, 0, 0.5, 0.5, 1}); }), "File too large"));
  }
  // The partial second line is removed when the run is resumed.
  CHECK(static_cast<std::int64_t>(contents(path).size()) == size + 10);
  const MetricsLog resumed(path, 1);
  CHECK(static_cast<std::int64_t>(contents(path).size()) == size);
}

TEST_CASE("an evaluation without foreground reaches no target, nor where it is read again") {
  const TempDirectory directory;
  for (const bool empty : {false, true}) {
    const auto path = directory / fmt::format("{}.jsonl", empty);
    EvaluationRecord record{0, 1, 0.5, 8, 3, Score::kDice, empty};
    CHECK(record.reaches(0.9) == !empty);
    {
      MetricsLog log(path);
      log.step({1, 0, 0.5, 0.5, 1});
      log.evaluation(record);
    }
    const MetricsLog again(path, 1);
    REQUIRE(again.evaluation_before().has_value());
    CHECK(again.evaluation_before()->score == 1);
    CHECK(again.evaluation_before()->reaches(0.9) == !empty);
  }
}

TEST_CASE("a run record is written completely or not at all") {
  const TempDirectory directory;
  const auto path = directory / "run.json";
  nlohmann::ordered_json record;
  record["z"] = 1;
  record["a"] = {{"host", "node\xff"}};
  write_run_record(path, record);
  CHECK(contents(path) == "{\n  \"z\": 1,\n  \"a\": {\n    \"host\": \"node\\udcff\"\n  }\n}\n");
  const std::string before = contents(path);
  {
    const FileSizeLimit full(10);
    CHECK(contains(error_of([&] { write_run_record(path, {{"other", true}}); }), "run.json"));
  }
  CHECK(contents(path) == before);
  CHECK(directory.entries() == 1);
}

TEST_CASE("a default log writes nothing") {
  MetricsLog log;
  log.step({1, 0, 0.5, 0.5, 1});
  log.evaluation({0, 0.5, 0.5, 1, 1});
  const TempDirectory directory;
  log = MetricsLog(directory / "m.jsonl");
  log.step({1, 0, 0.5, 0.5, 1});
  CHECK(lines_of(directory / "m.jsonl").size() == 1);
}

}  // namespace halomesh
