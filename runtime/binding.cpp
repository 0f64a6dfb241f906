// Where a rank runs: see binding.hpp.
// Only looks, at the operating system and the launcher; changes nothing.
#include "runtime/binding.hpp"

#include <sched.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>

#include "error.hpp"
#include "narrow.hpp"

namespace halomesh {
namespace {

/// Extensions that oneDNN's kernels are chosen by.
constexpr std::array<std::string_view, 19> kVectorExtensions = {
    "sse4_1",      "avx",         "avx2",        "fma",      "f16c",     "avx512f",  "avx512bw",
    "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8", "asimd",
    "asimddp",     "bf16",        "sve",         "sve2",     "svebf16"};

std::vector<int> own_processors() {
  // The kernel refuses a set smaller than its own; large nodes exceed cpu_set_t.
  for (int capacity = CPU_SETSIZE; capacity <= (1 << 20); capacity *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
        CPU_ALLOC(static_cast<std::size_t>(capacity)), [](cpu_set_t* s) { CPU_FREE(s); });
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(capacity));
    require(set != nullptr, "no memory for a set of processors");
    CPU_ZERO_S(bytes, set.get());
    if (::sched_getaffinity(0, bytes, set.get()) == 0) {
      std::vector<int> processors;
      for (int cpu = 0; cpu < capacity; ++cpu)
        if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set.get())) processors.push_back(cpu);
      return processors;
    }
    if (errno != EINVAL) break;
  }
  throw Error(cat("cannot find the processors of this rank: ", std::strerror(errno)),
              "set OMP_NUM_THREADS and check the launcher's binding options");
}

/// A processor that stands for its core: the first of its hardware threads; itself where the
/// system does not say.
int core_of(int processor) {
  std::ifstream file(
      cat("/sys/devices/system/cpu/cpu", processor, "/topology/thread_siblings_list"));
  int first = processor;
  return file >> first ? first : processor;
}

int count_cores(const std::set<int>& processors) {
  std::set<int> cores;
  for (int processor : processors) cores.insert(core_of(processor));
  return narrow<int>(cores.size());
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown host";
  return name.data();
}

/// The value of a "key : value" line; false when it is of another key.
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
  std::string value, implementer, part;
  // The processors are described one after the other: the first speaks for all.
  for (std::string line; std::getline(file, line);) {
    if (node.cpu_model.empty() && value_of(line, "model name", value)) node.cpu_model = value;
    if (implementer.empty() && value_of(line, "CPU implementer", value)) implementer = value;
    if (part.empty() && value_of(line, "CPU part", value)) part = value;
    if (node.isa.empty() && (value_of(line, "flags", value) || value_of(line, "Features", value)))
      node.isa = vector_extensions(value);
  }
  if (node.cpu_model.empty() && !implementer.empty())
    node.cpu_model = cat("Arm implementer ", implementer, " part ", part);
}

void read_meminfo(const std::filesystem::path& path, NodeDescription& node) {
  std::ifstream file(path);
  std::string value;
  for (std::string line; std::getline(file, line);) {
    const bool total = value_of(line, "MemTotal", value);
    if (!total && !value_of(line, "MemAvailable", value)) continue;
    std::int64_t kib = 0;
    std::from_chars(value.data(), value.data() + value.size(), kib);
    (total ? node.memory_bytes : node.memory_available_bytes) = kib * 1024;
  }
}

}  // namespace

std::string to_ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += cat(text.empty() ? "" : ",", numbers[i]);
    if (last > i) text += cat('-', numbers[last]);
    i = last + 1;
  }
  return text;
}

int default_threads(const char* omp_num_threads, int node_cores, int ranks_on_node, int own_cores) {
  if (omp_num_threads == nullptr || *omp_num_threads == '\0')
    return std::max(1, std::min(node_cores / std::max(1, ranks_on_node), own_cores));
  const std::string_view text = omp_num_threads;
  const std::string_view first = text.substr(0, text.find(','));
  int threads = 0;
  const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), threads);
  if (error != std::errc() || end != first.data() + first.size() || threads < 1)
    throw UsageError(cat("OMP_NUM_THREADS is \"", text, "\""),
                     "set it to the number of threads of one rank, or unset it");
  return threads;
}

RankBinding find_binding(const Comm& world) {
  RankBinding binding;
  binding.host = host_name();
  binding.processors = own_processors();
  const Comm node = world.split_by_node();
  binding.rank_on_node = node.rank();
  binding.ranks_on_node = node.size();
  std::set<int> all;
  std::string mine;
  for (int processor : binding.processors) mine += cat(processor, ' ');
  for (const std::string& text : node.all_gather(mine)) {
    std::istringstream words(text);
    for (int processor = 0; words >> processor;) all.insert(processor);
  }
  binding.cores = count_cores({binding.processors.begin(), binding.processors.end()});
  binding.node_cores = count_cores(all);
  const char* const wanted = std::getenv("OMP_NUM_THREADS");
  binding.threads_from_environment = wanted != nullptr && *wanted != '\0';
  binding.threads =
      default_threads(wanted, binding.node_cores, binding.ranks_on_node, binding.cores);
  return binding;
}

std::string RankBinding::describe() const {
  return cat(host, ": processors ", to_ranges(processors), "; ", cores, " cores, ", threads,
             " threads", threads_from_environment ? " (OMP_NUM_THREADS)" : "", "; rank ",
             rank_on_node, " of ", ranks_on_node, " on the node");
}

NodeDescription describe_node(const std::filesystem::path& proc, const std::filesystem::path& shm) {
  NodeDescription node;
  read_cpuinfo(proc / "cpuinfo", node);
  read_meminfo(proc / "meminfo", node);
  struct statvfs space {};
  if (::statvfs(shm.c_str(), &space) == 0)
    node.shm_free_bytes =
        narrow<std::int64_t>(space.f_bavail) * narrow<std::int64_t>(space.f_frsize);
  return node;
}

}  // namespace halomesh
