// SPDX-License-Identifier: Apache-2.0
// Files in the DeepCAM benchmark's format: see climate_file.hpp.
#include "runtime/data/climate_file.hpp"

#include <algorithm>
#include <string>
#include <system_error>

#include "error.hpp"
#include "runtime/data/dataset_format.hpp"
#include "runtime/data/hdf5_field.hpp"
#include "runtime/data/hdf5_kind.hpp"
#include "runtime/hdf5/hdf5_file.hpp"
#include "runtime/posix/atomic_file.hpp"

namespace halomesh {
namespace {

template <class T>
void write_dataset(Hdf5File& file, const std::string& name, const Extents& extents,
                   std::span<const T> values) {
  file.create_dataset(name, hdf5_type<T>(), extents);
  file.write<T>(name, Slab::whole(extents), values);
}

}  // namespace

void write_climate_file(const std::filesystem::path& path, const Shape& shape,
                        std::span<const float> values, std::span<const std::uint8_t> labels) {
  AtomicFile target(path);
  Hdf5File file = Hdf5File::create(target.temporary_path());
  const std::vector<std::int32_t> wide(labels.begin(), labels.end());
  write_dataset(file, kClimateKind.voxels.name, {shape.d, shape.w, shape.c}, values);
  write_dataset(file, kClimateKind.labels.name, {shape.d, shape.w},
                std::span<const std::int32_t>(wide));
  file.close();
  target.commit();
}

std::vector<ChannelSums> channel_sums(std::span<const float> values, std::int64_t channels) {
  const auto count = static_cast<std::size_t>(channels);
  std::vector<ChannelSums> sums(count);
  for (std::size_t c = 0; c < count; ++c) sums[c].least = sums[c].most = values[c];
  for (std::size_t i = 0; i < values.size(); ++i) {
    ChannelSums& s = sums[i % count];
    const double x = values[i];
    s.pixels += 1;
    s.sum += x;
    s.squares += x * x;
    s.least = std::min(s.least, values[i]);
    s.most = std::max(s.most, values[i]);
  }
  return sums;
}

void add(const std::vector<ChannelSums>& more, std::vector<ChannelSums>& sums) {
  if (sums.empty())
    sums = more;
  else
    for (std::size_t c = 0; c < sums.size(); ++c) {
      sums[c].pixels += more[c].pixels;
      sums[c].sum += more[c].sum;
      sums[c].squares += more[c].squares;
      sums[c].least = std::min(sums[c].least, more[c].least);
      sums[c].most = std::max(sums[c].most, more[c].most);
    }
}

void write_climate_stats(const std::filesystem::path& path, const std::vector<ChannelSums>& sums) {
  AtomicFile target(path);
  Hdf5File file = Hdf5File::create(target.temporary_path());
  const auto write = [&](const char* name, const auto& value_of) {
    std::vector<float> values;
    values.reserve(sums.size());
    for (const ChannelSums& s : sums) values.push_back(static_cast<float>(value_of(s)));
    write_dataset(file, std::string("/climate/") + name, {std::ssize(values)},
                  std::span<const float>(values));
  };
  write("count", [](const ChannelSums& s) { return s.pixels; });
  write("mean", [](const ChannelSums& s) { return s.sum / s.pixels; });
  write("sqmean", [](const ChannelSums& s) { return s.squares / s.pixels; });
  write("minval", [](const ChannelSums& s) { return s.least; });
  write("maxval", [](const ChannelSums& s) { return s.most; });
  file.close();
  target.commit();
}

namespace {

/// The ranges of the channels of a climate data set, from its training split.
std::vector<ChannelRange> ranges_in(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kStats;
  std::error_code ignored;
  require(std::filesystem::exists(path, ignored), text("{} is missing", path.c_str()),
          "it holds the ranges of the channels, climate/minval and climate/maxval: copy it from "
          "the data set");
  Hdf5File file = Hdf5File::open(path);
  const auto read = [&](const char* name) {
    require(file.contains(name), text("{} has no dataset {}", path.c_str(), name),
            "copy it again from the data set");
    const Extents extents = file.extents(name);
    require(extents.size() == 1, text("{}: {} has {} axes", path.c_str(), name, extents.size()),
            "there must be one number for each channel");
    std::vector<float> values;
    read_numbers(file, name, Slab::whole(extents), values);
    return values;
  };
  const std::vector<float> least = read("climate/minval"), most = read("climate/maxval");
  require(least.size() == most.size(),
          text("{}: {} minima and {} maxima", path.c_str(), least.size(), most.size()),
          "copy it again from the data set");
  std::vector<ChannelRange> ranges;
  for (std::size_t c = 0; c < least.size(); ++c) ranges.push_back({least[c], most[c]});
  return ranges;
}

const Registered<DatasetFormat> kRegistered([] {
  return DatasetFormat{
      .name = "DeepCAM",
      .files = "SPLIT/*.h5 or *.hdf5 with climate/data and climate/labels_0, beside stats.h5",
      .targets = FormatTargets::kLabels,
      .has_name = is_hdf5_name,
      .recognizes =
          [](const auto& first, const auto& source) {
            return source.inputs.empty() && has_datasets(first, {kClimateKind.voxels.name});
          },
      .lacks_targets = [](const auto& first, const auto&,
                          const auto&) { return !has_datasets(first, {kClimateKind.labels.name}); },
      .values = [](const auto&,
                   const auto& source) { return SampleFormat::field(ranges_in(source.directory)); },
      .open = open_hdf5<kClimateKind>};
});

}  // namespace

}  // namespace halomesh
