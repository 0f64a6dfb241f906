// SPDX-License-Identifier: Apache-2.0
// The nodes of a graph that are computed before any sample: integers, shapes and small numbers.
#pragma once

#include <vector>

#include "models/onnx/node.hpp"

namespace halomesh {

/// The outputs of a node all of whose inputs are constants (or absent); empty if its operator is
/// not one that is computed beforehand. Throws Error for inputs that do not fit.
std::vector<OnnxConstant> fold_onnx(const OnnxNode& node);

/// The output of a node Shape for an input of these dimensions.
OnnxConstant shape_of(const OnnxNode& node, const OnnxDims& dims);

}  // namespace halomesh
