// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules: see schedule.hpp.
#include "src/nn/schedule.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "error.hpp"
#include "joined.hpp"

namespace halomesh {
namespace {

constexpr std::array kKinds{ScheduleKind::kConstant,  ScheduleKind::kStep,   ScheduleKind::kLinear,
                            ScheduleKind::kMultistep, ScheduleKind::kCosine, ScheduleKind::kPoly};

void require_option(bool condition, const std::string& what, const std::string& hint) {
  if (!condition) throw UsageError(what, hint);
}

void require_range(bool inside, const char* option, double value, const char* hint) {
  require_option(inside, text("--{} {:g} is out of range", option, value), hint);
}

void require_increasing(const char* option, const std::vector<std::int64_t>& numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i)
    require_option(numbers[i] >= (i == 0 ? 0 : numbers[i - 1] + 1),
                   text("--{} {}: {} comes after {}", option, joined(numbers, ","), numbers[i],
                        i == 0 ? "the start" : fmt::format("{}", numbers[i - 1])),
                   "give numbers of at least 0 in increasing order");
}

void validate_decay(const std::vector<std::int64_t>& epochs, const std::vector<double>& factors) {
  require_option(!epochs.empty() && epochs.size() == factors.size(),
                 text("--schedule step with {} numbers in --decay-epochs and {} in --decay-factors",
                      epochs.size(), factors.size()),
                 "give as many of each, e.g. --decay-epochs 32,64 --decay-factors 0.25,0.125");
  require_increasing("decay-epochs", epochs);
  for (std::size_t i = 0; i < epochs.size(); ++i)
    require_option(std::isfinite(factors[i]) && factors[i] >= 0.0,
                   text("--decay-factors: {:g} is not a factor", factors[i]),
                   "give finite numbers of at least 0");
}

void validate_steps(const ScheduleOptions& o) {
  require_range(o.warmup_steps >= 0, "warmup-steps", static_cast<double>(o.warmup_steps),
                "give at least 0");
  require_option(o.warmup_steps == 0 || o.warmup_epochs == 0,
                 text("--warmup-epochs {} and --warmup-steps {} exclude each other",
                      o.warmup_epochs, o.warmup_steps),
                 "give one of them");
  if (o.kind == ScheduleKind::kMultistep) {
    require_option(!o.milestones.empty(), "--schedule multistep needs --milestones",
                   "give the steps after the warm-up at which the rate drops, e.g. --milestones "
                   "4096,8192");
    require_increasing("milestones", o.milestones);
    require_range(std::isfinite(o.gamma) && o.gamma >= 0.0, "gamma", o.gamma,
                  "give a finite number of at least 0, such as 0.1");
  }
  if (o.kind != ScheduleKind::kCosine && o.kind != ScheduleKind::kPoly) return;
  require_option(o.decay_steps > 0, text("--schedule {} needs --decay-steps", to_string(o.kind)),
                 "give the steps from the end of the warm-up to the final rate, at least 1");
  require_option(o.min_lr >= 0.0 && o.min_lr <= o.peak,
                 text("--min-lr {:g} is not a final rate for --lr {:g}", o.min_lr, o.peak),
                 "give at least 0 and at most --lr");
  require_option(std::isfinite(o.poly_power) && o.poly_power > 0.0,
                 text("--poly-power {:g} is no decay", o.poly_power),
                 "give a finite number above 0, such as 0.9");
}

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  names.reserve(kKinds.size());
  for (ScheduleKind kind : kKinds) names.push_back(to_string(kind));
  return names;
}

ScheduleKind parse_schedule_kind(const std::string& text) {
  for (ScheduleKind kind : kKinds)
    if (text == to_string(kind)) return kind;
  throw UsageError(fmt::format("unknown learning-rate schedule \"{}\"", text),
                   "use --schedule " + joined(schedule_names(), ", "));
}

std::string to_string(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kConstant:
      return "constant";
    case ScheduleKind::kStep:
      return "step";
    case ScheduleKind::kLinear:
      return "linear";
    case ScheduleKind::kMultistep:
      return "multistep";
    case ScheduleKind::kCosine:
      return "cosine";
    case ScheduleKind::kPoly:
      return "poly";
  }
  throw Error(fmt::format("learning-rate schedule number {}", static_cast<int>(kind)));
}

Schedule::Schedule(ScheduleOptions options, std::int64_t steps_per_epoch)
    : options_(std::move(options)), steps_per_epoch_(steps_per_epoch) {
  const ScheduleOptions& o = options_;
  require_option(steps_per_epoch > 0, text("an epoch has {} steps", steps_per_epoch),
                 "use a smaller --batch or more training samples");
  require_range(std::isfinite(o.peak) && o.peak >= 0.0, "lr", o.peak,
                "give a finite number of at least 0");
  require_range(o.warmup_epochs >= 0, "warmup-epochs", static_cast<double>(o.warmup_epochs),
                "give at least 0");
  require_range(std::isfinite(o.warmup_initial) && o.warmup_initial >= 0.0, "warmup-initial-lr",
                o.warmup_initial, "give a finite number of at least 0");
  validate_steps(o);
  if (o.kind == ScheduleKind::kStep) validate_decay(o.decay_epochs, o.decay_factors);
  if (o.kind == ScheduleKind::kLinear) {
    require_range(o.linear_epochs > 0, "linear-epochs", static_cast<double>(o.linear_epochs),
                  "give at least 1");
    require_option(o.linear_end_factor >= 0.0 && o.linear_end_factor <= 1.0,
                   text("--linear-end-factor {:g} is not a fraction of --lr", o.linear_end_factor),
                   "give a number from 0 to 1");
  }
}

double Schedule::rate(std::int64_t step) const {
  const ScheduleOptions& o = options_;
  if (step < o.warmup_steps)
    return o.peak * static_cast<double>(step) / static_cast<double>(o.warmup_steps);
  const bool by_steps = o.kind == ScheduleKind::kMultistep || o.kind == ScheduleKind::kCosine ||
                        o.kind == ScheduleKind::kPoly;
  const std::int64_t warmup = o.warmup_steps + o.warmup_epochs * steps_per_epoch_;
  return by_steps && step >= warmup ? decayed(step - warmup)
                                    : rate_of_epoch(step / steps_per_epoch_);
}

// `step` counts from the end of the warm-up.
double Schedule::decayed(std::int64_t step) const {
  const ScheduleOptions& o = options_;
  if (o.kind == ScheduleKind::kMultistep) {
    const auto passed = std::upper_bound(o.milestones.begin(), o.milestones.end(), step);
    return o.peak * std::pow(o.gamma, passed - o.milestones.begin());
  }
  const double done =
      static_cast<double>(std::min(step, o.decay_steps)) / static_cast<double>(o.decay_steps);
  const double left = o.kind == ScheduleKind::kCosine ? (1 + std::cos(std::numbers::pi * done)) / 2
                                                      : std::pow(1 - done, o.poly_power);
  return o.min_lr + (o.peak - o.min_lr) * left;
}

double Schedule::rate_of_epoch(std::int64_t epoch) const {
  const ScheduleOptions& o = options_;
  if (epoch < o.warmup_epochs)
    return o.warmup_initial + (o.peak - o.warmup_initial) * static_cast<double>(epoch) /
                                  static_cast<double>(o.warmup_epochs);
  double factor = 1.0;
  if (o.kind == ScheduleKind::kStep) {
    for (std::size_t i = 0; i < o.decay_epochs.size(); ++i)
      if (o.decay_epochs[i] < epoch) factor = o.decay_factors[i];
  } else if (o.kind == ScheduleKind::kLinear) {
    const std::int64_t done = std::min(epoch - o.warmup_epochs, o.linear_epochs);
    const double left = 1.0 - static_cast<double>(done) / static_cast<double>(o.linear_epochs);
    factor = o.linear_end_factor + (1.0 - o.linear_end_factor) * left;
  }
  return o.peak * factor;
}

}  // namespace halomesh
