// The commands of the program; each is one file of this room.
// Knows nothing of what they do.
#pragma once

namespace halomesh {

// Each takes the arguments from its own name on (argv[0] is "train" ...), throws what it cannot
// mend, and returns an ExitCode (see parallel.hpp).
int run_train(int argc, char** argv);
int run_eval(int argc, char** argv);
int run_predict(int argc, char** argv);
int run_bench(int argc, char** argv);
int run_plan(int argc, char** argv);
int run_synth(int argc, char** argv);
int run_convert(int argc, char** argv);
int run_jobscript(int argc, char** argv);
int run_mlperf_summary(int argc, char** argv);
int run_info(int argc, char** argv);

}  // namespace halomesh
