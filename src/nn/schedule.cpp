// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules: see schedule.hpp.
#include "src/nn/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "error.hpp"

namespace halomesh {
namespace {

void require_option(bool condition, const std::string& what, const std::string& hint) {
  if (!condition) throw UsageError(what, hint);
}

void validate_decay(const std::vector<std::int64_t>& epochs, const std::vector<double>& factors) {
  require_option(!epochs.empty() && epochs.size() == factors.size(),
                 text("step schedule with {} decay epochs and {} decay factors", epochs.size(),
                      factors.size()),
                 "give as many --decay-factors as --decay-epochs, e.g. 0.25,0.125 and 32,64");
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    require_option(epochs[i] >= 0 && (i == 0 || epochs[i] > epochs[i - 1]),
                   text("decay epoch {} in place {}", epochs[i], i + 1),
                   "give --decay-epochs of at least 0 in increasing order");
    require_option(std::isfinite(factors[i]) && factors[i] >= 0.0,
                   text("decay factor {:g}", factors[i]),
                   "give finite --decay-factors of at least 0");
  }
}

}  // namespace

ScheduleKind parse_schedule_kind(const std::string& text) {
  for (ScheduleKind kind : {ScheduleKind::kConstant, ScheduleKind::kStep, ScheduleKind::kLinear})
    if (text == to_string(kind)) return kind;
  throw UsageError(fmt::format("learning-rate schedule \"{}\"", text),
                   "use --schedule constant, step or linear");
}

std::string to_string(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kConstant:
      return "constant";
    case ScheduleKind::kStep:
      return "step";
    case ScheduleKind::kLinear:
      return "linear";
  }
  throw Error(fmt::format("learning-rate schedule number {}", static_cast<int>(kind)));
}

Schedule::Schedule(ScheduleOptions options, std::int64_t steps_per_epoch)
    : options_(std::move(options)), steps_per_epoch_(steps_per_epoch) {
  const ScheduleOptions& o = options_;
  require_option(steps_per_epoch > 0, text("an epoch of {} steps", steps_per_epoch),
                 "use a smaller --batch or more training samples");
  require_option(std::isfinite(o.peak) && o.peak >= 0.0, text("learning rate {:g}", o.peak),
                 "give a finite --lr of at least 0");
  require_option(o.warmup_epochs >= 0, text("warm-up of {} epochs", o.warmup_epochs),
                 "give --warmup-epochs of at least 0");
  require_option(std::isfinite(o.warmup_initial) && o.warmup_initial >= 0.0,
                 text("warm-up from learning rate {:g}", o.warmup_initial),
                 "give a finite --warmup-initial-lr of at least 0");
  if (o.kind == ScheduleKind::kStep) validate_decay(o.decay_epochs, o.decay_factors);
  if (o.kind == ScheduleKind::kLinear) {
    require_option(o.linear_epochs > 0, text("linear decay over {} epochs", o.linear_epochs),
                   "give --linear-epochs of at least 1");
    require_option(o.linear_end_factor >= 0.0 && o.linear_end_factor <= 1.0,
                   text("linear decay to {:g} of the peak", o.linear_end_factor),
                   "give --linear-end-factor from 0 to 1");
  }
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
