// SPDX-License-Identifier: Apache-2.0
// A computing site: scheduler, nodes, queues and defaults, read from a profile.
// jobscripts/sites/README explains the format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/apps/plan/rank_map.hpp"

namespace halomesh {

/// Parses "H:MM:SS" or "D-HH:MM:SS" to seconds; empty for other texts.
std::optional<std::int64_t> duration_from_text(const std::string& text);
/// Formats "HH:MM:SS", as every scheduler reads it.
std::string to_duration_text(std::int64_t seconds);

enum class Scheduler { kNone, kPjm, kSlurm };
enum class StageKind { kNone, kLocaltmp, kShm, kDatawarp };

struct Queue {
  std::string name;
  std::int64_t min_nodes = 1, max_nodes = 0;
  std::int64_t seconds = 0;        ///< the longest job
  std::vector<std::string> modes;  ///< PJM's ways to allocate nodes, the queue's default first
};

struct SiteProfile {
  std::string name;           ///< the name of its file, without directory and extension
  std::string title, status;  ///< `status` is current or historic
  Scheduler scheduler = Scheduler::kNone;
  std::string launcher, mpi_plugin;
  std::int64_t nodes = 0, cores = 0;              ///< 0: unknown; cores that jobs may use on a node
  std::int64_t numa_domains = 0, memory_gib = 0;  ///< 0: unknown
  std::int64_t threads_per_core = 1, reserved_cores = 0;
  NodeShape machine_shape;  ///< empty: unknown
  bool account_required = false;
  std::string queue_option;
  std::vector<Queue> queues;
  StageKind stage = StageKind::kNone;
  std::int64_t stage_limit_bytes = 0;  ///< 0: unknown
  std::string distribute;              ///< llio_transfer, bcast or empty
  std::int64_t distribute_from_ranks = 0;
  std::string volumes;
  std::int64_t end_margin_s = 0, signal_margin_s = 0;
  /// The values of names that may occur several times, e.g. "module", except "queue".
  std::map<std::string, std::vector<std::string>> lists;
};

/// Reads a profile. Throws UsageError with file and line for an unknown name (naming the nearest),
/// a malformed value, a repeated or missing name, or an unreadable file.
SiteProfile read_site_profile(const std::filesystem::path& file);

/// The directory with sites/ and templates/: `jobscripts` or `share/halomesh/jobscripts` in a
/// directory above `program`, nearest first. Throws Error naming `program` if there is none.
std::filesystem::path find_jobscripts(const std::filesystem::path& program);

/// The names of the profiles in `directory`/sites, sorted.
std::vector<std::string> site_names(const std::filesystem::path& directory);

/// The profile of a site's name, or of a file if `site` is a path (has a '/' or ends in .ini).
/// Throws UsageError for an unknown name, naming the nearest.
SiteProfile load_site(const std::string& site, const std::filesystem::path& directory);

}  // namespace halomesh
