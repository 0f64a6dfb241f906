// SPDX-License-Identifier: Apache-2.0
// The place of a rank on its node: see binding.hpp. Only inspects the operating system, hwloc and
// the launcher; changes nothing.
#include "runtime/machine/binding.hpp"

#include <sched.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>

#include "counted.hpp"
#include "error.hpp"
#include "narrow.hpp"
#include "runtime/posix/control_groups.hpp"

namespace halomesh {
namespace {

/// The CPU extensions by which oneDNN chooses kernels.
constexpr std::array<std::string_view, 19> kVectorExtensions = {
    "sse4_1",      "avx",         "avx2",        "fma",      "f16c",     "avx512f",  "avx512bw",
    "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8", "asimd",
    "asimddp",     "bf16",        "sve",         "sve2",     "svebf16"};

std::vector<int> own_processors() {
  // The kernel rejects a set smaller than its own, and large nodes exceed cpu_set_t.
  for (int capacity = CPU_SETSIZE; capacity <= (1 << 20); capacity *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
        CPU_ALLOC(static_cast<std::size_t>(capacity)), [](cpu_set_t* s) { CPU_FREE(s); });
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(capacity));
    require(set != nullptr, "out of memory for a set of processors");
    CPU_ZERO_S(bytes, set.get());
    if (::sched_getaffinity(0, bytes, set.get()) == 0) {
      std::vector<int> processors;
      for (int cpu = 0; cpu < capacity; ++cpu)
        if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set.get())) processors.push_back(cpu);
      return processors;
    }
    if (errno != EINVAL) break;
  }
  throw Error(fmt::format("cannot find the processors of this rank: {}", std::strerror(errno)),
              "set OMP_NUM_THREADS and check the launcher's binding options");
}

std::vector<int> numbers_in(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<int>(words), {}};
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown host";
  return name.data();
}

/// Reads the value of a "key : value" line; false if the line has another key.
bool value_of(const std::string& line, std::string_view key, std::string& value) {
  const std::size_t colon = line.find(':');
  if (colon == std::string::npos) return false;
  const std::size_t key_end = line.find_last_not_of(" \t", colon == 0 ? 0 : colon - 1);
  if (key_end == std::string::npos || line.substr(0, key_end + 1) != key) return false;
  const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
  value = begin == std::string::npos ? "" : line.substr(begin);
  return true;
}

std::vector<std::string> vector_extensions(const std::string& flags) {
  std::istringstream words(flags);
  const std::set<std::string> present{std::istream_iterator<std::string>(words), {}};
  std::vector<std::string> found;
  for (std::string_view name : kVectorExtensions)
    if (present.contains(std::string(name))) found.emplace_back(name);
  return found;
}

void read_cpuinfo(const std::filesystem::path& path, NodeDescription& node) {
  std::ifstream file(path);
  // Processors are listed one after the other; the first represents all.
  for (std::string line, value; node.isa.empty() && std::getline(file, line);)
    if (value_of(line, "flags", value) || value_of(line, "Features", value))
      node.isa = vector_extensions(value);
}

void read_meminfo(const std::filesystem::path& path, NodeDescription& node) {
  std::ifstream file(path);
  std::string value;
  for (std::string line; std::getline(file, line);) {
    std::int64_t* const field = value_of(line, "MemTotal", value)          ? &node.memory_bytes
                                : value_of(line, "Hugepagesize", value)    ? &node.huge_page_bytes
                                : value_of(line, "HugePages_Total", value) ? &node.huge_pages
                                                                           : nullptr;
    if (field == nullptr) continue;
    std::from_chars(value.data(), value.data() + value.size(), *field);
    if (value.ends_with(" kB")) *field *= 1024;
  }
}

/// The word in brackets, as in "always [madvise] never".
std::string chosen_word(const std::filesystem::path& path) {
  std::ifstream file(path);
  for (std::string word; file >> word;)
    if (word.size() > 2 && word.front() == '[' && word.back() == ']')
      return word.substr(1, word.size() - 2);
  return {};
}

}  // namespace

std::string to_ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

int default_threads(const char* omp_num_threads, int node_cores, int ranks_on_node, int own_cores,
                    std::optional<double> quota) {
  if (omp_num_threads == nullptr || *omp_num_threads == '\0') {
    const int ranks = std::max(1, ranks_on_node);
    const double granted = std::min<double>(quota.value_or(node_cores), node_cores);
    return std::max(
        1, std::min({node_cores / ranks, own_cores, static_cast<int>(std::ceil(granted / ranks))}));
  }
  const std::string_view text = omp_num_threads;
  std::string_view first = text.substr(0, text.find(','));
  // OpenMP allows spaces around the number.
  first.remove_prefix(std::min(first.find_first_not_of(' '), first.size()));
  first = first.substr(0, first.find_last_not_of(' ') + 1);
  int threads = 0;
  const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), threads);
  if (error != std::errc() || end != first.data() + first.size() || threads < 1)
    throw UsageError(fmt::format("OMP_NUM_THREADS is \"{}\"", text),
                     "set it to the number of threads of one rank, or unset it");
  return threads;
}

CoreSharing core_sharing(std::span<const RankCores> ranks, std::size_t rank) {
  const RankCores& mine = ranks[rank];
  std::set<int> cores(mine.cores.begin(), mine.cores.end());
  CoreSharing sharing{1, mine.threads, 0};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::vector<int>& other = ranks[i].cores;
    if (i == rank || std::find_first_of(other.begin(), other.end(), mine.cores.begin(),
                                        mine.cores.end()) == other.end())
      continue;
    ++sharing.ranks;
    sharing.threads += ranks[i].threads;
    cores.insert(other.begin(), other.end());
  }
  sharing.cores = narrow<int>(cores.size());
  return sharing;
}

RankBinding find_binding(const Comm& world) {
  RankBinding binding;
  binding.host = host_name();
  binding.processors = own_processors();
  const Topology topology = Topology::of_this_node();
  const Locality locality = topology.locality(binding.processors);
  binding.cores = narrow<int>(locality.cores.size());
  binding.numa_nodes = locality.numa_nodes;
  binding.memory_domains = locality.memory_domains;
  binding.memory = topology.memory_policy();
  binding.l2 = locality.l2;
  binding.l3 = locality.l3;
  binding.cpu_model = topology.cpu_model();

  const Comm& node = world.node();
  binding.rank_on_node = node.rank();
  binding.ranks_on_node = node.size();
  std::string mine;
  for (const int core : locality.cores) mine += fmt::format("{} ", core);
  std::vector<RankCores> ranks;
  std::set<int> all;
  for (const std::string& text : node.all_gather(mine)) {
    ranks.push_back({numbers_in(text), 1});
    all.insert(ranks.back().cores.begin(), ranks.back().cores.end());
  }
  binding.node_cores = narrow<int>(all.size());
  const char* const wanted = std::getenv("OMP_NUM_THREADS");
  binding.threads_from_environment = wanted != nullptr && *wanted != '\0';
  binding.quota = processor_quota();
  binding.threads = default_threads(wanted, binding.node_cores, binding.ranks_on_node,
                                    binding.cores, binding.quota);
  const std::vector<std::string> threads = node.all_gather(fmt::format("{}", binding.threads));
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i].threads = numbers_in(threads[i]).at(0);
  binding.sharing = core_sharing(ranks, static_cast<std::size_t>(node.rank()));
  return binding;
}

std::string RankBinding::describe() const {
  return fmt::format("{}: processors {}; {}, {}{}{}; rank {} of {} on the node{}{}{}", host,
                     to_ranges(processors), counted(cores, "core"), counted(threads, "thread"),
                     threads_from_environment ? " (OMP_NUM_THREADS)" : "",
                     quota ? fmt::format(", a quota of {:.3g} processors", *quota) : "",
                     rank_on_node, ranks_on_node,
                     numa_nodes.empty()       ? ""
                     : numa_nodes.size() == 1 ? "; NUMA node "
                                              : "; NUMA nodes ",
                     to_ranges(numa_nodes),
                     is_remote(memory, numa_nodes)
                         ? fmt::format(", memory from {}", to_ranges(memory.nodes))
                         : "");
}

NodeDescription describe_node(const std::filesystem::path& proc, const std::filesystem::path& shm,
                              const std::filesystem::path& sys) {
  NodeDescription node;
  read_cpuinfo(proc / "cpuinfo", node);
  read_meminfo(proc / "meminfo", node);
  node.page_bytes = ::sysconf(_SC_PAGESIZE);
  node.transparent_huge_pages =
      chosen_word(sys / "kernel" / "mm" / "transparent_hugepage" / "enabled");
  struct statvfs space {};
  if (::statvfs(shm.c_str(), &space) == 0)
    node.shm_free_bytes =
        narrow<std::int64_t>(space.f_bavail) * narrow<std::int64_t>(space.f_frsize);
  return node;
}

}  // namespace halomesh
