// SPDX-License-Identifier: Apache-2.0
// The commands of the program, one file each.
#pragma once

namespace halomesh {

// Each command takes its arguments from its own name on (argv[0] is "train" ...), throws errors
// that it cannot handle, and returns an ExitCode (see parallel.hpp).
int run_train(int argc, char** argv);
int run_eval(int argc, char** argv);
int run_predict(int argc, char** argv);
int run_bench(int argc, char** argv);
int run_scaling(int argc, char** argv);
int run_study(int argc, char** argv);
int run_plan(int argc, char** argv);
int run_synth(int argc, char** argv);
int run_convert(int argc, char** argv);
int run_jobscript(int argc, char** argv);
int run_export_onnx(int argc, char** argv);
int run_info(int argc, char** argv);

}  // namespace halomesh
