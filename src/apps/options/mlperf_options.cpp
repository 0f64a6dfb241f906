// SPDX-License-Identifier: Apache-2.0
// The options of the MLPerf log: see mlperf_options.hpp.
#include "src/apps/options/mlperf_options.hpp"

#include <cstdint>

#include "error.hpp"
#include "runtime/machine/topology.hpp"

namespace halomesh {
namespace {

/// Collects the submission's entries. Collective over `world`.
MlperfSubmission mlperf_submission(const Comm& world, const Options& options) {
  const std::int64_t is_first_of_node = world.node().rank() == 0 ? 1 : 0;
  auto submission = options.read<MlperfSubmission>();
  submission.benchmark = options.get<std::string>("model");
  submission.seed = options.get<std::uint64_t>("seed");
  submission.ranks = world.size();
  submission.nodes = world.sum(is_first_of_node);
  if (submission.platform.empty()) {
    const std::string cpu = Topology::of_this_node().cpu_model();
    submission.platform =
        fmt::format("{} x {}", submission.nodes, cpu.empty() ? "unknown CPU" : cpu);
  }
  return submission;
}

MlperfKeys keys_of(const Options& options) {
  return options.get<std::string>("model") == "deepcam" ? MlperfKeys::kDeepcam
                                                        : MlperfKeys::kCosmoflow;
}

}  // namespace

void add_mlperf_options(Options& options) {
  using enum SettingRole;
  options.group("MLPerf log")
      .as(kFree)
      .add_choice("mllog", {"v1.0", "v0.7"}, "v1.0",
                  "version of the MLPerf HPC rules that OUT/mllog.txt follows")
      .add_switch("cache-cleared", "log that file caches were cleared before the run")
      .add<std::string>("submission-org", "NAME", "unnamed", "submitting organization")
      .into(&MlperfSubmission::org)
      .add_choice("submission-division", {"closed", "open"}, "closed", "division of the submission")
      .into(&MlperfSubmission::division)
      .add_choice("submission-status", {"cloud", "onprem", "preview", "research"}, "onprem",
                  "availability of the system")
      .into(&MlperfSubmission::status)
      .add("submission-platform", "NAME", &MlperfSubmission::platform,
           "name of the system; default: nodes x CPU")
      .add("submission-poc-name", "NAME", &MlperfSubmission::poc_name, "point of contact")
      .add("submission-poc-email", "ADDRESS", &MlperfSubmission::poc_email,
           "e-mail address of the point of contact")
      .then([](Options& o) {
        if (keys_of(o) == MlperfKeys::kDeepcam && o.get<std::string>("mllog") == "v0.7")
          o.set_aside("mllog", "with --model deepcam: the rules of v0.7 have no keys for it",
                      "use --mllog v1.0");
      });
}

MlperfLog begin_mlperf_log(const Comm& world, const Options& options) {
  const MlperfVersion version = parse_mlperf_version(options.get<std::string>("mllog"));
  const MlperfKeys keys = keys_of(options);
  MlperfLog log = world.rank() == 0 ? MlperfLog(version, keys) : MlperfLog();
  if (keys == MlperfKeys::kDeepcam) log.submission(mlperf_submission(world, options));
  log.init_start(options.get<bool>("cache-cleared"));
  return log;
}

void start_mlperf_run(const Comm& world, const Options& options, const MlperfTraining& training,
                      MlperfLog& log) {
  if (keys_of(options) == MlperfKeys::kCosmoflow) log.submission(mlperf_submission(world, options));
  log.training(training);
  log.run_start();
}

}  // namespace halomesh
