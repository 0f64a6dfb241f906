// SPDX-License-Identifier: Apache-2.0
// Means and deviations of a data set: see standardization.hpp.
#include "src/apps/train/standardization.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "error.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "src/apps/options/standardize_option.hpp"

namespace halomesh {

std::vector<ChannelScale> channel_scales(const Comm& world, const Dataset& dataset,
                                         std::int64_t samples) {
  require(dataset.format().type() == DataType::kInt16,
          text("--standardize: the samples in {} are {}, not counts", dataset.directory().c_str(),
               name_of(dataset.format().type())),
          "leave --standardize out: only the logarithms of counts are standardized");
  const auto table = log_table();
  const auto channels = static_cast<std::size_t>(dataset.shape().c);
  std::vector<std::int64_t> histogram(channels * table.size());
  const std::int64_t used = std::min(samples, dataset.size());
  run_with_collective_errors(world, [&](const std::function<bool()>& others_failed) {
    const auto reader = dataset.reader();
    for (std::int64_t i = world.rank(); i < used && !others_failed(); i += world.size())
      reader->read_slabs(i * dataset.size() / used, Box::whole(dataset.shape()),
                         [&](AnyConstView values) {
                           const auto slab = values.as<std::int16_t>();
                           for (std::size_t v = 0;
                                v < static_cast<std::size_t>(slab.sample_volume()); ++v)
                             ++histogram[v % channels * table.size() +
                                         (static_cast<std::size_t>(slab.data[v]) & 0x7FFFU)];
                         },
                         {});
  });
  world.sum(histogram);
  std::vector<ChannelScale> scales;
  for (std::size_t c = 0; c < channels; ++c) {
    double voxels = 0, sum = 0, squares = 0;
    const auto each = [&](const auto& add) {
      for (std::size_t x = 0; x < table.size(); ++x)
        add(static_cast<double>(histogram[c * table.size() + x]),
            std::log1p(static_cast<double>(x)));
    };
    each([&](double n, double y) { voxels += n, sum += n * y; });
    const double mean = sum / voxels;
    each([&](double n, double y) { squares += n * (y - mean) * (y - mean); });
    scales.push_back({mean, squares > 0 ? std::sqrt(squares / voxels) : 1});
  }
  return scales;
}

std::vector<TargetRange> target_ranges(const Comm& world, const Dataset& dataset,
                                       std::int64_t samples) {
  const auto targets = static_cast<std::size_t>(dataset.targets());
  // The negative of the least value comes first, so that both are maxima.
  std::vector<double> most(2 * targets, -std::numeric_limits<double>::infinity());
  const std::int64_t used = std::min(samples, dataset.size());
  run_with_collective_errors(world, [&](const std::function<bool()>& others_failed) {
    const auto reader = dataset.reader();
    std::vector<float> row(targets);
    for (std::int64_t i = world.rank(); i < used && !others_failed(); i += world.size()) {
      reader->read(i * dataset.size() / used, {}, scalars(row));
      for (std::size_t t = 0; t < targets; ++t) {
        most[2 * t] = std::max<double>(most[2 * t], -row[t]);
        most[2 * t + 1] = std::max<double>(most[2 * t + 1], row[t]);
      }
    }
  });
  std::vector<TargetRange> ranges;
  for (std::size_t t = 0; t < targets; ++t)
    ranges.push_back({static_cast<float>(-world.max(most[2 * t])),
                      static_cast<float>(world.max(most[2 * t + 1]))});
  return ranges;
}

std::vector<ChannelScale> target_scales(const std::vector<TargetRange>& targets,
                                        const OutputRange& outputs) {
  double low = outputs.low >= 0 ? 0 : -1, high = 1;
  if (outputs.is_bounded()) {
    const double margin = (outputs.high - outputs.low) / 12;
    low = outputs.low + margin;
    high = outputs.high - margin;
  }
  std::vector<ChannelScale> scales;
  for (const TargetRange& t : targets) {
    const double extent = static_cast<double>(t.most) - t.least;
    const double deviation = extent > 0 ? extent / (high - low) : 1;
    scales.push_back({t.least - deviation * low, deviation});
  }
  return scales;
}

}  // namespace halomesh
