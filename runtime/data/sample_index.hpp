// SPDX-License-Identifier: Apache-2.0
// Maps a sample number to (file, index in that file).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace halomesh {

/// Numbers samples consecutively over the files. Takes no memory as long as every file has one
/// sample.
class SampleIndex {
 public:
  /// Adds the next file, which has this number of samples.
  void append(std::int64_t samples) {
    ++files_;
    if (samples == 1 && first_.empty()) return;
    if (first_.empty())
      for (std::int64_t f = 0; f < files_; ++f) first_.push_back(f);
    first_.push_back(first_.back() + samples);
  }

  std::int64_t size() const { return one_per_file() ? files_ : first_.back(); }
  bool one_per_file() const { return first_.empty(); }

  /// The number of a file's first sample; of all samples for the number of files.
  std::int64_t first(std::int64_t file) const {
    return one_per_file() ? file : first_[static_cast<std::size_t>(file)];
  }

  struct Place {
    std::int64_t file = 0, index = 0;  ///< index within the file
  };
  /// The place of a sample in 0 .. size()-1.
  Place place(std::int64_t sample) const {
    if (one_per_file()) return {sample, 0};
    const auto after = std::upper_bound(first_.begin(), first_.end(), sample);
    return {after - first_.begin() - 1, sample - *(after - 1)};
  }

 private:
  std::int64_t files_ = 0;
  // The first sample of each file, then the total; empty: one per file.
  std::vector<std::int64_t> first_;
};

}  // namespace halomesh
