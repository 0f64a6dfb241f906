// SPDX-License-Identifier: Apache-2.0
// Learning rates of the published runs, epoch by epoch at every edge, as literal numbers.
#include "src/nn/schedule.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "error.hpp"

namespace halomesh {
namespace {

struct Row {
  std::int64_t epoch;
  double rate;
};

ScheduleOptions step_schedule(double peak) {
  ScheduleOptions options;
  options.kind = ScheduleKind::kStep;
  options.peak = peak;
  options.warmup_epochs = 4;
  options.warmup_initial = 0.001;
  options.decay_epochs = {32, 64};
  options.decay_factors = {0.25, 0.125};
  return options;
}

// The literal decimals and the formula in double differ by at most eight roundings of numbers no
// larger than the peak (the linear decay subtracts such numbers).
void expect_rates(const ScheduleOptions& options, const std::vector<Row>& rows) {
  constexpr std::int64_t kSteps = 7;
  const Schedule schedule(options, kSteps);
  CHECK(rows.size() > 0);
  for (const Row& row : rows) {
    INFO("epoch ", row.epoch);
    CHECK(std::abs(schedule.rate_of_epoch(row.epoch) - row.rate) <= 8 * 0x1p-53 * options.peak);
    CHECK(schedule.rate(row.epoch * kSteps) == schedule.rate_of_epoch(row.epoch));
    CHECK(schedule.rate(row.epoch * kSteps + kSteps - 1) == schedule.rate_of_epoch(row.epoch));
  }
}

TEST_CASE("v0.7 closed, batch 64: the warm-up is flat") {
  expect_rates(step_schedule(0.001), {{0, 0.001},
                                      {3, 0.001},
                                      {4, 0.001},
                                      {32, 0.001},
                                      {33, 0.00025},
                                      {64, 0.00025},
                                      {65, 0.000125},
                                      {127, 0.000125}});
}

TEST_CASE("v0.7 closed, batch 512: boundaries apply one epoch after their number") {
  expect_rates(step_schedule(0.008), {{0, 0.001},
                                      {1, 0.00275},
                                      {2, 0.0045},
                                      {3, 0.00625},
                                      {4, 0.008},
                                      {31, 0.008},
                                      {32, 0.008},
                                      {33, 0.002},
                                      {63, 0.002},
                                      {64, 0.002},
                                      {65, 0.001},
                                      {119, 0.001}});
}

TEST_CASE("v0.7 open, Cori batch 1024: a third boundary") {
  ScheduleOptions options = step_schedule(0.016);
  options.decay_epochs.push_back(96);
  options.decay_factors.push_back(0.0625);
  expect_rates(options, {{0, 0.001},
                         {1, 0.00475},
                         {2, 0.0085},
                         {3, 0.01225},
                         {4, 0.016},
                         {32, 0.016},
                         {33, 0.004},
                         {64, 0.004},
                         {65, 0.002},
                         {96, 0.002},
                         {97, 0.001},
                         {255, 0.001}});
}

TEST_CASE("v0.7 open, Fugaku batch 4096: linear decay, then flat") {
  ScheduleOptions options;
  options.kind = ScheduleKind::kLinear;
  options.peak = 0.0512;
  options.warmup_epochs = 12;
  options.warmup_initial = 0.00512;
  options.linear_epochs = 170;
  options.linear_end_factor = 0.01;
  // Warm-up: 0.00384 per epoch. Decay: (0.0512 - 0.000512) / 170 = 0.050688 / 170 per epoch.
  expect_rates(options, {{0, 0.00512},
                         {1, 0.00896},
                         {6, 0.02816},
                         {11, 0.04736},
                         {12, 0.0512},
                         {13, 0.0512 - 0.050688 / 170},
                         {97, 0.025856},
                         {181, 0.000512 + 0.050688 / 170},
                         {182, 0.000512},
                         {183, 0.000512},
                         {199, 0.000512}});
}

TEST_CASE("the rate changes between epochs only") {
  const Schedule schedule(step_schedule(0.008), 512);
  CHECK(schedule.rate(0) == 0.001);
  CHECK(schedule.rate(511) == 0.001);
  CHECK(schedule.rate(512) == 0.00275);
  CHECK(schedule.rate(33 * 512 - 1) == 0.008);
  CHECK(schedule.rate(33 * 512) == 0.002);
}

TEST_CASE("a constant schedule is constant after its warm-up") {
  ScheduleOptions options;
  options.peak = 0.5;
  expect_rates(options, {{0, 0.5}, {1, 0.5}, {1000, 0.5}});
  options.warmup_epochs = 2;
  options.warmup_initial = 0.25;
  expect_rates(options, {{0, 0.25}, {1, 0.375}, {2, 0.5}, {1000, 0.5}});
}

TEST_CASE("a boundary within the warm-up applies after it") {
  ScheduleOptions options = step_schedule(0.008);
  options.decay_epochs = {0, 2};
  expect_rates(options, {{3, 0.00625}, {4, 0.001}});
  options.warmup_epochs = 0;
  expect_rates(options, {{0, 0.008}, {1, 0.002}, {2, 0.002}, {3, 0.001}});
}

TEST_CASE("names of schedules") {
  for (ScheduleKind kind : {ScheduleKind::kConstant, ScheduleKind::kStep, ScheduleKind::kLinear})
    CHECK(parse_schedule_kind(to_string(kind)) == kind);
  CHECK(to_string(ScheduleKind::kLinear) == "linear");
  CHECK_THROWS_WITH_AS(parse_schedule_kind("cosine"), "learning-rate schedule \"cosine\"",
                       UsageError);
}

TEST_CASE("invalid options are refused") {
  const auto refuses = [](auto change) {
    ScheduleOptions options = step_schedule(0.008);
    change(options);
    CHECK_THROWS_AS(Schedule(options, 1), UsageError);
  };
  refuses([](ScheduleOptions& o) { o.peak = -1; });
  refuses([](ScheduleOptions& o) { o.peak = std::nan(""); });
  refuses([](ScheduleOptions& o) { o.warmup_epochs = -1; });
  refuses([](ScheduleOptions& o) { o.warmup_initial = std::numeric_limits<double>::infinity(); });
  refuses([](ScheduleOptions& o) { o.decay_epochs = {64, 32}; });
  refuses([](ScheduleOptions& o) { o.decay_epochs = {-1, 32}; });
  refuses([](ScheduleOptions& o) { o.decay_epochs = {32}; });
  refuses([](ScheduleOptions& o) { o.decay_factors = {0.5, -0.5}; });
  refuses([](ScheduleOptions& o) { o.decay_epochs = {}, o.decay_factors = {}; });
  refuses([](ScheduleOptions& o) { o.kind = ScheduleKind::kLinear, o.linear_epochs = 0; });
  refuses([](ScheduleOptions& o) { o.kind = ScheduleKind::kLinear, o.linear_end_factor = 1.5; });
  CHECK_THROWS_AS(Schedule(step_schedule(0.008), 0), UsageError);
  CHECK_NOTHROW(Schedule(step_schedule(0.008), 1));
}

}  // namespace
}  // namespace halomesh
