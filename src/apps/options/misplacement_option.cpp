// SPDX-License-Identifier: Apache-2.0
// The option --affine-mismatch: see misplacement_option.hpp.
#include "src/apps/options/misplacement_option.hpp"

#include <iostream>

#include "printable.hpp"

namespace halomesh {
namespace {

constexpr const char* kMisplacement = "affine-mismatch";

}  // namespace

void add_misplacement_option(Options& options) {
  options.as(SettingRole::kComputing)
      .add_choice(kMisplacement, {"warn", "refuse"}, "warn",
                  "where the headers of an image and of its labels place voxels differently: "
                  "warn, or refuse the data");
}

void heed_misplacement(const Comm& world, const Options& options, const Dataset& data) {
  const std::string problem = data.misplacement();
  if (problem.empty()) return;
  if (options.get<std::string>(kMisplacement) == "refuse")
    throw Error(problem,
                "resample the labels to the grid of the image, or correct the header that is "
                "wrong; --affine-mismatch warn uses them voxel by voxel");
  if (world.rank() == 0)
    std::cerr << "WARNING: " << printable(problem)
              << "; they are used voxel by voxel; hint: compare them in a viewer; "
                 "--affine-mismatch refuse makes this an error\n";
}

}  // namespace halomesh
