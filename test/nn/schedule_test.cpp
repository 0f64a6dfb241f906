// SPDX-License-Identifier: Apache-2.0
// Learning rates of the published runs, epoch by epoch at every edge, as literal numbers.
#include "src/nn/schedule.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
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
    const double rate = schedule.rate(row.epoch * kSteps);
    CHECK(std::abs(rate - row.rate) <= 8 * 0x1p-53 * options.peak);
    CHECK(schedule.rate(row.epoch * kSteps + kSteps - 1) == rate);
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

struct StepRow {
  std::int64_t step;
  double rate;
};

// With epochs of 7 steps.
void expect_step_rates(const ScheduleOptions& options, const std::vector<StepRow>& rows) {
  const Schedule schedule(options, 7);
  REQUIRE(!rows.empty());
  for (const StepRow& row : rows) {
    CAPTURE(row.step);
    CHECK(std::abs(schedule.rate(row.step) - row.rate) <= 1e-14 * options.peak);
  }
}

TEST_CASE("a multistep schedule is that of DeepCAM's published runs") {
  ScheduleOptions options;
  options.kind = ScheduleKind::kMultistep;
  options.peak = 0.0055;
  options.warmup_steps = 400;
  options.milestones = {800};
  // Logged by a run: update 10 (step 9) has 0.0055 * 9 / 400; the drop is between 1201 and 1210.
  expect_step_rates(options, {{0, 0},
                              {9, 0.0055 * 9 / 400},
                              {399, 0.0055 * 399 / 400},
                              {400, 0.0055},
                              {1199, 0.0055},
                              {1200, 0.00055},
                              {100000, 0.00055}});
  options.warmup_steps = 0;
  options.milestones = {3, 5};
  options.gamma = 0.5;
  expect_step_rates(options, {{0, 0.0055}, {2, 0.0055}, {3, 0.00275}, {4, 0.00275}, {5, 0.001375}});
}

TEST_CASE("cosine and poly schedules") {
  ScheduleOptions options;
  options.kind = ScheduleKind::kCosine;
  options.peak = 0.9;
  options.min_lr = 0.1;
  options.decay_steps = 12;
  options.warmup_steps = 2;
  const double half = std::sqrt(0.5);  // cos(pi / 4)
  expect_step_rates(options, {{0, 0},
                              {1, 0.45},
                              {2, 0.9},
                              {5, 0.1 + 0.4 * (1 + half)},
                              {6, 0.1 + 0.4 * 1.5},
                              {8, 0.5},
                              {14, 0.1},
                              {15, 0.1},
                              {1000, 0.1}});
  options.kind = ScheduleKind::kPoly;
  options.poly_power = 2;
  expect_step_rates(
      options, {{1, 0.45}, {2, 0.9}, {5, 0.1 + 0.8 * 9 / 16}, {8, 0.3}, {14, 0.1}, {1000, 0.1}});
  // After a warm-up of one epoch of 7 steps, from the rate 0.001.
  options.warmup_steps = 0;
  options.warmup_epochs = 1;
  expect_step_rates(options, {{0, 0.001}, {6, 0.001}, {7, 0.9}, {13, 0.3}, {19, 0.1}});
}

TEST_CASE("a warm-up by steps precedes every schedule") {
  ScheduleOptions options;
  options.peak = 0.5;
  options.warmup_steps = 4;
  expect_step_rates(options, {{0, 0}, {1, 0.125}, {3, 0.375}, {4, 0.5}, {700, 0.5}});
  options.kind = ScheduleKind::kLinear;
  options.linear_epochs = 2;
  options.linear_end_factor = 0;
  expect_step_rates(options, {{3, 0.375}, {4, 0.5}, {7, 0.25}, {14, 0}});
}

TEST_CASE("names of schedules") {
  const std::vector<std::string> names{"constant", "step", "linear", "multistep", "cosine", "poly"};
  CHECK(schedule_names() == names);
  for (const std::string& name : names) CHECK(to_string(parse_schedule_kind(name)) == name);
  CHECK(parse_schedule_kind("cosine") == ScheduleKind::kCosine);
  CHECK_THROWS_WITH_AS(parse_schedule_kind("sine"), "unknown learning-rate schedule \"sine\"",
                       UsageError);
}

TEST_CASE("invalid options are refused with what is wrong with them") {
  const auto refuses = [](auto change, const std::string& said) {
    ScheduleOptions options = step_schedule(0.008);
    change(options);
    CHECK_THROWS_WITH_AS(Schedule(options, 1), said.c_str(), UsageError);
  };
  refuses([](ScheduleOptions& o) { o.peak = -1; }, "--lr -1 is out of range");
  refuses([](ScheduleOptions& o) { o.peak = std::nan(""); }, "--lr nan is out of range");
  refuses([](ScheduleOptions& o) { o.warmup_epochs = -1; }, "--warmup-epochs -1 is out of range");
  refuses([](ScheduleOptions& o) { o.warmup_initial = std::numeric_limits<double>::infinity(); },
          "--warmup-initial-lr inf is out of range");
  refuses(
      [](ScheduleOptions& o) {
        o.decay_epochs = {64, 32};
      },
      "--decay-epochs 64,32: 32 comes after 64");
  refuses(
      [](ScheduleOptions& o) {
        o.decay_epochs = {-1, 32};
      },
      "--decay-epochs -1,32: -1 comes after the start");
  refuses([](ScheduleOptions& o) { o.decay_epochs = {32}; },
          "--schedule step with 1 numbers in --decay-epochs and 2 in --decay-factors");
  refuses(
      [](ScheduleOptions& o) {
        o.decay_factors = {0.5, -0.5};
      },
      "--decay-factors: -0.5 is not a factor");
  refuses([](ScheduleOptions& o) { o.decay_epochs = {}, o.decay_factors = {}; },
          "--schedule step with 0 numbers in --decay-epochs and 0 in --decay-factors");
  refuses([](ScheduleOptions& o) { o.kind = ScheduleKind::kLinear, o.linear_epochs = 0; },
          "--linear-epochs 0 is out of range");
  refuses([](ScheduleOptions& o) { o.kind = ScheduleKind::kLinear, o.linear_end_factor = 1.5; },
          "--linear-end-factor 1.5 is not a fraction of --lr");
  refuses([](ScheduleOptions& o) { o.warmup_epochs = 0, o.warmup_steps = -1; },
          "--warmup-steps -1 is out of range");
  refuses([](ScheduleOptions& o) { o.warmup_epochs = 1, o.warmup_steps = 1; },
          "--warmup-epochs 1 and --warmup-steps 1 exclude each other");
  const auto refuses_of = [](ScheduleKind kind, auto change, const std::string& said) {
    ScheduleOptions options;
    options.kind = kind;
    options.peak = 0.5;
    options.milestones = {10};
    options.decay_steps = 10;
    CHECK_NOTHROW(Schedule(options, 1));
    change(options);
    CHECK_THROWS_WITH_AS(Schedule(options, 1), said.c_str(), UsageError);
  };
  const auto multistep = ScheduleKind::kMultistep, poly = ScheduleKind::kPoly;
  refuses_of(
      multistep, [](ScheduleOptions& o) { o.milestones = {}; },
      "--schedule multistep needs --milestones");
  refuses_of(
      multistep,
      [](ScheduleOptions& o) {
        o.milestones = {8, 8};
      },
      "--milestones 8,8: 8 comes after 8");
  refuses_of(
      multistep, [](ScheduleOptions& o) { o.milestones = {-1}; },
      "--milestones -1: -1 comes after the start");
  refuses_of(
      multistep, [](ScheduleOptions& o) { o.gamma = -0.1; }, "--gamma -0.1 is out of range");
  refuses_of(
      ScheduleKind::kCosine, [](ScheduleOptions& o) { o.decay_steps = 0; },
      "--schedule cosine needs --decay-steps");
  refuses_of(
      poly, [](ScheduleOptions& o) { o.min_lr = -1; },
      "--min-lr -1 is not a final rate for --lr 0.5");
  refuses_of(
      poly, [](ScheduleOptions& o) { o.min_lr = 2 * o.peak; },
      "--min-lr 1 is not a final rate for --lr 0.5");
  refuses_of(
      poly, [](ScheduleOptions& o) { o.poly_power = 0; }, "--poly-power 0 is no decay");
  CHECK_THROWS_WITH_AS(Schedule(step_schedule(0.008), 0), "an epoch has 0 steps", UsageError);
  CHECK_NOTHROW(Schedule(step_schedule(0.008), 1));
}

}  // namespace
}  // namespace halomesh
