// metrics.jsonl and run.json: the exact lines, and one curve whatever ended the run before.
#include "runtime/metrics.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "test/runtime/full_disk.hpp"
#include "test/runtime/temp_files.hpp"

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

}  // namespace

TEST_CASE("metrics lines have the documented keys in their order") {
  const TempDirectory directory;
  const auto path = directory / "metrics.jsonl";
  MetricsLog log(path);
  log.step({1, 0, 0.1, 0.001, 0.5});
  CHECK(contents(path) ==
        "{\"event\":\"step\",\"step\":1,\"epoch\":0,\"loss\":0.1,\"lr\":0.001,\"seconds\":0.5}\n");
  log.evaluation({3, 0.25, 0.125, 1000, 2});
  CHECK(lines_of(path).at(1) ==
        "{\"event\":\"eval\",\"epoch\":3,\"mae\":0.25,\"loss\":0.125,\"samples\":1000,"
        "\"seconds\":2.0}");
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

TEST_CASE("a resumed run goes on with the curve as it was at its step") {
  const TempDirectory directory;
  const auto path = directory / "metrics.jsonl";
  struct Row {
    std::int64_t last_step;
    std::size_t lines;
  };
  for (const Row row : {Row{0, 0}, Row{1, 1}, Row{2, 3}, Row{3, 4}, Row{4, 6}, Row{9, 6}}) {
    CAPTURE(row.last_step);
    {
      MetricsLog log(path);
      log_run(log);
    }
    const auto before = lines_of(path);
    REQUIRE(before.size() == 6);
    // A line that a killed run had begun.
    std::ofstream(path, std::ios::app) << "{\"event\":\"st";
    {
      MetricsLog log(path, row.last_step);
      log.step({row.last_step + 1, 1, 0, 0, 0});
    }
    auto after = lines_of(path);
    REQUIRE(after.size() == row.lines + 1);
    CHECK(after.back() == cat("{\"event\":\"step\",\"step\":", row.last_step + 1,
                              ",\"epoch\":1,\"loss\":0.0,\"lr\":0.0,\"seconds\":0.0}"));
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
    if (row.mae > 0) CHECK(log.evaluation_before()->mae == row.mae);
    if (row.mae > 0) CHECK(log.evaluation_before()->seconds == 3);
  }
}

TEST_CASE("metrics refuse what they cannot read or write") {
  const TempDirectory directory;
  const auto path = directory / "metrics.jsonl";
  put_contents(path,
               "{\"event\":\"step\",\"step\":1}\nnot json\n{\"event\":\"step\",\"step\":2}\n");
  const std::string before = contents(path);
  CHECK(contains(error_of([&] { MetricsLog(path, 5); }), "metrics.jsonl: line 2 is not"));
  CHECK(contents(path) == before);
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
  // What went in of the second line goes again when the run is resumed.
  CHECK(static_cast<std::int64_t>(contents(path).size()) == size + 10);
  const MetricsLog resumed(path, 1);
  CHECK(static_cast<std::int64_t>(contents(path).size()) == size);
}

TEST_CASE("a run record is whole or not there") {
  const TempDirectory directory;
  const auto path = directory / "run.json";
  nlohmann::ordered_json record;
  record["z"] = 1;
  record["a"] = {{"host", "node\xff"}};
  write_run_record(path, record);
  CHECK(contents(path) ==
        "{\n  \"z\": 1,\n  \"a\": {\n    \"host\": \"node\xEF\xBF\xBD\"\n  }\n}\n");
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
