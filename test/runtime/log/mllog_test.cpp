// SPDX-License-Identifier: Apache-2.0
// mllog.txt: the exact lines of both versions, and one log for one run however many jobs it takes.
#include "runtime/log/mllog.hpp"

#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "test/harness/mlperf_rules.hpp"
#include "test/harness/temp_files.hpp"

namespace {

time_t clock_set_by = 0;  // seconds

}  // namespace

// The linker takes this definition before the library's.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_REALTIME) time->tv_sec += clock_set_by;
  return result;
}

namespace halomesh {
namespace {

using test::mlperf_keys;
using test::parse_mlperf;

using Keys = std::vector<std::string>;

MlperfSubmission submission() {
  MlperfSubmission s;
  s.benchmark = "cosmoflow";
  s.org = "org";
  s.division = "closed";
  s.status = "onprem";
  s.platform = "2 x CPU";
  s.seed = 7;
  s.ranks = 8;
  s.nodes = 2;
  return s;
}

ScheduleOptions step_schedule() {
  ScheduleOptions schedule;
  schedule.kind = ScheduleKind::kStep;
  schedule.peak = 0.008;
  schedule.warmup_epochs = 4;
  schedule.decay_epochs = {32, 64};
  schedule.decay_factors = {0.25, 0.125};
  return schedule;
}

void begin(MlperfLog& log, bool staging = false) {
  log.init_start(true);
  log.submission(submission());
  log.run_start();
  log.samples(16, 64, 32);
  if (staging) {
    log.staging_start();
    log.staging_stop();
  }
  log.optimizer("SGD", step_schedule(), 0, 0.5);
}

void log_epoch(MlperfLog& log, std::int64_t epoch, double mae) {
  log.epoch_start(epoch, 2 * epoch);
  log.trained(epoch, 2 * epoch + 2, 0.25, 0.5);
  log.eval_start(epoch);
  log.eval_stop({epoch, 2 * epoch + 2, Score::kMae, mae, 1.5, 0.2, true});
}

const Keys kEpoch = {"epoch_start", "eval_start", "eval_stop", "epoch_stop", "eval_error"};

Keys operator+(Keys left, const Keys& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

const Keys kSubmission = {"submission_benchmark", "submission_org", "submission_division",
                          "submission_status", "submission_platform"};
const Keys kSamples = {"global_batch_size", "train_samples", "eval_samples"};
const Keys kOptimizer = {"opt_name",
                         "opt_base_learning_rate",
                         "opt_learning_rate_warmup_epochs",
                         "opt_learning_rate_warmup_factor",
                         "opt_learning_rate_decay_boundary_epochs",
                         "opt_learning_rate_decay_factor"};
const Keys kHeadV10 = Keys{"cache_clear",     "init_start",      "seed",
                           "number_of_ranks", "number_of_nodes", "accelerators_per_node"} +
                      kSubmission + Keys{"init_stop", "run_start"} + kSamples;

/// The log of a run of two epochs that reached its target, resumed at `point` by another.
Keys keys_after(const MlperfPoint& point, bool staging) {
  const TempDirectory directory;
  {
    MlperfLog log(MlperfVersion::kV10);
    begin(log, staging);
    log.open(directory / "mllog.txt", {});
    log_epoch(log, 0, 0.5);
    log_epoch(log, 1, 0.1);
    log.run_stop(true);
  }
  MlperfLog log(MlperfVersion::kV10);
  begin(log, staging);
  log.open(directory / "mllog.txt", point);
  if (point.over) log.run_stop(true);  // it has ended already; a further job adds nothing
  return mlperf_keys(parse_mlperf(contents(directory / "mllog.txt")));
}

}  // namespace

TEST_CASE("an MLPerf line is spelt as the reference's") {
  const TempDirectory directory;
  MlperfLog log(MlperfVersion::kV10);
  log.open(directory / "mllog.txt", {});
  log.optimizer("SGD", step_schedule(), 0, 0.5);
  log.eval_stop({2, 6, Score::kMae, 0.25, 1, 0.5, true});
  log.run_stop(false);
  const std::string text = contents(directory / "mllog.txt");
  CHECK(text.starts_with(":::MLLOG {\"namespace\": \"\", \"time_ms\": 1"));
  CHECK(contains(text,
                 "\"event_type\": \"POINT_IN_TIME\", \"key\": \"opt_name\", \"value\": "
                 "\"SGD\", \"metadata\": {\"file\": \"runtime/log/mllog.cpp\", \"lineno\": "));
  CHECK(contains(text, "decay_boundary_epochs\", \"value\": [32, 64], \"metadata\": {"));
  CHECK(contains(text, "\"key\": \"opt_learning_rate_warmup_factor\", \"value\": 8.0, "));
  CHECK(contains(text, "\"key\": \"opt_learning_rate_decay_factor\", \"value\": 0.25, "));
  CHECK(contains(text, "\"key\": \"eval_error\", \"value\": 0.25, "));
  CHECK(contains(text, "\"epoch_num\": 3}}\n"));
  CHECK(text.ends_with(", \"status\": \"aborted\"}}\n"));
}

TEST_CASE("v1.0 logs keep the reference's order and the checker's rules") {
  const TempDirectory directory;
  MlperfLog log(MlperfVersion::kV10);
  begin(log, true);
  log.open(directory / "mllog.txt", {});
  log_epoch(log, 0, 0.5);
  log_epoch(log, 1, 0.1);
  log.run_stop(true);
  const std::string text = contents(directory / "mllog.txt");
  CHECK(mlperf_keys(parse_mlperf(text)) == kHeadV10 + Keys{"staging_start", "staging_stop"} +
                                               kOptimizer + Keys{"opt_weight_decay", "dropout"} +
                                               kEpoch + kEpoch + Keys{"run_stop"});
  test::MlperfRules rules(0.124);
  CHECK(rules.problems(text) == Keys{});
  CHECK(rules.rules_checked() > 100);
}

TEST_CASE("v0.7 logs have the reference's keys and count epochs from 0") {
  const TempDirectory directory;
  MlperfLog log(MlperfVersion::kV07);
  begin(log, true);
  log.open(directory / "mllog.txt", {});
  log_epoch(log, 0, 0.5);
  log.run_stop(true);
  const auto lines = parse_mlperf(contents(directory / "mllog.txt"));
  CHECK(mlperf_keys(lines) == Keys{"cache_clear", "init_start"} + kSubmission +
                                  Keys{"init_stop", "run_start"} + kSamples +
                                  Keys{"staging_start", "staging_stop"} + kOptimizer + kEpoch +
                                  Keys{"run_stop"});
  CHECK(lines.at(lines.size() - 2)["metadata"]["epoch_num"] == 0);
}

TEST_CASE("a resumed run continues the same log, without what will be trained again") {
  const Keys head = kHeadV10 + kOptimizer + Keys{"opt_weight_decay", "dropout"};
  const Keys staged = kHeadV10 + Keys{"staging_start", "staging_stop"} + kOptimizer +
                      Keys{"opt_weight_decay", "dropout"};
  // A new run.
  CHECK(keys_after({}, false) == head);
  // At the end of the first epoch, validated or not; and in the middle of the second.
  CHECK(keys_after({2, 1, false, true, false}, false) == head + kEpoch + Keys{"resumed"});
  CHECK(keys_after({2, 1, false, false, false}, false) == head + Keys{"epoch_start", "resumed"});
  CHECK(keys_after({3, 1, true, true, false}, false) ==
        head + kEpoch + Keys{"epoch_start", "resumed"});
  // In the middle of the first.
  CHECK(keys_after({1, 0, true, true, false}, false) == head + Keys{"epoch_start", "resumed"});
  // Each job stages.
  CHECK(keys_after({2, 1, false, true, false}, true) ==
        staged + kEpoch + Keys{"staging_start", "staging_stop", "resumed"});
  // Nothing is left to do: the log stays unchanged. More epochs: the run has not stopped.
  CHECK(keys_after({4, 2, false, true, true}, true) == staged + kEpoch + kEpoch + Keys{"run_stop"});
  CHECK(keys_after({4, 2, false, true, false}, false) == head + kEpoch + kEpoch + Keys{"resumed"});
}

TEST_CASE("a clock that is set meanwhile changes no duration, in a job or between jobs") {
  const TempDirectory directory;
  for (const time_t set_by : {-7200, 3600, -3600}) {
    MlperfLog log(MlperfVersion::kV10);
    begin(log);
    log.open(directory / "mllog.txt", {set_by == -7200 ? 0 : 2, 1});
    clock_set_by = set_by;
    log_epoch(log, 0, 0.5);
    log_epoch(log, 1, 0.5);
  }
  clock_set_by = 0;
  std::int64_t before = 0, compared = 0;
  for (const auto& line : parse_mlperf(contents(directory / "mllog.txt"))) {
    const std::int64_t time = line["time_ms"];
    // The three jobs took a moment, unless the clock was ahead when one of them started.
    if (before > 0) CHECK(time >= before);
    if (before > 0) CHECK(time < before + 4 * 3600 * 1000);
    before = time;
    ++compared;
  }
  CHECK(compared > 20);
}

TEST_CASE("an epoch that an earlier job has begun is not begun twice") {
  const TempDirectory directory;
  const auto path = directory / "mllog.txt";
  {
    MlperfLog log(MlperfVersion::kV10);
    begin(log);
    log.open(path, {});
    log.epoch_start(0, 0);
  }
  // What a killed run was about to write.
  std::ofstream(path, std::ios::app) << ":::MLLOG {\"names";
  MlperfLog log(MlperfVersion::kV10);
  begin(log);
  log.open(path, {1, 0, true, true, false});
  log_epoch(log, 0, 0.1);
  log_epoch(log, 1, 0.1);
  log.run_stop(true);
  log.run_stop(true);
  const std::string text = contents(path);
  CHECK(mlperf_keys(parse_mlperf(text)) ==
        kHeadV10 + kOptimizer + Keys{"opt_weight_decay", "dropout", "epoch_start", "resumed"} +
            Keys(kEpoch.begin() + 1, kEpoch.end()) + kEpoch + Keys{"run_stop"});
  test::MlperfRules rules(0.124);
  CHECK(rules.problems(text) == Keys{});
}

TEST_CASE("a log of a run that began elsewhere says where it begins") {
  const TempDirectory directory;
  MlperfLog log(MlperfVersion::kV07);
  begin(log);
  log.open(directory / "mllog.txt", {12, 3, false, true, false});
  const auto lines = parse_mlperf(contents(directory / "mllog.txt"));
  CHECK(lines.front()["key"] == "cache_clear");
  CHECK(lines.back()["key"] == "resumed");
  CHECK(lines.back()["value"] == 12);
  CHECK(lines.back()["metadata"]["status"] == "incomplete");
  CHECK(contains(log.warning(), "mllog.txt: the start of the run is missing"));
}

TEST_CASE("resuming from a damaged mllog.txt says what is missing and keeps the rest") {
  const TempDirectory directory;
  const auto path = directory / "mllog.txt";
  const auto new_log = [&](const MlperfPoint& point) {
    MlperfLog log(MlperfVersion::kV10);
    begin(log);
    log.open(path, point);
    return log;
  };
  {
    MlperfLog log = new_log({});
    log_epoch(log, 0, 0.5);
    log_epoch(log, 1, 0.5);
  }
  const std::string whole = contents(path);
  const std::size_t epochs = whole.find(":::MLLOG", whole.find("dropout"));
  const std::size_t second = whole.rfind(":::MLLOG", whole.rfind("epoch_start"));
  const std::string head = whole.substr(0, epochs), last = whole.substr(second);
  const std::string first = whole.substr(epochs, second - epochs);
  const std::string garbage =
      "garbage\n:::MLLOG {\n:::MLLOG {\"key\": 1}\n"
      ":::MLLOG {\"key\": \"run_start\", \"metadata\": []}\n"
      ":::MLLOG {\"key\": \"run_start\", \"metadata\": {\"epoch_num\": -9223372036854775808}}\n";
  const std::string no_start = "the start of the run is missing";
  struct Row {
    const char* name;
    std::string before, kept;  // kept: but for this job's lines
    std::vector<std::string> said;
  };
  const std::vector<Row> rows = {
      {"whole", whole, whole, {}},
      {"cut in a line", whole + whole.substr(0, 30), whole, {}},
      {"empty", "", "", {no_start}},
      {"head alone", head, head, {"epochs missing before the checkpoint: 2 of 2"}},
      {"cut after an epoch", head + first, head + first, {"checkpoint: 1 of 2"}},
      {"an epoch lost", head + last, head + last, {"checkpoint: 1 of 2"}},
      {"garbage",
       garbage + whole,
       whole,
       {"damaged lines removed: 5 (the first is line 1)", "kept as mllog.txt.damaged"}},
      {"no head", first + last, "", {no_start, "kept as mllog.txt.damaged"}}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    std::filesystem::remove(directory / "mllog.txt.damaged");
    put_contents(path, row.before);
    const std::string warning = new_log({4, 2, false, true, false}).warning();
    CHECK(warning.empty() == row.said.empty());
    for (const std::string& part : row.said) CHECK(contains(warning, part.c_str()));
    const std::string after = contents(path);
    CHECK(after.starts_with(row.kept));
    const bool restarts = row.kept.empty();
    CHECK(mlperf_keys(parse_mlperf(after.substr(row.kept.size()))) ==
          (restarts ? mlperf_keys(parse_mlperf(head)) : Keys{}) + Keys{"resumed"});
    CHECK(contains(after, "incomplete") == !row.said.empty());
    const bool damaged = contains(warning, "damaged");
    CHECK(std::filesystem::exists(directory / "mllog.txt.damaged") == damaged);
    if (damaged) CHECK(contents(directory / "mllog.txt.damaged") == row.before);
  }
}

TEST_CASE("logs of another version are refused and left unchanged") {
  const TempDirectory directory;
  const auto path = directory / "mllog.txt";
  const MlperfPoint later{2, 1, false, true, false};
  {
    MlperfLog log(MlperfVersion::kV10);
    begin(log);
    log.open(path, {});
  }
  const std::string before = contents(path);
  CHECK(contains(error_of([&] { MlperfLog(MlperfVersion::kV07).open(path, later); }),
                 "was started with --mllog v1.0"));
  CHECK(contents(path) == before);
  CHECK_THROWS_AS(parse_mlperf_version("v2.0"), UsageError);
}

namespace {

MlperfTraining deepcam_training() {
  MlperfTraining training{128, 2, 4, "", "LAMB", {}, 1, {}};
  training.settings.weight_decay = 0.01;
  training.schedule.kind = ScheduleKind::kMultistep;
  training.schedule.peak = 0.0055;
  training.schedule.warmup_steps = 400;
  training.schedule.milestones = {800, 1600};
  return training;
}

void begin_deepcam(MlperfLog& log, const MlperfTraining& training = deepcam_training()) {
  MlperfSubmission deepcam = submission();
  deepcam.benchmark = "deepcam";
  log.submission(deepcam);
  log.init_start(true);
  log.training(training);
  log.run_start();
  log.samples(128, 121266, 15158);
  log.optimizer("LAMB", training.schedule, 0.01, {});
}

void log_deepcam_epoch(MlperfLog& log, std::int64_t epoch, double iou) {
  log.epoch_start(epoch, 2 * epoch);
  log.trained(epoch, 2 * epoch + 2, 0.25, 0.5);
  log.eval_start(epoch);
  log.eval_stop({epoch, 2 * epoch + 2, Score::kIou, iou, 0.0625, 0.82, true});
}

const Keys kDeepcamHead = kSubmission + Keys{"init_start",
                                             "cache_clear",
                                             "seed",
                                             "number_of_ranks",
                                             "number_of_nodes",
                                             "accelerators_per_node",
                                             "global_batch_size",
                                             "batchnorm_group_size",
                                             "gradient_accumulation_frequency",
                                             "checkpoint",
                                             "opt_name",
                                             "opt_lr",
                                             "opt_betas",
                                             "opt_eps",
                                             "opt_weight_decay",
                                             "opt_bias_correction",
                                             "opt_grad_averaging",
                                             "opt_max_grad_norm",
                                             "scheduler_type",
                                             "scheduler_milestones",
                                             "scheduler_decay_rate",
                                             "scheduler_lr_warmup_steps",
                                             "scheduler_lr_warmup_factor",
                                             "init_stop",
                                             "run_start",
                                             "train_samples",
                                             "eval_samples"};
const Keys kDeepcamTrained = {"epoch_start", "learning_rate", "train_loss"};
const Keys kDeepcamEpoch =
    kDeepcamTrained + Keys{"eval_start", "eval_accuracy", "eval_loss", "eval_stop", "epoch_stop"};
const Keys kDeepcamLast =
    kDeepcamTrained + Keys{"eval_start", "eval_accuracy", "eval_loss", "target_accuracy_reached",
                           "eval_stop",  "epoch_stop",    "run_stop"};

}  // namespace

TEST_CASE("DeepCAM logs have the keys of its reference, in its order") {
  const TempDirectory directory;
  MlperfLog log(MlperfVersion::kV10, MlperfKeys::kDeepcam);
  begin_deepcam(log);
  log.open(directory / "mllog.txt", {});
  log_deepcam_epoch(log, 0, 0.5);
  log_deepcam_epoch(log, 1, 0.82);
  log.run_stop(true);
  const auto lines = parse_mlperf(contents(directory / "mllog.txt"));
  CHECK(mlperf_keys(lines) == kDeepcamHead + kDeepcamEpoch + kDeepcamLast);
  // Values and metadata as hpc_1.0.0/closed_deepcam*.yaml of github.com/mlcommons/logging want
  // them.
  const auto value = [&](const std::string& key) {
    nlohmann::ordered_json found;
    for (const auto& line : lines)
      if (line["key"] == key) found = line;  // the last one
    return found;
  };
  using Json = nlohmann::ordered_json;
  const std::vector<std::pair<const char*, Json>> expected = {
      {"submission_benchmark", "deepcam"},
      {"global_batch_size", 128},
      {"batchnorm_group_size", 2},
      {"gradient_accumulation_frequency", 4},
      {"checkpoint", nullptr},
      {"opt_name", "LAMB"},
      {"opt_lr", 0.0055},
      {"opt_betas", Json::array({0.9, 0.999})},
      {"opt_eps", 1e-6},
      {"opt_weight_decay", 0.01},
      {"opt_bias_correction", true},
      {"opt_grad_averaging", true},
      {"opt_max_grad_norm", 1.0},
      {"scheduler_type", "multistep"},
      {"scheduler_milestones", Json::array({800, 1600})},
      {"scheduler_decay_rate", 0.1},
      {"scheduler_lr_warmup_steps", 400},
      {"scheduler_lr_warmup_factor", 1.0},
      {"train_samples", 121266},
      {"eval_samples", 15158},
      {"learning_rate", 0.25},
      {"train_loss", 0.5},
      {"eval_accuracy", 0.82},
      {"eval_loss", 0.0625},
      {"target_accuracy_reached", 0.82}};
  for (const auto& [name, wanted] : expected) {
    const auto& key = name;  // bindings cannot be captured
    CAPTURE(key);
    CHECK(value(key)["value"] == wanted);
  }
  const std::vector<std::pair<const char*, std::int64_t>> steps = {
      {"epoch_start", 2},   {"learning_rate", 4}, {"train_loss", 4},
      {"eval_accuracy", 4}, {"eval_loss", 4},     {"epoch_stop", 4}};
  for (const auto& [name, step] : steps) {
    const auto& key = name;
    CAPTURE(key);
    CHECK(value(key)["metadata"]["epoch_num"] == 2);
    CHECK(value(key)["metadata"]["step_num"] == step);
  }
  CHECK(!value("eval_start")["metadata"].contains("step_num"));
}

TEST_CASE("DeepCAM logs: other optimizers and schedules have their own keys") {
  const TempDirectory directory;
  MlperfTraining training = deepcam_training();
  training.optimizer = "AdamW";
  training.checkpoint = "weights.h5";
  training.schedule.kind = ScheduleKind::kCosine;
  training.schedule.decay_steps = 9000;
  MlperfLog log(MlperfVersion::kV10, MlperfKeys::kDeepcam);
  log.training(training);
  training.schedule.kind = ScheduleKind::kConstant;
  log.training(training);
  log.open(directory / "mllog.txt", {});
  const std::string text = contents(directory / "mllog.txt");
  CHECK(!contains(text, "opt_max_grad_norm"));
  CHECK(contains(text, "\"checkpoint\", \"value\": \"weights.h5\""));
  CHECK(contains(text, "\"scheduler_type\", \"value\": \"cosine_annealing\""));
  CHECK(contains(text, "\"scheduler_t_max\", \"value\": 9000"));
  CHECK(contains(text, "\"scheduler_eta_min\", \"value\": 0.0"));
  CHECK(contains(text, "\"scheduler_milestones\", \"value\": []"));
}

TEST_CASE("a resumed DeepCAM run keeps what it logged of steps that it does not repeat") {
  for (const bool closed : {false, true}) {
    const TempDirectory directory;
    const auto path = directory / "mllog.txt";
    {
      MlperfLog log(MlperfVersion::kV10, MlperfKeys::kDeepcam);
      begin_deepcam(log);
      log.open(path, {});
      log_deepcam_epoch(log, 0, 0.5);
      log_deepcam_epoch(log, 1, 0.5);
    }
    MlperfLog log(MlperfVersion::kV10, MlperfKeys::kDeepcam);
    begin_deepcam(log);
    log.open(path, {2, 1, false, closed, false});
    CHECK(mlperf_keys(parse_mlperf(contents(path))) ==
          kDeepcamHead + (closed ? kDeepcamEpoch : kDeepcamTrained) + Keys{"resumed"});
    CHECK(log.warning().empty());
  }
}

TEST_CASE("linear schedules have no keys of a step decay; constant ones have empty ones") {
  const TempDirectory directory;
  ScheduleOptions schedule = step_schedule();
  schedule.kind = ScheduleKind::kLinear;
  MlperfLog log(MlperfVersion::kV10);
  log.open(directory / "mllog.txt", {});
  log.optimizer("SGD", schedule, 0, 0);
  CHECK(!contains(contents(directory / "mllog.txt"), "decay_boundary"));
  log.optimizer("SGD", {}, 0, 0);
  CHECK(contains(contents(directory / "mllog.txt"), "boundary_epochs\", \"value\": [], "));
  CHECK(contains(contents(directory / "mllog.txt"), "warmup_factor\", \"value\": 1.0, "));
}

TEST_CASE("a log without a version writes nothing") {
  const TempDirectory directory;
  MlperfLog log;
  begin(log);
  log.open(directory / "mllog.txt", {});
  log_epoch(log, 0, 0.5);
  CHECK(directory.entries() == 0);
}

}  // namespace halomesh
