// The command `info`: what was built, what it runs with, and where every rank runs.
#include <algorithm>
#include <boost/version.hpp>
#include <cstdint>
#include <iostream>
#include <string>

#include "runtime/binding.hpp"
#include "runtime/binding_problems.hpp"
#include "runtime/hdf5_library.hpp"
#include "runtime/launch_problems.hpp"
#include "runtime/topology.hpp"
#include "src/apps/commands.hpp"
#include "src/apps/parallel.hpp"
#include "src/apps/version.hpp"
#include "src/nn/onednn.hpp"
#include "src/nn/peak.hpp"

namespace halomesh {
namespace {

std::string hdf5_version() {
  const hdf5::Turn turn;
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return cat(major, '.', minor, '.', release);
}

void print_build() {
  std::cout << "halomesh " << version() << "\n  commit    " << git_commit() << "\n  compiler  "
            << compiler() << "\n  MPI       " << MpiSession::library_version() << "\n  oneDNN    "
            << onednn_version() << "\n  HDF5      " << hdf5_version() << "\n  Boost     "
            << BOOST_VERSION / 100000 << '.' << BOOST_VERSION / 100 % 1000 << '.'
            << BOOST_VERSION % 100 << '\n';
}

std::string gib(std::int64_t bytes) {
  const std::int64_t tenths = (bytes * 10 + (std::int64_t{1} << 29)) >> 30;
  return cat(tenths / 10, '.', tenths % 10, " GiB");
}

std::string cache(const char* name, const CacheSize& size) {
  if (size.bytes == 0) return {};
  const bool whole = size.bytes % (1 << 20) == 0;
  return cat(name, ' ', whole ? size.bytes >> 20 : size.bytes >> 10, whole ? " MiB" : " KiB",
             " of ", size.cores, size.cores == 1 ? " core" : " cores");
}

std::string cache_text(const RankBinding& binding) {
  const std::string l2 = cache("L2", binding.l2), l3 = cache("L3", binding.l3);
  if (l2.empty() && l3.empty()) return "unknown";
  return l2 + (l2.empty() || l3.empty() ? "" : ", ") + l3;
}

std::string page_text(const NodeDescription& node) {
  std::string text = cat(node.page_bytes >> 10, " KiB");
  if (!node.transparent_huge_pages.empty())
    text += cat("; transparent huge pages: ", node.transparent_huge_pages);
  if (node.huge_page_bytes > 0)
    text += cat("; ", node.huge_pages, " set aside of ", node.huge_page_bytes >> 10, " KiB");
  return text;
}

/// One text a node: ranks of it differ only in what they are bound to.
std::string node_text(const RankBinding& binding) {
  const NodeDescription node = describe_node();
  const Topology topology = Topology::of_this_node();
  std::string isa;
  for (const std::string& extension : node.isa) isa += ' ' + extension;
  return cat(
      "node ", binding.host, "\n  CPU       ", node.cpu_model.empty() ? "unknown" : node.cpu_model,
      ", ", binding.node_cores, " cores for us\n  sockets   ", topology.packages(), ", NUMA nodes ",
      topology.numa_nodes(), ", cores ", topology.cores(), "\n  caches    ", cache_text(binding),
      "\n  vectors  ", isa.empty() ? " unknown" : isa, "\n  memory    ", gib(node.memory_bytes),
      ", ", gib(node.memory_available_bytes), " available\n  pages     ", page_text(node),
      "\n  RAM disk  ", gib(node.shm_free_bytes), " free in /dev/shm\n");
}

/// Operations a second of this thread: some milliseconds, of which the best counts.
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
  const auto nodes = world.all_gather(binding.rank_on_node == 0 ? node_text(binding) : "");
  const auto ranks = world.all_gather(binding.describe());
  auto warnings = binding_warnings(world, binding);
  // Only there can the units be told apart from outside; elsewhere the time is not worth it.
  const double flops = is_a64fx(describe_node().cpu_model) ? core_flops() : 0;
  for (const std::string& warning : launch_warnings(world, binding, flops))
    warnings.push_back(warning);
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
  Options options("info",
                  "Prints what this program was built from and with, and the machine, threads and "
                  "processors of\nevery rank. Run it under mpirun or srun exactly as a training.");
  return run_parallel(argc, argv, options, print_all);
}

}  // namespace halomesh
