// The option --progress-thread: see progress_option.hpp.
#include "src/apps/progress_option.hpp"

#include <string>
#include <vector>

#include "error.hpp"
#include "narrow.hpp"

namespace halomesh {
namespace {

constexpr const char* kName = "progress-thread";

/// The processor of this rank's thread.
int processor_for(const std::string& choice, const RankBinding& binding) {
  if (choice == "auto") {
    if (binding.cores <= binding.threads)
      throw UsageError(
          cat("--progress-thread auto: rank ", binding.rank_on_node, " of ", binding.host, " has ",
              binding.cores, " cores for ", binding.threads, " threads, none to spare"),
          "lower OMP_NUM_THREADS, name processors, or leave the option out");
    return binding.processors.back();
  }
  const auto processors = from_text<std::vector<std::int64_t>>(choice);
  if (!processors)
    throw UsageError(cat("--progress-thread: '", choice, "' is neither off nor auto nor a list"),
                     "give one processor for each rank of a node, such as 50,51");
  if (std::ssize(*processors) != binding.ranks_on_node)
    throw UsageError(cat("--progress-thread: ", processors->size(), " processors for ",
                         binding.ranks_on_node, " ranks of ", binding.host),
                     "give one processor for each rank of a node, in their order");
  return narrow<int>(processors->at(static_cast<std::size_t>(binding.rank_on_node)));
}

}  // namespace

void add_progress_option(Options& options) {
  options.add<std::string>(kName, "off|auto|N,N", "off",
                           "a thread of each rank that looks after messages: on the last of its "
                           "processors, or on those named, by rank on the node");
}

ThreadLevel thread_level(const Options& options) {
  return options.get<std::string>(kName) == "off" ? ThreadLevel::kFunneled : ThreadLevel::kMultiple;
}

std::unique_ptr<ProgressThread> start_progress_thread(const Comm& world, const Options& options,
                                                      RankBinding& binding) {
  const auto choice = options.get<std::string>(kName);
  if (choice == "off") return nullptr;
  binding.progress_processor = processor_for(choice, binding);
  return std::make_unique<ProgressThread>(world, binding.progress_processor);
}

}  // namespace halomesh
