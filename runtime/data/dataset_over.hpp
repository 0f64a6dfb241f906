// SPDX-License-Identifier: Apache-2.0
// A data set over another one, of which it changes something; and the share of samples that belongs
// to a split.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "runtime/data/dataset.hpp"
#include "runtime/data/dataset_files.hpp"

namespace halomesh {

/// The samples of another data set, with what derived classes do not change.
class DatasetOver : public Dataset {
 public:
  std::int64_t size() const override { return samples_->size(); }
  Shape shape_of(std::int64_t sample) const override { return samples_->shape_of(sample); }
  std::string name(std::int64_t sample) const override { return samples_->name(sample); }
  std::optional<Orientation> orientation_of(std::int64_t sample) const override {
    return samples_->orientation_of(sample);
  }
  bool has_truth() const override { return samples_->has_truth(); }
  std::string target_titles() const override { return samples_->target_titles(); }
  std::string misplacement() const override { return samples_->misplacement(); }
  const std::filesystem::path& directory() const override { return samples_->directory(); }
  const std::string& identity() const override { return identity_; }
  const DatasetFiles& files() const override { return samples_->files(); }
  std::uint64_t file_hash(std::int64_t file) const override { return samples_->file_hash(file); }
  std::string advice() const override { return samples_->advice(); }

 protected:
  DatasetOver(std::unique_ptr<const Dataset> samples, const TargetSpec& targets)
      : Dataset(samples->shape(), targets, samples->format()),
        samples_(std::move(samples)),
        identity_(samples_->identity()) {}

  const Dataset& samples() const { return *samples_; }
  /// Distinguishes the data set from the other one.
  void identify(const std::string& change) { identity_ += ", " + change; }

 private:
  std::unique_ptr<const Dataset> samples_;
  std::string identity_;
};

/// The samples that belong to a split, as `share` of the hashes of their names decides, or of the
/// names of their files if these are several: see in_share().
std::unique_ptr<const Dataset> with_share(std::unique_ptr<const Dataset> samples,
                                          const TargetSpec& targets, double share,
                                          const std::string& split);

/// The name of a sample without the directory and the endings of its file.
std::string plain_name(const std::string& name);

/// The numbers of the names that belong to a split, in ascending order. To validation belong those
/// whose hashes are below the share of all hashes, so that a name stays where it is when others are
/// added, and equal names stay together. Neither split is empty if two names differ.
std::vector<std::int64_t> in_share(double share, const std::string& split,
                                   const std::vector<std::string>& names);

}  // namespace halomesh
