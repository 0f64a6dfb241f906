// SPDX-License-Identifier: Apache-2.0
// Crops and padding of training samples: see training_crops.hpp.
#include "src/apps/train/training_crops.hpp"

#include "src/apps/options/padding_option.hpp"
#include "src/apps/train/network_on_mesh.hpp"

namespace halomesh {

Options padded_network_options(const Options& options) {
  return options.read<CropOptions>().random ? options : with_padded_input(options);
}

std::optional<CropOptions> crop_options(const Options& options) {
  auto crops = options.read<CropOptions>();
  if (!crops.random && !options.is_given("pad")) return {};
  if (options.is_given("pad")) crops.padding = static_cast<float>(options.get<double>("pad"));
  return crops;
}

Shape sample_shape(const Options& options, const std::optional<CropOptions>& crops) {
  const auto input = options.get<Shape>("input");
  return crops ? Shape{input.c, 0, 0, 0} : input;
}

std::string describe(const CropOptions& crops, const Shape& input) {
  std::string line = crops.random
                         ? fmt::format("random crops of {}, {:g} % of them around foreground",
                                       input, 100 * crops.foreground)
                         : fmt::format("samples are put into the middle of {}", input);
  if (crops.padding) line += fmt::format("; voxels outside of a sample are {:g}", *crops.padding);
  return line;
}

}  // namespace halomesh
