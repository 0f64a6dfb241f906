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

std::string resolved_standardization(const Comm& world, const std::string& wanted,
                                     const std::string& stored, const Dataset& training) {
  if (wanted != "on") return wanted;
  if (stored != "off") return stored;
  return to_text(channel_scales(world, training, kStandardizationSamples));
}

}  // namespace halomesh
