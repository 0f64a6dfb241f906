// SPDX-License-Identifier: Apache-2.0
// The file run.json of a training run: see training_record.hpp.
#include "src/apps/train/training_record.hpp"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/log/metrics.hpp"
#include "runtime/step/phase_work.hpp"
#include "src/apps/launch/run_record.hpp"

namespace halomesh {
namespace {

using Json = nlohmann::ordered_json;

Json work_json(const StepWork& work) {
  Json rows = Json::array();
  for (const StepWork::Entry& entry : work.entries())
    rows.push_back({{"phase", name_of(entry.key.phase)},
                    {"layer", entry.key.layer},
                    {"flops", entry.work.flops},
                    {"memory_bytes", entry.work.memory_bytes}});
  return rows;
}

}  // namespace

Json training_record(const Options& options, const RankBinding& binding,
                     const TrainingSetup& setup) {
  const NetworkOnMesh& network = setup.network;
  const Comm& world = network.mesh.world();
  const MeshShape& shape = network.mesh.shape();
  const std::int64_t batch = setup.trainer.global_batch;
  const StepWork work =
      StepWork::of_all_ranks(network.model, network.geometry, shape, local_batch(batch, shape));
  Json record = program_record(world, binding, options);
  record["nodes"] = world.sum(std::int64_t{binding.rank_on_node == 0 ? 1 : 0});
  if (Json job = job_record([](const char* name) { return std::getenv(name); }); !job.is_null())
    record["job"] = std::move(job);
  record["mesh"] = {{"ranks", shape.ranks()},
                    {"replicas", shape.replicas},
                    {"parts", to_string(shape.parts)},
                    {"threads", binding.threads}};
  record["reduction"] = name_of(setup.trainer.reduction);
  record["kernels"] = setup.implementations;
  record["samples"] = {{"training", setup.training_samples},
                       {"validation", setup.validation_samples}};
  record["network"] = {{"parameters", network.geometry.parameter_count()},
                       {"flops_per_sample", work.flops() / static_cast<double>(batch)}};
  if (const auto& scales = network.model.count_scales(); !scales.empty()) {
    Json channels = Json::array();
    for (const ChannelScale& scale : scales)
      channels.push_back({{"mean", scale.mean}, {"deviation", scale.deviation}});
    record["standardization"] = std::move(channels);
  }
  record["work"] = work_json(work);
  if (const auto trace = options.get<std::string>("trace"); !trace.empty()) record["trace"] = trace;
  return record;
}

const char* name_of(TrainingEnd end) {
  switch (end) {
    case TrainingEnd::kDone:
      return "done";
    case TrainingEnd::kTargetReached:
      return "target";
    case TrainingEnd::kDiverged:
      return "diverged";
    case TrainingEnd::kStopped:
      break;
  }
  return "stopped";
}

Json end_record(const TrainingResult& result, double seconds) {
  Json json = {{"time", unix_time()},
               {"seconds", seconds},
               {"result", name_of(result.end)},
               {"steps", result.steps},
               {"epochs", result.epochs}};
  if (result.last_evaluation && result.last_evaluation->labels) {
    json["validation"]["accuracy"] = result.last_evaluation->score;
    add_to_json(json["validation"], *result.last_evaluation->labels);
  }
  return json;
}

Json job_record(const std::function<const char*(const char*)>& variable) {
  for (const auto& [scheduler, name] :
       {std::pair{"slurm", "SLURM_JOB_ID"}, std::pair{"pjm", "PJM_JOBID"}})
    if (const char* const id = variable(name); id != nullptr && *id != '\0')
      return {{"scheduler", scheduler}, {"id", id}};
  return nullptr;
}

}  // namespace halomesh
