// SPDX-License-Identifier: Apache-2.0
// The command `info`: the build, its libraries, the machine and the binding of every rank.
#include <algorithm>
#include <boost/version.hpp>
#include <cstdint>
#include <iostream>
#include <string>
#include <string_view>

#include "models/onnx/imported.hpp"
#include "runtime/hdf5/hdf5_file.hpp"
#include "runtime/machine/binding.hpp"
#include "runtime/machine/launch_problems.hpp"
#include "runtime/machine/topology.hpp"
#include "runtime/posix/free_space.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/launch/version.hpp"
#include "src/nn/kernels/isa_kernels.hpp"
#include "src/nn/kernels/peak.hpp"
#include "src/nn/onednn/library.hpp"

namespace halomesh {
namespace {

void print_build() {
  std::cout << "halomesh " << version() << "\n  commit    " << git_commit() << "\n  compiler  "
            << compiler() << "\n  MPI       " << MpiSession::library_version() << "\n  oneDNN    "
            << onednn_version() << "\n  HDF5      " << Hdf5File::library_version()
            << "\n  Boost     " << BOOST_VERSION / 100000 << '.' << BOOST_VERSION / 100 % 1000
            << '.' << BOOST_VERSION % 100 << '\n';
}

std::string gib(std::int64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

std::string cache(const char* name, const CacheSize& size) {
  if (size.bytes == 0) return {};
  const bool whole = size.bytes % (1 << 20) == 0;
  return fmt::format("{} {}{} of {}{}", name, whole ? size.bytes >> 20 : size.bytes >> 10,
                     whole ? " MiB" : " KiB", size.cores, size.cores == 1 ? " core" : " cores");
}

std::string cache_text(const RankBinding& binding) {
  const std::string l2 = cache("L2", binding.l2), l3 = cache("L3", binding.l3);
  if (l2.empty() && l3.empty()) return "unknown";
  return l2 + (l2.empty() || l3.empty() ? "" : ", ") + l3;
}

std::string page_text(const NodeDescription& node) {
  std::string text = fmt::format("{} KiB", node.page_bytes >> 10);
  if (!node.transparent_huge_pages.empty())
    text += fmt::format("; transparent huge pages: {}", node.transparent_huge_pages);
  if (node.huge_page_bytes > 0)
    text += fmt::format("; {} reserved of {} KiB", node.huge_pages, node.huge_page_bytes >> 10);
  return text;
}

/// The program's own kernels that this node uses, and those available.
std::string kernels_text() {
  std::string built;
  for (const IsaKernels* kernels : built_isa_kernels())
    built += (built.empty() ? "" : ", ") + std::string(kernels->isa);
  return fmt::format("{} (built: {})", isa_kernels().isa, built);
}

/// One text per node; its ranks differ only in their binding.
std::string node_text(const RankBinding& binding) {
  const NodeDescription node = describe_node();
  const Topology topology = Topology::of_this_node();
  const FreeSpace free = free_memory();
  std::string isa;
  for (const std::string& extension : node.isa) isa += ' ' + extension;
  return fmt::format(
      "node {}\n  CPU       {}, {} cores available\n  sockets   {}, NUMA nodes {}, cores {}\n  "
      "caches    {}\n  vectors  {}\n  kernels   {}\n  memory    {}, {} {}\n  pages     {}\n "
      " RAM disk  {} "
      "free in /dev/shm\n",
      binding.host, binding.cpu_model.empty() ? "unknown" : binding.cpu_model, binding.node_cores,
      topology.packages(), topology.numa_nodes(), topology.cores(), cache_text(binding),
      isa.empty() ? " unknown" : isa, kernels_text(), gib(node.memory_bytes), gib(free.bytes),
      free.in_group ? "left in the control group" : "available", page_text(node),
      gib(node.shm_free_bytes));
}

/// Floating-point operations per second of this thread: the best of several runs of milliseconds.
double core_flops() {
  double best = 0;
  for (int i = 0; i < 20; ++i) {
    const double begin = MPI_Wtime();
    const double operations = run_multiply_adds(1 << 14);
    best = std::max(best, operations / std::max(MPI_Wtime() - begin, 1e-9));
  }
  return best;
}

int print_all(const Comm& world) {
  const RankBinding binding = find_binding(world);
  const auto nodes = world.gather(binding.rank_on_node == 0 ? node_text(binding) : "");
  const auto ranks = world.gather(binding.describe());
  // Only A64FX has units that can be switched off; elsewhere the measurement would waste time.
  const double flops = is_a64fx(binding.cpu_model) ? core_flops() : 0;
  const auto warnings = launch_warnings(world, binding, flops);
  if (world.rank() != 0) return kExitDone;
  print_build();
  for (const std::string& node : nodes)
    if (!node.empty()) std::cout << '\n' << node;
  std::cout << '\n' << world.size() << (world.size() == 1 ? " rank\n" : " ranks\n");
  for (std::size_t r = 0; r < ranks.size(); ++r) std::cout << "  " << r << "  " << ranks[r] << '\n';
  for (const std::string& warning : warnings) std::cout << "WARNING: " << warning << '\n';
  return kExitDone;
}

}  // namespace

int run_info(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]).ends_with(".onnx")) {
    std::cout << describe_onnx(argv[1]);
    return kExitDone;
  }
  Options options("info",
                  "Prints the versions of this program and its libraries, and the machine, threads "
                  "and binding of\nevery rank. Run it with the same launcher and options as a "
                  "training run. halomesh info FILE.onnx\nprints the layers of a network's file.",
                  "mpirun -n 4 halomesh info");
  return run_parallel(argc, argv, options, print_all);
}

}  // namespace halomesh
