// SPDX-License-Identifier: Apache-2.0
// The file run.json of a run: see run_record.hpp.
#include "src/apps/launch/run_record.hpp"

#include <omp.h>

#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/log/metrics.hpp"
#include "runtime/machine/launch_problems.hpp"
#include "runtime/machine/topology.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "runtime/posix/free_space.hpp"
#include "runtime/posix/memory_needs.hpp"
#include "src/apps/launch/version.hpp"
#include "src/nn/onednn/library.hpp"

namespace halomesh {
namespace {

using Json = nlohmann::ordered_json;

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

Json cache(const CacheSize& size) { return {{"bytes", size.bytes}, {"cores", size.cores}}; }

Json machine(const RankBinding& binding) {
  const NodeDescription node = describe_node();
  const Topology topology = Topology::of_this_node();
  return {{"cpu", binding.cpu_model},
          {"isa", node.isa},
          {"sockets", topology.packages()},
          {"numa_nodes", topology.numa_nodes()},
          {"cores", topology.cores()},
          {"l2", cache(binding.l2)},
          {"l3", cache(binding.l3)},
          {"memory_bytes", node.memory_bytes},
          {"memory_available_bytes", free_memory().bytes},
          {"page_bytes", node.page_bytes},
          {"huge_page_bytes", node.huge_page_bytes},
          {"huge_pages", node.huge_pages},
          {"transparent_huge_pages", node.transparent_huge_pages},
          {"ram_disk_free_bytes", node.shm_free_bytes}};
}

}  // namespace

RankBinding bind_threads(const Comm& world) {
  RankBinding binding = find_binding(world);
  omp_set_num_threads(binding.threads);
  // OpenMP ends the process where the system refuses a thread, so that all start now.
  require_threads(binding.threads - 1);
  int started = 0;
#pragma omp parallel reduction(+ : started)
  ++started;
  (void)started;
  for (const std::string& warning : launch_warnings(world, binding))
    if (world.rank() == 0) std::cerr << "WARNING: " << warning << std::endl;
  return binding;
}

void warn_of_slow_kernels(const Comm& world, const std::vector<std::string>& implementations) {
  if (world.rank() != 0) return;
  for (const std::string& line : implementations)
    if (line.find("ref") != std::string::npos)
      std::cout << "WARNING: slow reference kernel of oneDNN in " << line << std::endl;
}

Json program_record(const Comm& world, const RankBinding& binding, const Options& options) {
  Json resolved;
  for (const auto& [name, value] : options.resolved()) resolved[name] = value;
  return {{"program", "halomesh"},       {"version", version()},
          {"git_commit", git_commit()},  {"started", utc_now()},
          {"compiler", compiler()},      {"mpi", MpiSession::library_version()},
          {"onednn", onednn_version()},  {"options", resolved},
          {"machine", machine(binding)}, {"binding", world.gather(binding.describe())}};
}

void write_record(const Comm& world, const std::filesystem::path& file, const Json& record) {
  on_first_rank(world, [&] {
    write_run_record(file, record);
    return std::string();
  });
}

}  // namespace halomesh
