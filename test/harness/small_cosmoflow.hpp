// SPDX-License-Identifier: Apache-2.0
// A CosmoFlow of two blocks for tests that need its structure, not its size.
#pragma once

#include "models/cosmoflow.hpp"

namespace halomesh {

inline CosmoFlowOptions small_cosmoflow(DataType input_type = DataType::kFloat32) {
  CosmoFlowOptions options;
  options.input = {4, 16, 16, 16};
  options.filters = 4;
  options.conv_layers = 2;
  options.input_type = input_type;
  return options;
}

}  // namespace halomesh
