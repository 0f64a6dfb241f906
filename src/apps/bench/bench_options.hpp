// SPDX-License-Identifier: Apache-2.0
// The options of the command bench, and the runs that they select.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "partition/mesh_shape.hpp"
#include "partition/step_program.hpp"
#include "runtime/step/reduction.hpp"
#include "src/apps/options/options.hpp"
#include "src/nn/data_type.hpp"

namespace halomesh {

/// One mesh in one precision.
struct BenchCase {
  MeshShape mesh;
  std::string precision;   ///< "fp32" or "bf16"
  std::int64_t batch = 1;  ///< the global batch
};

/// The options of all runs.
struct BenchPlan {
  std::vector<BenchCase> cases;    ///< each mesh in each precision, in the order given
  std::vector<PartGrid> left_out;  ///< meshes whose parts do not divide the ranks
  bool sends_early = true;
  ChunkOrder chunk_order = ChunkOrder::kLocalFirst;
  std::int64_t steps = 10, warm_up = 3;
  std::uint64_t seed = 0;
  Reduction reduction = Reduction::kAuto;
  bool evaluate = false;
  bool reproducible = false;                             ///< see GradientRules
  std::optional<MemoryUse> memory = MemoryUse::kShared;  ///< empty: as memory allows
  bool pads = false;                      ///< samples are smaller than the network's input
  bool network = true;                    ///< also measure sums and halos without compute
  DataType payload = DataType::kFloat32;  ///< the type of gradients in messages
  bool sums = false;                      ///< times only sums over all ranks
  std::vector<std::int64_t> sum_bytes;    ///< the sizes of these sums
  std::string json;                       ///< the output file; "": none
  std::string simulate_compute;           ///< the file of a machine; "": layers compute
};

/// The network's options and those of bench.
Options bench_options();

/// Throws UsageError for malformed lists, for an unknown precision, if no mesh fits `ranks`, and if
/// some mesh does not divide the batch.
BenchPlan read_bench_plan(const Options& options, std::int64_t ranks);

}  // namespace halomesh
