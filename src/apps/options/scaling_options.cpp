// SPDX-License-Identifier: Apache-2.0
// The options of the command scaling: see scaling_options.hpp.
#include "src/apps/options/scaling_options.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "src/apps/options/model_options.hpp"
#include "src/apps/options/padding_option.hpp"
#include "src/apps/options/train_options.hpp"

namespace halomesh {

Options scaling_options() {
  using Integer = std::int64_t;
  using enum SettingRole;
  Options options("scaling [options]",
                  "Measures strong and weak scaling in one job: training steps on generated input, "
                  "on several\nnumbers of ranks and meshes in turn. A run that was stopped goes on "
                  "where it was when started\nagain with the same options.",
                  "mpirun -n 8 halomesh scaling --ranks 1,2,4,8 --config models/tiny.cfg --figures "
                  "figures");
  add_model_options(options);
  options.group("Study")
      .as(kFree)
      .add<std::vector<Integer>>("ranks", "LIST", {},
                                 "numbers of ranks; default: 1, 2, 4, ... up to all")
      .at_least(1)
      .add_switch("strong", "one global batch on more and more ranks")
      .add_switch("weak", "one local batch for each replica; default: both")
      .add<std::string>("parts", "LIST|auto", "auto",
                        "meshes DxHxW, e.g. 1x1x1,2x1x1; auto: for each number of parts the mesh "
                        "with the least work and messages")
      .add<Integer>("max-parts", "N", 64, "auto: at most N parts")
      .at_least(1)
      .at_most(1024)
      .needs("parts", {"auto"})
      .as(kComputing)
      .add<Integer>("strong-batch", "B", 0,
                    "global batch of --strong; 0: the least that all numbers of ranks divide")
      .at_least(0)
      .at_most(1000000)
      .add<Integer>("weak-batch", "B", 1, "samples per replica of --weak")
      .at_least(1)
      .at_most(4096)
      .add_choice("precision", {"fp32", "bf16"}, "fp32", "compute precision");
  add_reduction_option(options);
  add_padding_option(options);
  options.add<std::uint64_t>("seed", "S", 0, "seed of input, weights and dropout");
  options.group("Measurement")
      .as(kFree)
      .add<Integer>("repeats", "R", 3, "times that all cases are measured, one after the other")
      .at_least(1)
      .as(kComputing)
      .add<Integer>("steps", "K", 5, "measured steps of a case each time")
      .at_least(1)
      .add<Integer>("warm-up", "W", 2, "unmeasured steps before them")
      .at_least(0)
      .as(kFree)
      .add<double>("wall-limit", "S", 0.0, "stop within S seconds; run again to go on; 0: no limit")
      .at_least(0);
  options.group("Output")
      .as(kFree)
      .add<std::string>("json", "FILE", "scaling.json", "file of all measurements")
      .add<std::string>("figures", "DIR", "", "also draw figures into DIR, as SVG and CSV")
      .add<std::string>("machine", "NAME|FILE", "",
                        "also predict each step for this machine, e.g. the file of "
                        "bench --calibrate --json")
      .add_switch("restart", "measure anew what --json FILE holds");
  options.accept_in_config(all_run_options());
  return options;
}

}  // namespace halomesh
