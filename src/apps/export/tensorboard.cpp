// SPDX-License-Identifier: Apache-2.0
// The records of a run as TensorBoard's event files: see tensorboard.hpp.
#include "src/apps/export/tensorboard.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <system_error>
#include <utility>

#include "error.hpp"
#include "runtime/data/tfrecord.hpp"
#include "src/apps/export/event.pb.h"

namespace halomesh {
namespace {

constexpr const char* kPrefix = "events.out.tfevents.";
// In place of host and process: a repeated export, from whichever host, replaces its files.
constexpr const char* kWriter = ".halomesh.0.";

/// Samples per step; 0 where run.json does not say.
double batch_of(const RunFiles& run) {
  const auto options = run.run().find("options");
  if (!run.run().is_object() || options == run.run().end()) return 0;
  const auto batch = options->find("batch");
  if (batch == options->end()) return 0;
  if (batch->is_number()) return batch->get<double>();
  return batch->is_string() ? std::strtod(batch->get<std::string>().c_str(), nullptr) : 0;
}

double finite(double value) { return std::isfinite(value) ? value : 0; }

void add(std::vector<Scalar>& scalars, const char* tag, double value) {
  if (std::isfinite(value)) scalars.push_back({tag, static_cast<float>(value)});
}

void add_steps(const RunFiles& run, std::vector<TensorboardEvent>& events) {
  const double batch = batch_of(run);
  double time = 0;
  for (const auto& [record, written] : run.steps()) {
    time = written > 0 ? written : time + finite(record.seconds);
    TensorboardEvent event{time, record.step, {}};
    add(event.scalars, "train/loss", record.loss);
    add(event.scalars, "train/lr", record.lr);
    if (batch > 0 && record.seconds > 0)
      add(event.scalars, "speed/samples_per_s", batch / record.seconds);
    events.push_back(std::move(event));
  }
}

/// The event of the last step of `epoch` or before; null if there is none.
const TensorboardEvent* last_step_of(const RunFiles& run, std::int64_t epoch,
                                     const std::vector<TensorboardEvent>& steps) {
  const auto& records = run.steps();
  const auto after =
      std::find_if(records.begin(), records.end(),
                   [&](const Timed<StepRecord>& each) { return each.record.epoch > epoch; });
  if (after == records.begin()) return nullptr;
  return &steps[static_cast<std::size_t>(after - records.begin()) - 1];
}

const char* eval_tag(Score kind) {
  return kind == Score::kMae ? "eval/mae" : kind == Score::kDice ? "eval/dice" : "eval/iou";
}

void add_evaluations(const RunFiles& run, const std::vector<TensorboardEvent>& steps,
                     std::vector<TensorboardEvent>& events) {
  const auto& all = run.evaluations();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const EvaluationRecord& record = all[i].record;
    const TensorboardEvent* const last = last_step_of(run, record.epoch, steps);
    // --evaluate-first validates before the first step, and names it epoch 0 as well.
    const bool before_steps =
        i == 0 && ((all.size() > 1 && all[1].record.epoch == record.epoch) ||
                   (all[0].time > 0 && !steps.empty() && all[0].time < steps.front().wall_time));
    TensorboardEvent event{all[i].time, 0, {}};
    if (last != nullptr && !before_steps) {
      event.step = last->step;
      if (event.wall_time <= 0) event.wall_time = last->wall_time + finite(record.seconds);
    }
    add(event.scalars, eval_tag(record.kind), record.score);
    add(event.scalars, "eval/loss", record.loss);
    events.push_back(std::move(event));
  }
}

void add_phases(const RunFiles& run, std::vector<TensorboardEvent>& events) {
  constexpr std::array<std::array<const char*, 2>, 4> kTags = {
      {{"compute", "time/compute"},
       {"halo wait", "time/halo"},
       {"reduction wait", "time/reduction"},
       {"input wait", "time/input"}}};
  for (const nlohmann::json& line : run.phases()) {
    if (!line.contains("step") || !line["step"].is_number_integer()) continue;
    if (!line.contains("kinds") || !line["kinds"].is_array()) continue;
    const bool timed = line.contains("time") && line["time"].is_number();
    TensorboardEvent event{timed ? line["time"].get<double>() : 0, line["step"], {}};
    for (const nlohmann::json& row : line["kinds"])
      for (const auto& [kind, tag] : kTags)
        if (row.is_object() && row.contains("kind") && row["kind"] == kind &&
            row.contains("mean") && row["mean"].is_number())
          add(event.scalars, tag, row["mean"].get<double>());
    events.push_back(std::move(event));
  }
}

/// The first steps after which a run was resumed without the records of the steps before.
std::vector<std::int64_t> session_starts(const RunFiles& run) {
  std::vector<std::int64_t> starts;
  const auto& steps = run.steps();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::int64_t before = i == 0 ? 0 : steps[i - 1].record.step;
    if (steps[i].record.step > before + 1) starts.push_back(steps[i].record.step);
  }
  return starts;
}

Event message(double wall_time, std::int64_t step) {
  Event event;
  event.set_wall_time(wall_time);
  event.set_step(step);
  return event;
}

void write_session(const TensorboardSession& session, double wall_time,
                   const std::filesystem::path& path) {
  TfRecordWriter writer(path, Compression::kNone);
  Event version = message(wall_time, session.first_step);
  version.set_file_version("brain.Event:2");
  writer.write(version.SerializeAsString());
  Event start = message(wall_time, session.first_step);
  start.mutable_session_log()->set_status(SessionLog::START);
  writer.write(start.SerializeAsString());
  for (const TensorboardEvent& each : session.events) {
    Event event = message(each.wall_time, each.step);
    for (const Scalar& scalar : each.scalars) {
      Summary::Value* const value = event.mutable_summary()->add_value();
      value->set_tag(scalar.tag);
      value->set_simple_value(scalar.value);
    }
    writer.write(event.SerializeAsString());
  }
  writer.commit();
}

/// Removes what an earlier export has written and this one has not replaced.
void remove_others(const std::filesystem::path& directory,
                   const std::vector<std::filesystem::path>& written) {
  std::vector<std::filesystem::path> old;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.find(kWriter) != std::string::npos &&
        std::find(written.begin(), written.end(), entry.path()) == written.end())
      old.push_back(entry.path());
  }
  for (const std::filesystem::path& path : old) std::filesystem::remove(path);
}

}  // namespace

std::vector<TensorboardSession> tensorboard_sessions(const RunFiles& run) {
  std::vector<TensorboardEvent> steps, all;
  add_steps(run, steps);
  all = steps;
  add_phases(run, all);
  add_evaluations(run, steps, all);
  std::stable_sort(
      all.begin(), all.end(),
      [](const TensorboardEvent& a, const TensorboardEvent& b) { return a.step < b.step; });
  std::vector<TensorboardSession> sessions;
  sessions.push_back({});
  const std::vector<std::int64_t> starts = session_starts(run);
  auto next = starts.begin();
  for (TensorboardEvent& event : all) {
    if (event.scalars.empty()) continue;
    while (next != starts.end() && event.step >= *next) {
      // A run whose first records are missing begins with its first session.
      if (sessions.back().events.empty()) sessions.pop_back();
      sessions.push_back({*next++, {}});
    }
    sessions.back().events.push_back(std::move(event));
  }
  return sessions;
}

std::vector<std::filesystem::path> write_tensorboard(
    const std::vector<TensorboardSession>& sessions, const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  require(std::filesystem::is_directory(directory),
          text("cannot create directory {}: {}", directory.string(), error.message()),
          "give a directory that can be written");
  std::vector<std::filesystem::path> written;
  const auto& first = sessions.front().events;
  const double begin = first.empty() ? 0 : first.front().wall_time;
  for (const TensorboardSession& session : sessions) {
    const double wall_time = session.events.empty() ? begin : session.events.front().wall_time;
    written.push_back(directory / fmt::format("{}{:010d}{}{}", kPrefix,
                                              static_cast<std::int64_t>(std::max(begin, 0.0)),
                                              kWriter, written.size()));
    write_session(session, wall_time, written.back());
  }
  remove_others(directory, written);
  return written;
}

}  // namespace halomesh
