// SPDX-License-Identifier: Apache-2.0
// Helpers of layers that hold fp32 or bf16: the check of their inputs' type, and code for either.
#pragma once

#include <span>

#include "error.hpp"
#include "src/nn/data_type.hpp"

namespace halomesh {

/// Throws Error naming `layer` unless all inputs have the layer's type; returns that type.
inline DataType require_type(std::span<const DataType> src, DataType type, const char* layer) {
  for (const DataType given : src)
    require(given == type, text("{} of {} given {}", layer, name_of(type), name_of(given)),
            "let the layer before it write the type that this layer was made for");
  return type;
}

/// Calls body(T{}) for the element type T, float or Bfloat16.
template <class Body>
void with_float_type(DataType type, const Body& body) {
  if (type == DataType::kBfloat16)
    body(Bfloat16{});
  else
    body(float{});
}

}  // namespace halomesh
