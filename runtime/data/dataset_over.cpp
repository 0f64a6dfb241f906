// SPDX-License-Identifier: Apache-2.0
// The share of a data set that belongs to a split: see dataset_over.hpp.
#include "runtime/data/dataset_over.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "error.hpp"
#include "rng.hpp"

namespace halomesh {

std::string plain_name(const std::string& name) {
  std::string plain = std::filesystem::path(name).filename().string();
  for (const std::string_view end : {".gz", ".nii", "_0000", ".npy", ".h5", ".hdf5"})
    if (plain.size() > end.size() && plain.ends_with(end)) plain.resize(plain.size() - end.size());
  return plain;
}

std::vector<std::int64_t> in_share(double share, const std::string& split,
                                   const std::vector<std::string>& names) {
  std::map<std::pair<double, std::string>, std::vector<std::int64_t>> ranked;
  for (std::size_t i = 0; i < names.size(); ++i)
    ranked[{CounterRng(content_hash(names[i]), RandomUse::kOrder).uniform(0), names[i]}].push_back(
        static_cast<std::int64_t>(i));
  const auto below = std::count_if(ranked.begin(), ranked.end(),
                                   [share](const auto& each) { return each.first.first < share; });
  const auto count = std::max<std::ptrdiff_t>(std::min(below, std::ssize(ranked) - 1), 1);
  std::vector<std::int64_t> kept;
  std::ptrdiff_t rank = 0;
  for (const auto& [name, samples] : ranked)
    if ((rank++ < count) == (split == "validation"))
      kept.insert(kept.end(), samples.begin(), samples.end());
  std::sort(kept.begin(), kept.end());
  return kept;
}

namespace {

class SharedDataset final : public DatasetOver {
 public:
  SharedDataset(std::unique_ptr<const Dataset> samples, const TargetSpec& targets, double share,
                const std::string& split)
      : DatasetOver(std::move(samples), targets), split_(content_hash(split)) {
    const std::int64_t count = this->samples().size();
    require(count >= 2, text("--split: {} holds {} sample", directory().c_str(), count),
            "each split needs a sample of its own");
    std::vector<std::string> names;
    names.reserve(static_cast<std::size_t>(count));
    const bool one_file = files().size() == 1;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::string name = this->samples().name(i);
      names.push_back(one_file ? name : plain_name(name.substr(0, name.rfind(':'))));
    }
    kept_ = in_share(share, split, names);
    identify(fmt::format("{:g} for {}", share, split));
  }

  std::int64_t size() const override { return std::ssize(kept_); }
  Shape shape_of(std::int64_t sample) const override { return samples().shape_of(place(sample)); }
  std::string name(std::int64_t sample) const override { return samples().name(place(sample)); }
  std::optional<Orientation> orientation_of(std::int64_t sample) const override {
    return samples().orientation_of(place(sample));
  }
  /// A hash of what the split has of the file.
  std::uint64_t file_hash(std::int64_t file) const override {
    return samples().file_hash(file) + split_;
  }
  std::unique_ptr<SampleReader> reader() const override;
  /// The number of a sample in the other data set.
  std::int64_t place(std::int64_t sample) const {
    return kept_.at(static_cast<std::size_t>(sample));
  }

 private:
  friend class SharedReader;
  std::vector<std::int64_t> kept_;
  std::uint64_t split_;
};

class SharedReader final : public SampleReader {
 public:
  explicit SharedReader(const SharedDataset& data)
      : data_(data), samples_(data.samples().reader()) {}

  DataType type() const override { return samples_->type(); }
  void read(std::int64_t sample, AnyView dst, AnyView targets) override {
    samples_->read(data_.place(sample), dst, targets);
  }
  void read_slabs(std::int64_t sample, const Box& box, const SlabSink& sink,
                  AnyView targets) override {
    samples_->read_slabs(data_.place(sample), box, sink, targets);
  }
  void stream(std::int64_t sample, const VoxelSink& sink, AnyView targets) override {
    samples_->stream(data_.place(sample), sink, targets);
  }
  void stream_labels(std::int64_t sample, const VoxelSink& sink) override {
    samples_->stream_labels(data_.place(sample), sink);
  }
  void expect(std::int64_t sample) override { samples_->expect(data_.place(sample)); }

 private:
  const SharedDataset& data_;
  std::unique_ptr<SampleReader> samples_;
};

std::unique_ptr<SampleReader> SharedDataset::reader() const {
  return std::make_unique<SharedReader>(*this);
}

}  // namespace

std::unique_ptr<const Dataset> with_share(std::unique_ptr<const Dataset> samples,
                                          const TargetSpec& targets, double share,
                                          const std::string& split) {
  return std::make_unique<SharedDataset>(std::move(samples), targets, share, split);
}

}  // namespace halomesh
