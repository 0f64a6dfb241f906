// SPDX-License-Identifier: Apache-2.0
// The files of a synthetic data set: which universe and box each holds, names, space and leftovers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace halomesh {

enum class SynthFormat { kTfRecord, kArchive };

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

/// Consecutive universes of one split that one rank makes and, of an archive, one file holds.
struct SynthGroup {
  std::int64_t first_sample = 0, samples = 0;  ///< in the split
  std::int64_t file = 0;                       ///< in the split: its groups in their order
  std::vector<SynthUniverse> universes;
};

/// Groups of at least `samples` each, but for the last one of a split.
std::vector<SynthGroup> groups_of(const std::vector<SynthUniverse>& universes,
                                  std::int64_t samples);

/// "train/universe_s0_000017_003.tfrecord" for box 3 of universe 17 of seed 0.
std::filesystem::path file_of(std::uint64_t seed, const SynthUniverse& universe, std::int64_t box);

/// What `synth` names as the source of an archive's files starts with this.
inline constexpr const char* kSynthSource = "halomesh synth";

/// Makes `directory` (for TFRecord: train and validation in it) ready to be written: throws Error
/// naming the directory when it holds samples as TFRecord or archive (with `overwrite`: files that
/// this command has not written), or when fewer than `bytes` are free on its disk; with `overwrite`
/// removes earlier files. Nothing is removed before all checks are passed.
void prepare_directory(const std::filesystem::path& directory, bool overwrite, std::int64_t bytes,
                       SynthFormat format = SynthFormat::kTfRecord);

}  // namespace halomesh
