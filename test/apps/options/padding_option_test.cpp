// SPDX-License-Identifier: Apache-2.0
// --pad gives the network the extents that training would.
#include "src/apps/options/padding_option.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "src/apps/bench/bench_options.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/scaling_options.hpp"
#include "src/apps/options/train_options.hpp"
#include "src/apps/train/training_crops.hpp"

namespace halomesh {
namespace {

Options parsed(Options options, std::vector<std::string> more) {
  const std::vector<std::string> unet{"--model", "unet3d", "--levels", "3"};
  more.insert(more.begin(), unet.begin(), unet.end());
  options.parse(more);
  return options;
}

TEST_CASE("--pad: samples of any extents have the network's input of training") {
  Options training("train", "");
  add_model_options(training);
  add_training_options(training, "run");
  const std::vector<std::string> odd{"--input", "18x17x21x1", "--pad", "-2.2"};
  std::vector<std::string> trained = odd;
  trained.insert(trained.end(), {"--data", "d"});
  const Shape expected{1, 20, 20, 24};
  CHECK(padded_network_options(parsed(training, trained)).get<Shape>("input") == expected);
  int checked = 0;
  for (const Options& options : {bench_options(), scaling_options()}) {
    const Options given = parsed(options, odd);
    CHECK(with_padded_input(given).get<Shape>("input") == expected);
    CHECK(given.get<Shape>("input") == Shape{1, 18, 17, 21});
    CHECK(describe_padding(given) == "samples of 18x17x21x1 are padded to 20x20x24x1");
    CHECK_THROWS_AS(make_model(given), UsageError);
    CHECK(make_model(with_padded_input(given)).input() == expected);
    ++checked;
  }
  CHECK(checked == 2);
  // Crops have the extents that are given; so have samples that need no padding.
  trained.insert(trained.end(), {"--patches", "random"});
  CHECK(padded_network_options(parsed(training, trained)).get<Shape>("input") ==
        Shape{1, 18, 17, 21});
  const Options even = parsed(bench_options(), {"--input", "16x20x24x1", "--pad", "0"});
  CHECK(describe_padding(even).empty());
  CHECK_FALSE(read_bench_plan(even, 1).pads);
  CHECK(read_bench_plan(parsed(bench_options(), odd), 1).pads);
}

}  // namespace
}  // namespace halomesh
