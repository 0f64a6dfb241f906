// The files of a synthetic data set: which universe and box each holds, names, space and leftovers.
// Knows nothing of how universes are made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace halomesh {

/// What a data set shall hold. Universes are numbered over the whole set, those of `train` first:
/// no universe has boxes in both splits.
struct SynthPlan {
  std::int64_t train = 0, validation = 0;  ///< samples, i.e. boxes
  std::int64_t boxes_per_universe = 1;
};

/// The boxes 0 .. boxes-1 of one universe go to one split.
struct SynthUniverse {
  std::int64_t universe = 0, boxes = 0;
  bool validation = false;
};

/// The universes in their order; the last one of a split may give fewer boxes than it has.
std::vector<SynthUniverse> universes_of(const SynthPlan& plan);

/// "train/universe_s0_000017_003.tfrecord" for box 3 of universe 17 of seed 0.
std::filesystem::path file_of(std::uint64_t seed, const SynthUniverse& universe, std::int64_t box);

/// Makes `directory`/train and /validation ready to be written: throws Error naming the directory
/// when it holds TFRecord files (with `overwrite`: files that this command has not written), or
/// when fewer than `bytes` are free on its disk; with `overwrite` removes earlier files. Nothing is
/// removed before all checks are passed.
void prepare_directory(const std::filesystem::path& directory, bool overwrite, std::int64_t bytes);

}  // namespace halomesh
