// SPDX-License-Identifier: Apache-2.0
// Checks that a layer cut over parts equals its serial fp64 reference: output, input gradients and
// parameter gradients, with halos moved in one process or otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "test/harness/layer_cut.hpp"
#include "test/harness/reference.hpp"

namespace halomesh {

/// One layer, one cut, one set of random data (a function of `seed` and the global index).
struct LayerCase {
  std::string name;
  std::function<std::unique_ptr<Layer>()> make_layer;  ///< a fresh layer for each part
  CutRequest cut;
  Reference reference;
  Pass pass{true, 1, 0, 0};
  std::uint64_t seed = 1;
  bool linear = false;  ///< linear in (src, bias): test <Ax, y> == <x, A'y> as well
  bool repeat = false;  ///< run the step twice on the same layers and demand identical bits
  /// Maps the uniform values in [-1, 1) of src, e.g. to make ties; may be empty.
  std::function<float(float)> src_value;
  /// These map values of parameters and of diff_dst.
  std::function<float(float)> parameter_value, diff_value;
};

/// The numbers of compared elements (global) and moved ones, and one line for each failed
/// comparison.
struct CheckReport {
  std::int64_t dst = 0, diff_src = 0, diff_parameters = 0, moved = 0;
  std::vector<std::string> failures;
};

/// Runs one step of all parts of a case and returns the global results; may be called again.
struct GatheredStep;
using LayerStep = std::function<GatheredStep()>;
/// Makes the layers of a case with these values; both outlive the LayerStep.
using MakeLayerStep = std::function<LayerStep(const LayerCase&, const ReferenceInput&)>;

/// Runs the case, by default with all parts in this process. Memory that a layer must not read or
/// leave unwritten is NaN beforehand: unfilled halos, span margins, gradients. Chunks that need no
/// remote data run before the halos are filled. Rethrows the layer's exceptions.
CheckReport check_layer(const LayerCase& test);
CheckReport check_layer(const LayerCase& test, const MakeLayerStep& make_step);

/// Runs check_layer() and expects no failures, and comparisons of output, input gradients (if
/// needed) and parameter gradients (if any). Returns the report for further counting.
CheckReport expect_layer(const LayerCase& test);

/// Runs expect_layer() on each of `grids`, then on 2x2x1 with a source that spans more than
/// necessary: training, without the gradient of the source, and in evaluation.
void expect_on_all_cuts(LayerCase test, std::span<const PartGrid> grids);

/// Blocks of channels over all of space that end at these channels, one after the other; a part
/// between equal ends has none.
Partition channel_blocks(const Shape& shape, const std::vector<std::int64_t>& ends);

}  // namespace halomesh
